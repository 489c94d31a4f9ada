// Which build native.js takes, with packages for platforms that are made up here.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';

const root = join(import.meta.dirname, '..');
const folder = await mkdtemp(join(tmpdir(), 'rlock-'));
after(() => rm(folder, { recursive: true }));

/** What native.js loads where these packages are installed, on this platform. */
async function loaded(packages, platform = 'linux', arch = 'arm64') {
  const modules = join(folder, 'node_modules');
  await rm(modules, { recursive: true, force: true });
  for (const [name, code] of Object.entries(packages)) {
    await mkdir(join(modules, `rlock-client-${name}`), { recursive: true });
    await writeFile(join(modules, `rlock-client-${name}`, 'index.js'), code);
  }
  await cp(join(root, 'native.js'), join(folder, 'native.js'));
  const program = `for (const [name, value] of [['platform', '${platform}'], ['arch', '${arch}']]) Object.defineProperty(process, name, { value });
    try { console.log(require('./native.js')) } catch (error) { console.log(error.message) }`;
  return execFileSync(process.execPath, ['-e', program], { cwd: folder, encoding: 'utf8' }).trim();
}

const is = name => `module.exports = '${name}'`, fails = "throw new Error('invalid ELF header')";

test('each platform takes its own package', async () => {
  for (const name of ['linux-x64-gnu', 'linux-x64-musl', 'linux-arm64-gnu', 'linux-arm64-musl', 'darwin-x64', 'darwin-arm64', 'win32-x64']) {
    assert.equal(await loaded({ [name]: is(name) }, ...name.split('-')), name);
  }
});

test('of both C libraries the one that loads', async () => {
  assert.equal(await loaded({ 'linux-arm64-gnu': fails, 'linux-arm64-musl': is('musl') }), 'musl');
  assert.equal(await loaded({ 'linux-arm64-gnu': is('gnu'), 'linux-arm64-musl': fails }), 'gnu');
});

test('a build that does not load says why, and a platform without any is named', async () => {
  assert.equal(await loaded({ 'linux-arm64-gnu': fails }), 'rlock-client has no build that works on linux-arm64: invalid ELF header');
  assert.equal(await loaded({}, 'sunos', 'x64'), 'rlock-client has no build that works on sunos-x64');
});
