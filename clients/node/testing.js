'use strict';
// A server of locks for tests: `rlock dev`, the engine of the rlock module on locks in memory. It starts in some ms.

const { spawn } = require('node:child_process');
const { once } = require('node:events');
const { accessSync, constants } = require('node:fs');
const { delimiter, join } = require('node:path');

const MISSING = 'there is no rlock on PATH: install the command (cargo install --path cli, in a checkout of rlock), '
  + 'or set RLOCK_BIN to it';

// Options are those of `rlock dev`: ['--set', 'max-waiters=10'].
async function serve(options = []) {
  const program = process.env.RLOCK_BIN || onPath();
  if (!program) throw new Error(MISSING);
  // The server ends when its input ends, so also when this process does.
  const child = spawn(program, ['dev', '--port', '0', '--until-eof', ...options], { stdio: 'pipe' });
  const ended = once(child, 'close');
  let output = '', errors = '';
  child.stderr.on('data', data => { errors += data; });
  const begun = new Promise((resolve, reject) => {
    child.stdout.on('data', data => {
      output += data;
      if (output.includes('\n')) resolve(output.trim());
    });
    ended.then(() => reject(new Error(`${program} dev does not start: ${errors.trim()}`)), reject);
  });
  const url = await begun;
  // The server does not keep this process from ending.
  for (const part of [child, child.stdin, child.stdout, child.stderr]) part.unref();
  return {
    url,
    async close() {
      child.ref();
      child.stdin.end();
      await ended;
    },
  };
}

// A server for the tests of a file, by the hooks of its test runner: before and after, or beforeAll and afterAll.
function serveAround(before, after, options) {
  let server;
  before(async () => { server = await serve(options); });
  after(() => server?.close());
  return {
    get url() {
      if (!server) throw new Error('the server is there from the `before` hook on: ask for its url in a test');
      return server.url;
    },
  };
}

function onPath() {
  const places = (process.env.PATH ?? '').split(delimiter).filter(Boolean).map(place => join(place, 'rlock'));
  return places.find(place => {
    try {
      accessSync(place, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

module.exports = { serve, serveAround };
