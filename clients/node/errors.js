// The errors: a class to catch, and a code, for each word that the clients of all languages share. `reason` says why a lock
// was lost: not-held, overwritten, not-renewed or ended.
'use strict';

class LockError extends Error {
  // A getter, so that the name is there for the first line of the stack.
  get name() { return this.constructor.name; }

  constructor(message, options) {
    super(message, options);
    this.code = `RLOCK${this.name.replace(/[A-Z]/g, letter => `_${letter}`).toUpperCase()}`;
  }
}

const classes = { LockError };
for (const name of [
  'Busy', 'Lost', 'InDoubt', 'Unavailable', 'TooFewReplicas', 'QueueFull', 'WrongKind', 'Deadlock', 'NoModule', 'OldModule',
  'NoRight', 'Refused', 'Configuration', 'Closed',
]) {
  classes[name] = { [name]: class extends (name === 'InDoubt' ? classes.Lost : LockError) {} }[name];
}

function errorOf(word, message, reason) {
  const error = new classes[word.replace(/(^|-)./g, letter => letter.at(-1).toUpperCase())](message);
  return reason ? Object.assign(error, { reason }) : error;
}

module.exports = { ...classes, errorOf };
