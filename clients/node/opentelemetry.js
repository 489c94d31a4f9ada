// Spans and metrics of what the client publishes on its channels. A lock's name is only in spans: there may be any number of
// names, and in metrics each would be a series of its own.
'use strict';

const { metrics, trace, SpanStatusCode } = require('@opentelemetry/api');
const { subscribe, unsubscribe } = require('node:diagnostics_channel');
const { LockError } = require('./errors.js');

function instrument({ tracerProvider = trace, meterProvider = metrics } = {}) {
  const tracer = tracerProvider.getTracer('rlock-client'), meter = meterProvider.getMeter('rlock-client');
  const losses = meter.createCounter('rlock.losses', { description: 'Locks that were lost while they were held' });

  function timed(name, description) {
    const durations = meter.createHistogram(`${name}.duration`, { unit: 's', description });
    return ({ kind, names, started, duration, error }) => {
      const outcome = !error ? 'ok' : error instanceof LockError ? error.code : 'aborted';
      const attributes = { 'rlock.kind': kind, 'rlock.outcome': outcome };
      durations.record(duration / 1_000, attributes);
      const span = tracer.startSpan(name, { startTime: started, attributes: { ...attributes, 'rlock.names': names.map(String) } });
      if (error) span.setStatus({ code: SpanStatusCode.ERROR, message: String(error) });
      span.end(started + duration);
    };
  }

  const listeners = Object.entries({
    'rlock:wait': timed('rlock.wait', 'How long it took until a lock was granted, or was not'),
    'rlock:hold': timed('rlock.hold', 'How long a lock was held'),
    'rlock:loss': ({ kind }) => losses.add(1, { 'rlock.kind': kind }),
  });
  for (const [name, listener] of listeners) subscribe(name, listener);
  return () => listeners.forEach(([name, listener]) => unsubscribe(name, listener));
}

module.exports = { instrument };
