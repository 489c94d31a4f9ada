// What callers may ask for, checked by name and by value: a misspelt `wait` would wait forever.
'use strict';

const { isUtf8 } = require('node:buffer');
const { Configuration } = require('./errors.js');

const isTime = value => value >= 0 && value < 2 ** 53;
const isCount = value => Number.isInteger(value) && value > 0 && value < 2 ** 32;
const isBoolean = value => typeof value === 'boolean';
const isText = value => typeof value === 'string';
const isName = value => isText(value) || value instanceof Uint8Array;
const isPem = value => [value].flat().every(isName);

const LOCK = {
  __proto__: null,
  wait: value => isTime(value) || value === Infinity, lease: isTime, fixed: isBoolean, fenced: isBoolean, owner: isName,
  maxWaiters: isCount, replicas: value => isCount(value?.count) && isTime(value.within),
  signal: value => typeof value?.aborted === 'boolean',
};
// A leader waits forever.
const LEAD = { __proto__: null, ...LOCK, wait: undefined, maxWaiters: undefined };
const { wait, lease, maxWaiters, signal } = LOCK;
const ONCE = { __proto__: null, keep: isTime, wait, lease, maxWaiters, signal };
const CLIENT = {
  __proto__: null,
  lease: isTime, patience: isTime, connectTimeout: isTime, answerTimeout: isTime, name: isText, ca: isPem, cert: isPem,
  key: isPem,
};

function check(name, is, value) {
  if (!is?.(value)) throw new Configuration(is ? `${name}: cannot be ${String(value)}` : `${name}: there is no such option`);
  return value;
}

function given(options, known) {
  const all = Object.entries(options ?? {}).filter(([, value]) => value !== undefined);
  for (const [name, value] of all) check(name, known[name], value);
  return Object.fromEntries(all);
}

const lead = options => given(options, LEAD);

function once(options) {
  const { keep, wait, ...rest } = given(options, ONCE);
  if (keep === undefined) throw new Configuration('keep: how long the answer is kept has to be given');
  return { ...rest, keep, wait: wait === Infinity ? undefined : wait };
}

const name = value => check('the name of a lock', isName, value);

const limit = value => check('limit', isCount, value);

const within = value => (value === undefined ? undefined : check('within', isTime, value));

// The locks, as the native part takes them.
const wanted = (kind, names, limit = 0) => ({ kind, names, bytes: names.map(each => Buffer.from(name(each))), limit });

// Kinds by their words in the text of a detached lock.
const KINDS = { __proto__: null, plain: 'lock', read: 'read', write: 'write', permit: 'permit', several: 'all' };

// The locks in such a text. The native part checks whether the text is right.
function detached(text) {
  const [, kind, , , , , ...keys] = isText(text) ? text.split('/') : [];
  // The text is secret.
  if (!KINDS[kind] || keys.length === 0) throw new Configuration('adopt: this is not the text of a detached lock');
  const names = keys.map(key => {
    const bytes = Buffer.from(key.replace(/%(..)/g, (_, byte) => String.fromCharCode(parseInt(byte, 16))), 'latin1');
    return isUtf8(bytes) ? String(bytes) : bytes;
  });
  return { kind: KINDS[kind], names };
}

// The terms, as the native part takes them. A term that is not given is as in `others`.
function terms(kind, options, others) {
  const { replicas, owner, wait, ...own } = given(options, LOCK), rest = { ...others, ...own };
  if (rest.fixed && rest.lease === undefined) throw new Configuration('fixed: needs `lease`, its length');
  if (owner !== undefined && ['permit', 'all'].includes(kind)) throw new Configuration('owner: only a single lock has one');
  if (replicas) Object.assign(rest, { replicas: replicas.count, within: replicas.within });
  if (owner !== undefined) rest.owner = Buffer.from(owner);
  if (wait !== undefined) rest.wait = wait === Infinity ? undefined : wait;
  return rest;
}

function settings(options) {
  const pem = ([name, value]) => [name, ['ca', 'cert', 'key'].includes(name) ? [value].flat().map(String).join('\n') : value];
  return Object.fromEntries(Object.entries(given(options, CLIENT)).map(pem));
}

// A string is also a list, of its letters.
function names(value) {
  if (isName(value)) throw new Configuration('the names of locks: a list is needed');
  return [...value];
}

module.exports = { terms, lead, once, names, wanted, detached, settings, name, limit, within };
