// The part that is built, a file for each platform. Each is named in full, so that bundlers and tracers of files find it.
'use strict';

function load() {
  try {
    return process.arch === 'arm64' ? require('./rlock.linux-arm64-gnu.node') : require('./rlock.linux-x64-gnu.node');
  } catch (error) {
    const reason = error.code === 'MODULE_NOT_FOUND' ? '' : `: ${error.message}`;
    throw new Error(`rlock-client has no build that works on ${process.platform}-${process.arch}${reason}`);
  }
}

module.exports = load();
