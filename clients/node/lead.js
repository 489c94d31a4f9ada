// Leads: waits for a lock, does the work while it holds the lock, and queues again when a turn is over.
'use strict';

const { now } = require('./calls.js');
const { Lost, QueueFull, TooFewReplicas, Unavailable } = require('./errors.js');

const FIRST_PAUSE = 50;
const LONGEST_PAUSE = 5_000;

const isTemporary = error => [Lost, QueueFull, TooFewReplicas, Unavailable].some(kind => error instanceof kind);

async function lead(lock, signal, work, pause) {
  for (let failures = 0; ;) {
    let held, failed;
    try {
      held = await lock.acquire();
      await held.around(async () => {
        try {
          await work(held);
        } catch (error) {
          failed = { error };
        }
      }, signal);
      failures = 0;
    } catch (error) {
      if (!isTemporary(error)) throw error;
      // A loss after a long turn does not follow from the failures before that turn.
      if (held && now() - held.started > LONGEST_PAUSE) failures = 0;
      await pause(Math.min(FIRST_PAUSE * 2 ** failures++, LONGEST_PAUSE), error);
      continue;
    }
    if (failed) throw failed.error;
  }
}

module.exports = { lead };
