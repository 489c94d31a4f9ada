// Spans and metrics, as the SDK of OpenTelemetry has them.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { AggregationTemporality, InMemoryMetricExporter, MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics';
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base';
import { instrument } from 'rlock-client/opentelemetry';
import { connect, fresh, redis } from './servers.mjs';

test('waits, holds and losses', async () => {
  const spans = new InMemorySpanExporter(), series = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE);
  const tracerProvider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(spans)] });
  const meterProvider = new MeterProvider({ readers: [new PeriodicExportingMetricReader({ exporter: series })] });
  const end = instrument({ tracerProvider, meterProvider });

  const locks = await connect(), name = fresh();
  await locks.using(name, () => locks.lock(name).tryAcquire());
  await locks.using([name], { lease: 1_500 }, async ({ signal }) => {
    await redis.del(name);
    await new Promise(resolve => signal.addEventListener('abort', resolve));
  }).catch(() => {});
  end();
  await locks.using(name, () => {});

  assert.deepEqual(spans.getFinishedSpans().map(({ name, attributes }) => [name, attributes['rlock.outcome']]), [
    ['rlock.wait', 'ok'], ['rlock.wait', 'RLOCK_BUSY'], ['rlock.hold', 'ok'], ['rlock.wait', 'ok'], ['rlock.hold', 'RLOCK_LOST'],
  ]);
  assert.deepEqual(spans.getFinishedSpans()[0].attributes['rlock.names'], [name]);
  await meterProvider.forceFlush();
  const metrics = series.getMetrics().at(-1).scopeMetrics[0].metrics;
  assert.deepEqual(metrics.map(({ descriptor }) => descriptor.name).sort(),
    ['rlock.hold.duration', 'rlock.losses', 'rlock.wait.duration']);
  const labels = metrics.flatMap(({ dataPoints }) => dataPoints).flatMap(({ attributes }) => Object.keys(attributes));
  assert.deepEqual([...new Set(labels)].sort(), ['rlock.kind', 'rlock.outcome']);
});
