// Loads the native part, which is in a package for each platform. npm installs the package that fits. An npm that does not
// know about C libraries installs both for Linux, and one of them does not load. A checkout has its build next to this file.
//
// Each package is named in full, directly in a `try`: so bundlers and file tracers find those that are installed, and accept
// that others are not.
'use strict';

function load() {
  let reason = '';
  for (const build of ['-gnu', '-musl', '', '-local']) {
    try {
      switch (`${process.platform}-${process.arch}${build}`) {
        case 'linux-x64-gnu': return require('rlock-client-linux-x64-gnu');
        case 'linux-x64-musl': return require('rlock-client-linux-x64-musl');
        case 'linux-arm64-gnu': return require('rlock-client-linux-arm64-gnu');
        case 'linux-arm64-musl': return require('rlock-client-linux-arm64-musl');
        case 'darwin-x64': return require('rlock-client-darwin-x64');
        case 'darwin-arm64': return require('rlock-client-darwin-arm64');
        case 'win32-x64': return require('rlock-client-win32-x64');
        case 'linux-x64-local': return require('./rlock.linux-x64-gnu.node');
        case 'linux-arm64-local': return require('./rlock.linux-arm64-gnu.node');
      }
    } catch (error) {
      if (error.code !== 'MODULE_NOT_FOUND') reason = `: ${error.message}`;
    }
  }
  throw new Error(`rlock-client has no build that works on ${process.platform}-${process.arch}${reason}`);
}

module.exports = load();
