// The package as users get it: packed, installed in an empty folder, from both kinds of modules, bundled, and from TypeScript.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cp, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { URL as SERVER, atEnd, fresh } from './servers.mjs';

const run = promisify(execFile);
const root = join(import.meta.dirname, '..');
const folder = await mkdtemp(join(tmpdir(), 'rlock-'));
atEnd(() => rm(folder, { recursive: true }));

const USE = `locks => locks.using('${fresh()}', { fenced: true }, ({ token }) => {
  console.log(typeof token);
  return locks.close();
}).catch(error => console.log(error.code))`;

test('packed and installed, it works', async () => {
  const { stdout } = await run('npm', ['pack', '--json', '--pack-destination', folder], { cwd: root });
  const [{ filename, files }] = JSON.parse(stdout);
  const names = files.map(({ path }) => path).sort();
  assert.ok(names.includes('LICENSE') && names.includes('README.md') && names.some(name => name.endsWith('.node')), `${names}`);
  assert.ok(!names.some(name => /^test\/|\.test\.|example|\.rs$|lock\.json/.test(name)), `${names}`);
  await writeFile(join(folder, 'package.json'), '{}');
  await run('npm', ['install', '--offline', '--no-audit', '--no-fund', join(folder, filename)], { cwd: folder });
  assert.deepEqual((await readdir(join(folder, 'node_modules'))).filter(name => !name.startsWith('.')), ['rlock-client']);

  await writeFile(join(folder, 'use.mjs'), `import { Locks } from 'rlock-client';
    import Redlock from 'rlock-client/redlock';
    if (typeof Redlock !== 'function') throw new Error('no Redlock');
    await Locks.connect('${SERVER}').then(${USE});`);
  await writeFile(join(folder, 'use.cjs'), `const { Locks } = require('rlock-client');
    const { default: Redlock } = require('rlock-client/redlock');
    if (typeof Redlock !== 'function') throw new Error('no Redlock');
    Locks.connect('${SERVER}').then(${USE});`);
  const esbuild = join(root, 'node_modules/esbuild-wasm/bin/esbuild');
  for (const [name, flag] of [['without', '--external:rlock-client'], ['within', '--loader:.node=copy']]) {
    await run(process.execPath, [esbuild, 'use.cjs', '--bundle', '--platform=node', flag, `--outdir=${name}`], { cwd: folder });
  }
  for (const file of ['use.mjs', 'use.cjs', 'without/use.js', 'within/use.js']) {
    // The client is closed while the lock is held, so the program gets RLOCK_CLOSED.
    assert.equal((await run(process.execPath, [file], { cwd: folder })).stdout, 'number\nRLOCK_CLOSED\n', file);
  }
});

test('both kinds of modules have the same classes', async () => {
  const imported = await import('rlock-client'), required = createRequire(import.meta.url)('rlock-client');
  assert.equal(imported.Locks, required.Locks);
  assert.deepEqual(Object.keys(required).filter(name => imported[name] !== required[name]), []);
});

test('its types are right, strictly, in both kinds of modules', async () => {
  const tsc = join(root, 'node_modules/typescript/bin/tsc');
  const strictly = ['--noEmit', '--strict', '--target', 'es2022', '--lib', 'es2023,esnext.disposable', '--types', 'node'];
  const programs = ['cts', 'mts'].map(kind => join(import.meta.dirname, `program.${kind}`));
  for (const program of programs) {
    await cp(join(import.meta.dirname, 'program.ts'), program);
    atEnd(() => rm(program));
  }
  await run(process.execPath, [tsc, ...strictly, '--module', 'nodenext', ...programs], { cwd: root });
});

test('an unsupported platform is reported in one line', async () => {
  const bare = join(folder, 'bare');
  await cp(root, bare, { recursive: true, filter: path => !/node_modules|\.node$/.test(path) });
  await assert.rejects(run(process.execPath, ['-e', "require('./index.js')"], { cwd: bare }), ({ stderr }) => {
    assert.match(stderr, /^Error: rlock-client has no build that works on \S+-\S+/m);
    return true;
  });
});
