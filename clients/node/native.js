// The part that is built: a file for each platform, in this package or in one of its own. Of the two C libraries that Linux
// has, the file for the wrong one does not load.
'use strict';

const platform = `${process.platform}-${process.arch}`;
const builds = platform.startsWith('linux') ? [`${platform}-gnu`, `${platform}-musl`] : [platform];

function load([file, ...others], why = '') {
  try {
    return require(file);
  } catch (error) {
    const reason = error.code === 'MODULE_NOT_FOUND' ? why : `: ${error.message}`;
    if (others.length > 0) return load(others, reason);
    throw new Error(`rlock-client has no build that works on ${builds.join(' or ')}${reason}`);
  }
}

module.exports = load(builds.flatMap(build => [`./rlock.${build}.node`, `rlock-client-${build}`]));
