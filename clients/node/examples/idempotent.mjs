// An idempotent HTTP handler: a request that is sent again, with the same Idempotency-Key, gets the answer of the first one.
// In a service with users, the user is a part of the key, too.
//
// RLOCK_URL is the server with the locks, PORT where this service listens.

import { createHash } from 'node:crypto';
import express from 'express';
import { Busy, Locks, QueueFull } from 'rlock-client';

const locks = await Locks.connect(process.env.RLOCK_URL ?? 'redis://127.0.0.1:6379', { name: 'payments' });
const day = 24 * 60 * 60 * 1_000;

const idempotent = handler => async (request, response) => {
  const id = request.get('Idempotency-Key') ?? '';
  if (!/^[\w-]{16,64}$/.test(id)) return response.status(400).json({ error: 'Idempotency-Key: 16 to 64 letters and digits' });
  const hash = createHash('sha256').update(JSON.stringify(request.body)).digest('hex');
  const options = { keep: day, wait: 10_000 };
  const first = await locks.onceJson(`${request.path}:${id}`, options, async ({ signal }) => ({ hash, ...await handler(request, signal) }));
  if (first.hash !== hash) return response.status(422).json({ error: 'Idempotency-Key: used for another request' });
  return response.status(first.status).json(first.body);
};

const payments = []; // stands for the service's own storage
async function pay({ body }, signal) {
  signal.throwIfAborted();
  if (!(body.amount > 0)) throw new Error('no amount'); // not stored: the next request tries again
  return { status: 201, body: { payment: payments.push(body) } };
}

const service = express().use(express.json());
service.post('/payments', idempotent(pay));
service.use((error, request, response, next) => {
  const isBusy = error instanceof Busy || error instanceof QueueFull;
  return isBusy ? response.status(503).set('Retry-After', '1').end() : next(error);
});

const server = service.listen(process.env.PORT ?? 3000, () => console.log(`listening on ${server.address().port}`));
process.once('SIGTERM', () => server.close(() => locks.close()));
