"""Distributed locks on Redis and Valkey, for servers with the rlock module. `rlock_client.aio` is the same for asyncio.

with Locks("redis://127.0.0.1:6379").lock("orders:42", wait=10) as held:
    ...
"""

from __future__ import annotations

import functools
import logging
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from . import _base, _green, _lead, _once, _settings
from ._base import HeldBase, LockBase, LocksBase, Name, Stopped, Time
from ._native import Hold, Turns
from .errors import (
    Busy,
    Closed,
    Configuration,
    Deadlock,
    InDoubt,
    LockError,
    Lost,
    NoModule,
    NoRight,
    OldModule,
    QueueFull,
    Refused,
    TooFewReplicas,
    Unavailable,
    WrongKind,
)

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from ._base import OnceTerms

__all__ = [
    "Busy",
    "Closed",
    "Configuration",
    "Deadlock",
    "Held",
    "InDoubt",
    "Lock",
    "LockError",
    "Locks",
    "Lost",
    "NoModule",
    "NoRight",
    "OldModule",
    "QueueFull",
    "Refused",
    "TooFewReplicas",
    "Unavailable",
    "WrongKind",
    "exit_on_sigterm",
]


P = ParamSpec("P")
T = TypeVar("T")


class Held(HeldBase["Locks"]):
    __doc__ = HeldBase.__doc__

    def release(self) -> None:
        """Releases it, and waits for the server's reply. Raises Lost if it was not held any more."""
        self._release(None)

    def detach(self, within: Time | None = None) -> str:
        """Hands the lock on to another process: returns the text with which that process calls `Locks.adopt`.

        The lock stays held on the server, and nothing renews it until it is adopted. It must be adopted `within` this time,
        by default the length of its lease. The text is as secret as a holder's name: it is enough to release the lock.
        If this fails with an error other than Lost, the lock is still held here.
        """
        text = _green.wait(self._hold.detach(_settings.seconds(within)))
        assert isinstance(text, str)
        self._is_over()
        return text

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self.remaining or self.lost:  # otherwise the body released it
            failure = None
            try:
                self._release(self._locks._answer)
            except LockError as it:
                failure = it
            self._judge(failure, error)

    def _release(self, limit: float | None) -> None:
        error = None
        try:
            _green.wait(self._giving_back(), limit)
        except LockError as it:
            error = it
            raise
        finally:
            self._is_over(error)

    def _answer(self, value: bytes) -> None:
        try:
            _green.wait(self._hold.answer(value))
        finally:
            self._is_over()

    def _turns(self) -> Turns:
        here = _green.hub()
        return _listener() if here is None else here.turns

    def _soon(self, callback: Callable[[], object]) -> None:
        here = _green.hub()
        if here is None:
            threading.Thread(target=_report, args=(callback,), name="rlock-loss", daemon=True).start()
        else:
            here.spawn(callback)


class Lock(LockBase["Locks", Held]):
    __doc__ = LockBase.__doc__

    def acquire(self) -> Held:
        """Waits for the lock. Raises Busy if it was not free within `wait`."""
        return self._acquire(self.wait)

    def try_acquire(self) -> Held | None:
        """Acquires the lock without waiting. Returns None if another client has it or waits for it."""
        try:
            return self._acquire(0)
        except Busy:
            return None

    def release(self) -> None:
        """Releases the lock that this thread acquired last through this object, as `Held.release` does."""
        self._last(threading.get_ident()).release()

    def locked(self) -> bool:
        """Whether `acquire` would have to wait. Asks the server, and needs the right to RLOCK.INSPECT."""
        return bool(_green.wait(self.locks._client.locked(self)))

    def _acquire(self, wait: float | None) -> Held:
        held = self.locks._acquire(self, wait)
        self._keeps(held, threading.get_ident())
        return held

    def __enter__(self) -> Held:
        held = self.acquire()
        self._entered.append((threading.get_ident(), held))
        return held

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._left(threading.get_ident()).__exit__(kind, error, trace)


class Locks(LocksBase[Lock]):
    """The locks of one server, one cluster or one master with its replicas. A program needs one `Locks`. It connects
    when the first lock is asked for, and again in each forked process."""

    _makes = Lock

    def connect(self) -> Self:
        """Connects now, so that a wrong address or password shows at once."""
        _green.wait(self._client.connect())
        return self

    def close(self) -> None:
        """Ends all waits, releases everything that is held, and waits for the server's reply, for some seconds at most."""
        with suppress(Unavailable):
            _green.wait(self._client.close(), self._answer)

    def lead(
        self,
        name: Name,
        work: Callable[[Held], object],
        *,
        stop: threading.Event | None = None,
        lease: Time | None = None,
        fenced: bool = False,
        replicas: int | tuple[int, Time] | None = None,
    ) -> None:
        """Runs `work(held)` while holding the lock, over and over, until `stop` is set or the work raises an error.

        Of all programs that call this, one leads at a time. Each turn waits for the lock, runs the work, and releases the
        lock; the next turn waits behind the others. After a loss or an outage of the server, it pauses and tries again.

        Nothing can stop a thread. So long work calls `held.check()` between its steps, which raises Lost once the lock is
        lost, and returns when `stop` is set. The options are those of `lock`.
        """
        stop = stop or threading.Event()
        lock = self.lock(name, lease=lease, fenced=fenced, replicas=replicas)
        lock._stop, pause = stop, 0.0
        while not stop.is_set():
            held, begun = None, time.monotonic()
            try:
                with lock as held:
                    work(held)
                pause = 0.0
            except Stopped:
                return
            except LockError as error:
                if not _lead.is_transient(error, held):
                    raise
                pause = _lead.pause(pause, begun, error)
                stop.wait(pause)

    def once(self, name: Name, work: Callable[[Held], T], **terms: Unpack[OnceTerms]) -> T:
        """Returns the value of that name. If there is none, one caller of all programs runs `work(held)`, which returns the
        value, and all other callers wait for it. The threads of this program share one request.

        The work runs under a lock of that name. If it raises, or the lock is lost, only its own caller gets the error,
        nothing is stored, and the next caller runs its own work. Nothing can stop a thread: long work calls `held.check()`
        between its steps.
        """
        as_json = terms.get("json", False)
        asked = _green.wait(self._asking(name, **terms))
        if isinstance(asked, bytes):
            return _once.found(asked, as_json)  # type: ignore[no-any-return]
        assert isinstance(asked, Hold)
        with Held(self, asked) as held:
            value = _once.stored(work(held), as_json)
            held._answer(value)
        return _once.found(value, as_json)  # type: ignore[no-any-return]

    def once_for(
        self, key: Name | Callable[..., Name], **terms: Unpack[OnceTerms]
    ) -> Callable[[Callable[P, T]], Callable[P, T]]:
        """Decorates a function: calls return the value of that key as `once` does, with the function as the work.

        The key may be a function of the call's arguments.
        """

        def decorate(function: Callable[P, T]) -> Callable[P, T]:
            @functools.wraps(function)
            def once(*args: P.args, **kwargs: P.kwargs) -> T:
                name = _once.key_of(key, args, kwargs)
                return self.once(name, lambda _: function(*args, **kwargs), **terms)

            return once

        return decorate

    def forget(self, name: Name) -> None:
        """Removes the value of that name: the next caller of `once` works again."""
        _green.wait(self._client.forget(self.lock(name)))

    def adopt(self, text: str) -> Held:
        """Takes over a lock that another process has detached, as if it had been acquired here. Raises Lost if the lock is
        no longer held.

        The same text can be adopted twice: then both processes hold the lock under the same name, and if one releases it,
        the other one loses it.
        """
        hold = _green.wait(self._adopting(text))
        assert isinstance(hold, Hold)
        return Held(self, hold)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _acquire(self, lock: Lock, wait: float | None) -> Held:
        hold = _green.wait(self._client.acquire(lock, wait), stop=lock._stop)
        if hold is None:
            raise Stopped
        assert isinstance(hold, Hold)
        return Held(self, hold)


_base._spell_out((Locks.once, Locks.once_for), Locks._asking, _base._ONCE)


def exit_on_sigterm() -> None:
    """SIGTERM ends this program as `sys.exit()` does, so that its locks are released. Call it in the main thread. It does
    nothing if SIGTERM has a handler already, as in a worker process of gunicorn, which does the same."""
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit())


_listening: tuple[int, Turns] | None = None
# The listeners of parent processes, kept here because a forked process must not touch them.
_of_parents: list[tuple[int, Turns]] = []


def _listener() -> Turns:
    """The turns that the thread for losses reads. Each process has its own."""
    global _listening
    if _listening is None or _listening[0] != os.getpid():
        if _listening is not None:
            _of_parents.append(_listening)
        _listening = os.getpid(), Turns()
        threading.Thread(target=_listen, args=(_listening[1],), name="rlock-losses", daemon=True).start()
    return _listening[1]


def _listen(turns: Turns) -> None:
    ready = select.poll()
    ready.register(turns.fileno, select.POLLIN)
    while True:
        ready.poll()
        turns()


def _report(callback: Callable[[], object]) -> None:
    try:
        callback()
    except Exception:
        logging.getLogger(__name__).exception("a callback for a lost lock failed")
