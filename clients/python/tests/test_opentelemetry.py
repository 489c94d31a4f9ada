"""Spans and metrics, as an exporter gets them."""

import asyncio

import pytest
from conftest import URL

from rlock_client import Busy, Locks, Lost, aio

pytest.importorskip("opentelemetry.sdk")
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from rlock_client.opentelemetry import instrument


class Seen:
    def __init__(self, locks, **options):
        self.spans, self.reader, tracing = InMemorySpanExporter(), InMemoryMetricReader(), TracerProvider()
        tracing.add_span_processor(SimpleSpanProcessor(self.spans))
        metering = MeterProvider([self.reader])
        self.locks = instrument(locks, tracer_provider=tracing, meter_provider=metering, **options)

    def names(self):
        return [span.name for span in self.spans.get_finished_spans()]

    def metrics(self):
        scopes = self.reader.get_metrics_data().resource_metrics[0].scope_metrics
        return {metric.name: metric.data.data_points for scope in scopes for metric in scope.metrics}


def test_synchronous(redis):
    seen = Seen(Locks(URL), names=True)
    with seen.locks.lock("k", wait=1), pytest.raises(Busy):
        seen.locks.lock("k", wait=0).acquire()
    assert seen.names() == ["rlock.wait", "rlock.wait", "rlock.hold"]
    points = seen.metrics()
    assert sum(point.count for point in points["rlock.wait.duration"]) == 2
    assert {point.attributes.get("error.type") for point in points["rlock.wait.duration"]} == {None, "Busy"}
    [hold] = points["rlock.hold.duration"]
    assert dict(hold.attributes) == {"rlock.kind": "lock", "rlock.name": "k"}
    assert "rlock.losses" not in points
    seen.locks.close()


def test_asyncio(redis):
    seen = Seen(aio.Locks(URL))

    async def test():
        async with seen.locks, seen.locks.permit("k", 3, lease=0.1, fixed=True):
            await asyncio.sleep(20)

    with pytest.raises(Lost):
        asyncio.run(test())
    assert seen.names() == ["rlock.wait", "rlock.hold"]
    [losses] = seen.metrics()["rlock.losses"]
    assert losses.value == 1 and dict(losses.attributes) == {"rlock.kind": "permit"}
