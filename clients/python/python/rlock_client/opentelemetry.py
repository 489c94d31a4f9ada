"""Spans and metrics: `instrument(locks)`, for either client. It needs `rlock-client[opentelemetry]`.

The spans are `rlock.wait`, of each attempt to acquire, and `rlock.hold`; the metrics are `rlock.wait.duration` and
`rlock.hold.duration` (histograms, in seconds) and `rlock.losses`. A lock's name is an attribute only if asked for, since
there may be a great many."""

from __future__ import annotations

import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from opentelemetry import metrics, trace
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import Span, TracerProvider

from ._base import HeldBase, LockBase, LocksBase

LocksT = TypeVar("LocksT", bound=LocksBase[Any])
_SCOPE = "rlock_client"


def instrument(
    locks: LocksT,
    *,
    names: bool = False,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
) -> LocksT:
    """Returns the same client. Its locks are measured from now on."""
    tracer = trace.get_tracer(_SCOPE, tracer_provider=tracer_provider)
    meter = metrics.get_meter(_SCOPE, meter_provider=meter_provider)
    waits = meter.create_histogram("rlock.wait.duration", "s", "How long a lock was waited for")
    holds = meter.create_histogram("rlock.hold.duration", "s", "How long a lock was held")
    losses = meter.create_counter("rlock.losses", "1", "Locks that were lost")

    def acquired(span: Span, about: dict[str, str], begun: float, held: HeldBase[Any]) -> None:
        waits.record(time.monotonic() - begun, about)
        span.end()
        began, hold = time.monotonic(), tracer.start_span("rlock.hold", attributes=about)

        def ended(is_lost: bool) -> None:
            holds.record(time.monotonic() - began, about)
            if is_lost:
                losses.add(1, about)
                hold.set_status(trace.StatusCode.ERROR, "lost")
            hold.end()

        held._ended = ended

    def failed(span: Span, about: dict[str, str], begun: float, error: BaseException) -> None:
        waits.record(time.monotonic() - begun, {**about, "error.type": type(error).__name__})
        span.record_exception(error)
        span.set_status(trace.StatusCode.ERROR, type(error).__name__)
        span.end()

    def begin(lock: LockBase[Any, Any]) -> tuple[Span, dict[str, str], float]:
        about = {"rlock.kind": lock.kind}
        if names:
            about["rlock.name"] = ", ".join(it if isinstance(it, str) else repr(it) for it in lock.names)
        return tracer.start_span("rlock.wait", attributes=about), about, time.monotonic()

    # Both clients acquire through this method only.
    acquire: Callable[[Any, Any], Any] = locks._acquire  # type: ignore[attr-defined]

    def blocking(lock: LockBase[Any, Any], wait: float | None) -> HeldBase[Any]:
        begun = begin(lock)
        try:
            held: HeldBase[Any] = acquire(lock, wait)
        except BaseException as error:
            failed(*begun, error)
            raise
        acquired(*begun, held)
        return held

    async def awaited(lock: LockBase[Any, Any], wait: float | None) -> HeldBase[Any]:
        begun, granted = begin(lock), acquire
        try:
            held: HeldBase[Any] = await granted(lock, wait)
        except BaseException as error:
            failed(*begun, error)
            raise
        acquired(*begun, held)
        return held

    around: Callable[..., HeldBase[Any] | Awaitable[HeldBase[Any]]]
    around = awaited if inspect.iscoroutinefunction(acquire) else blocking
    locks._acquire = around  # type: ignore[attr-defined]
    return locks
