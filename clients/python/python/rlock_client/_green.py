"""Waiting in a process that gevent or eventlet has patched: a wait blocks its greenlet, not the thread with all others."""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable
from threading import Event
from typing import TYPE_CHECKING, Any

from ._native import Call, Hold, Turns
from .errors import Unavailable

if TYPE_CHECKING:
    from ._native import Value


# The longest time until a wait notices that its `stop` is set.
_STOPS = 0.05


def wait(call: Call, limit: float | None = None, stop: Event | None = None) -> Value:
    """Blocks this thread or greenlet until the call has ended. None: `stop` was set first."""
    here = hub()
    return call.wait(limit, stop) if here is None else here.wait(call, limit, stop)


class Hub:
    """Reads `turns` in the event loop of gevent or eventlet, and so resumes the calls of its greenlets."""

    def __init__(self) -> None:
        self.turns = Turns()

    def wait(self, call: Call, limit: float | None, stop: Event | None) -> Value:
        ended: list[tuple[Value, Exception | None]] = []
        block, wake = self._blocker()

        def done(value: Value, error: Exception | None) -> None:
            ended.append((value, error))
            wake()

        call.start(self.turns, done)
        try:
            while stop is not None and not ended:
                block(_STOPS)
                if stop.is_set() and not ended:
                    call.drop()
                    return None
            block(limit)
            if not ended:
                raise Unavailable("no server answers in time")
            value, error = ended[0]
            if error is not None:
                raise error
            return value
        except BaseException:  # also an exception that ends the greenlet from outside
            call.drop()
            if ended and isinstance(granted := ended[0][0], Hold):
                granted.drop()
            raise

    def _blocker(self) -> tuple[Callable[[float | None], object], Callable[[], object]]:
        """A function that blocks a greenlet for a time at most, and one that wakes it."""
        raise NotImplementedError

    def spawn(self, callback: Callable[[], object]) -> None:
        raise NotImplementedError

    def forget(self) -> None:
        """Called in a forked process: only the parent may read `turns`, although both could."""


class _Gevent(Hub):
    def __init__(self, hub: Any) -> None:
        super().__init__()
        self.waits = 0
        self.watcher = hub.loop.io(self.turns.fileno, 1, ref=False)
        self.watcher.start(self.turns)

    def wait(self, call: Call, limit: float | None, stop: Event | None) -> Value:
        # The watcher keeps the loop running while a call waits. Without a wait the loop may end.
        self.waits += 1
        self.watcher.ref = True
        try:
            return super().wait(call, limit, stop)
        finally:
            self.waits -= 1
            self.watcher.ref = self.waits > 0

    def _blocker(self) -> tuple[Callable[[float | None], object], Callable[[], object]]:
        from gevent.event import Event

        event = Event()
        return event.wait, event.set

    def spawn(self, callback: Callable[[], object]) -> None:
        import gevent

        gevent.spawn(callback)

    def forget(self) -> None:
        self.watcher.stop()


class _Eventlet(Hub):
    def __init__(self, hub: Any) -> None:
        super().__init__()
        turns = self.turns
        hub.add(hub.READ, turns.fileno, lambda _: turns(), lambda *_: None, lambda: None)

    def _blocker(self) -> tuple[Callable[[float | None], object], Callable[[], object]]:
        from eventlet.event import Event

        event = Event()
        return event.wait, event.send

    def spawn(self, callback: Callable[[], object]) -> None:
        import eventlet

        eventlet.spawn(callback)


_hubs: weakref.WeakKeyDictionary[Any, Hub] = weakref.WeakKeyDictionary()
_of_parents: list[Hub] = []


def hub() -> Hub | None:
    """The hub of this thread, if gevent or eventlet has patched this process."""
    if _is_patched("gevent.monkey", "is_module_patched", "threading"):
        from gevent import get_hub

        kind: type[_Gevent | _Eventlet] = _Gevent
    elif _is_patched("eventlet.patcher", "is_monkey_patched", "thread"):
        from eventlet.hubs import get_hub

        kind = _Eventlet
    else:
        return None
    own = get_hub()
    found = _hubs.get(own)
    if found is None:
        found = _hubs[own] = kind(own)
    return found


def _is_patched(patcher: str, asked: str, threads: str) -> bool:
    is_patched = getattr(sys.modules.get(patcher), asked, None)
    return is_patched is not None and (is_patched(threads) or is_patched("socket"))


def _forget() -> None:
    _of_parents.extend(_hubs.values())
    for parents in _of_parents:
        parents.forget()
    _hubs.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
