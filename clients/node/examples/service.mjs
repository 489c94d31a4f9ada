// A web service: an order is shipped once, however many hosts are asked at the same time. `shipments` stands for the service's
// own storage, which refuses a token that is lower than the last it saw: so a host that stalled for too long ships nothing.
//
// RLOCK_URL is the server with the locks, PORT where this service listens.

import express from 'express';
import { Busy, Locks, QueueFull } from 'rlock-client';

const locks = await Locks.connect(process.env.RLOCK_URL ?? 'redis://127.0.0.1:6379', { name: 'shipping' });
const shipments = new Map();

function ship(order, token, signal) {
  const last = shipments.get(order);
  signal.throwIfAborted();
  if (last && last.token >= token) throw new Error(`${order}: an older token than the last`);
  const shipment = { order, token, times: (last?.times ?? 0) + 1 };
  shipments.set(order, shipment);
  return shipment;
}

const service = express();

service.post('/orders/:order/shipment', async (request, response) => {
  const { order } = request.params;
  const gone = new AbortController();
  response.on('close', () => gone.abort()); // a client that has gone waits in no queue
  const options = { wait: 2_000, maxWaiters: 10, fenced: true, signal: gone.signal };
  const shipment = await locks.using(`orders:${order}`, options, ({ token, signal }) => ship(order, token, signal));
  response.json(shipment);
});

service.use((error, request, response, next) => {
  if (response.headersSent || response.destroyed) return next(error);
  if (error instanceof Busy || error instanceof QueueFull) return response.status(503).set('Retry-After', '1').end();
  return response.status(500).json({ error: error.message });
});

const server = service.listen(process.env.PORT ?? 3000, () => console.log(`listening on ${server.address().port}`));

process.once('SIGTERM', () => server.close(() => locks.close()));
