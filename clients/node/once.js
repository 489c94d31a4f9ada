// One caller does the work for many: its answer is stored, and the others get that answer.
'use strict';

const { Configuration } = require('./errors.js');
const { Held } = require('./held.js');

function bytesOf(value) {
  if (typeof value === 'string' || value instanceof Uint8Array) return Buffer.from(value);
  throw new Configuration(`once: the work has to return a string or bytes, not ${value === null ? 'null' : typeof value}`);
}

async function once(calls, wanted, terms, work) {
  const obtained = await calls.once(wanted, terms, lead => new Held(calls, wanted, lead));
  if (!(obtained instanceof Held)) return obtained;
  return obtained.around(async held => bytesOf(await work(held)), terms.signal, value => obtained.answer(value));
}

module.exports = { once };
