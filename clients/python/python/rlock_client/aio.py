"""The same as `rlock_client`, for asyncio. `async with` stops its body when the lock is lost, and then raises Lost."""

from __future__ import annotations

import asyncio
import functools
import sys
import time
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TypeVar

from . import _base, _lead, _once, _settings
from ._base import HeldBase, LockBase, LocksBase, Name, Time
from ._native import Call, Hold, Turns
from .errors import Busy, Configuration, LockError, Unavailable

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from ._base import OnceTerms
    from ._native import Value

__all__ = ["Held", "Lock", "Locks"]

P = ParamSpec("P")
T = TypeVar("T")
_COUNTS = sys.version_info >= (3, 11)  # whether a task counts its cancellations


class Held(HeldBase["Locks"]):
    __doc__ = HeldBase.__doc__
    _body: _Body

    async def release(self) -> None:
        """Releases it, and waits for the server's reply. Raises Lost if it was not held any more."""
        await self._release(None)

    async def detach(self, within: Time | None = None) -> str:
        """Hands it on to another process, as `rlock_client.Held.detach` does: returns the text for `Locks.adopt`."""
        text = await self._locks._run(self._hold.detach(_settings.seconds(within)))
        assert isinstance(text, str)
        self._is_over()
        return text

    async def __aenter__(self) -> Self:
        self._body = _Body(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        await self._body.leave(error)

    async def _release(self, limit: float | None) -> None:
        error = None
        try:
            await self._locks._run(self._giving_back(), limit)
        except LockError as it:
            error = it
            raise
        finally:
            self._is_over(error)

    async def _answer(self, value: bytes) -> None:
        try:
            await self._locks._run(self._hold.answer(value))
        finally:
            self._is_over()

    def _turns(self) -> Turns:
        return self._locks._turns()

    def _soon(self, callback: Callable[[], object]) -> None:
        asyncio.get_running_loop().call_soon(callback)


class _Body:
    """The body of an `async with`, which is cancelled when its lock is lost."""

    def __init__(self, held: Held) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("`async with` is for tasks")
        self.held, self.task = held, task
        self.is_stopped = self.is_over = False
        self.cancelled_before = _cancelling()
        # Marks a cancellation as ours, where tasks do not count their cancellations.
        self.mark = f"{held._hold.about}: lost"
        self.watch = held._hold.until_lost()
        self.watch.start(held._turns(), lambda _, error: self._stop())

    def _stop(self) -> None:
        if asyncio.current_task() is self.task:  # the body has not reached its first await, and may never
            asyncio.get_running_loop().call_soon(self._stop)
        elif not self.is_over:
            self.is_stopped = True
            self.task.cancel(self.mark)

    async def leave(self, error: BaseException | None) -> None:
        self.is_over = True
        self.watch.drop()
        held, failure = self.held, None
        if self.is_stopped:
            was_cancelled = isinstance(error, asyncio.CancelledError)
            if _COUNTS:
                is_ours = self.task.uncancel() <= self.cancelled_before
            else:
                is_ours = was_cancelled and error is not None and error.args == (self.mark,)
            held._giving_back().drop()
            loss = held._loss = held._loss or ("ended", "the lease has ended")
            held._is_over()
            # If the task was cancelled for another reason, that cancellation goes on.
            if is_ours if was_cancelled else isinstance(error, Exception | None):
                held._raise(loss, error)
        elif held.remaining or held.lost:  # otherwise the body released it
            try:
                await held._release(held._locks._answer)
            except LockError as it:
                failure = it
            held._judge(failure, error)


class Lock(LockBase["Locks", _Body]):
    __doc__ = LockBase.__doc__

    async def acquire(self) -> Held:
        """Waits for the lock. Raises Busy if it was not free within `wait`."""
        return await self._acquire(self.wait)

    async def try_acquire(self) -> Held | None:
        """Acquires the lock without waiting. Returns None if another client has it or waits for it."""
        try:
            return await self._acquire(0)
        except Busy:
            return None

    async def release(self) -> None:
        """Releases the lock that this task acquired last through this object, as `Held.release` does."""
        await self._last(asyncio.current_task()).release()

    async def locked(self) -> bool:
        """Whether `acquire` would have to wait. Asks the server, and needs the right to RLOCK.INSPECT."""
        return bool(await self.locks._run(self.locks._client.locked(self)))

    async def _acquire(self, wait: float | None) -> Held:
        held = await self.locks._acquire(self, wait)
        self._keeps(held, asyncio.current_task())
        return held

    async def __aenter__(self) -> Held:
        held = await self.acquire()
        self._entered.append((asyncio.current_task(), _Body(held)))
        return held

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        await self._left(asyncio.current_task()).leave(error)


class Locks(LocksBase[Lock]):
    """The locks of one server, one cluster or one master with its replicas. A program needs one `Locks` for all of
    its event loops. It connects when the first lock is asked for, and again in each forked process."""

    _makes = Lock
    _known: tuple[asyncio.AbstractEventLoop, Turns] | None = None

    async def connect(self) -> Self:
        """Connects now, so that a wrong address or password shows at once."""
        await self._run(self._client.connect())
        return self

    async def close(self) -> None:
        """Ends all waits, releases everything that is held, and waits for the server's reply, for some seconds at most."""
        with suppress(Unavailable):
            await self._run(self._client.close(), self._answer)

    aclose = close

    async def lead(
        self,
        name: Name,
        work: Callable[[Held], Awaitable[object]],
        *,
        lease: Time | None = None,
        fenced: bool = False,
        replicas: int | tuple[int, Time] | None = None,
    ) -> NoReturn:
        """Runs `await work(held)` while holding the lock, over and over, until it is cancelled or the work raises an error.

        Of all programs that call this, one leads at a time. Each turn waits for the lock, runs the work, which is cancelled
        if the lock is lost, and releases the lock; the next turn waits behind the others. After a loss or an outage of the
        server, it pauses and tries again. The options are those of `lock`.
        """
        lock, pause = self.lock(name, lease=lease, fenced=fenced, replicas=replicas), 0.0
        cancelled_before = _cancelling()
        while True:
            held, begun = None, time.monotonic()
            try:
                async with lock as held:
                    await work(held)
                if _cancelling() > cancelled_before:  # the work has caught the cancellation
                    raise asyncio.CancelledError
                pause = 0.0
            except LockError as error:
                if not _lead.is_transient(error, held):
                    raise
                pause = _lead.pause(pause, begun, error)
                await asyncio.sleep(pause)

    async def once(self, name: Name, work: Callable[[Held], Awaitable[T]], **terms: Unpack[OnceTerms]) -> T:
        """Returns the value of that name. If there is none, one caller of all programs runs `await work(held)`, which returns
        the value, and all other callers wait for it. The tasks of this program share one request.

        The work runs under a lock of that name, and is cancelled if the lock is lost. If the work raises or is cancelled, or
        the lock is lost, only its own caller gets the error, nothing is stored, and the next caller runs its own work.
        """
        as_json = terms.get("json", False)
        asked = await self._run(self._asking(name, **terms))
        if isinstance(asked, bytes):
            return _once.found(asked, as_json)  # type: ignore[no-any-return]
        assert isinstance(asked, Hold)
        async with Held(self, asked) as held:
            value = _once.stored(await work(held), as_json)
            await held._answer(value)
        return _once.found(value, as_json)  # type: ignore[no-any-return]

    def once_for(
        self, key: Name | Callable[..., Name], **terms: Unpack[OnceTerms]
    ) -> Callable[[Callable[P, Awaitable[T]]], Callable[P, Coroutine[Any, Any, T]]]:
        """Decorates a coroutine function: calls return the value of that key as `once` does, with the function as the work.

        The key may be a function of the call's arguments.
        """

        def decorate(function: Callable[P, Awaitable[T]]) -> Callable[P, Coroutine[Any, Any, T]]:
            @functools.wraps(function)
            async def once(*args: P.args, **kwargs: P.kwargs) -> T:
                name = _once.key_of(key, args, kwargs)
                return await self.once(name, lambda _: function(*args, **kwargs), **terms)

            return once

        return decorate

    async def forget(self, name: Name) -> None:
        """Removes the value of that name: the next caller of `once` works again."""
        await self._run(self._client.forget(self.lock(name)))

    async def adopt(self, text: str) -> Held:
        """Takes over a lock that another process has detached, as `rlock_client.Locks.adopt` does."""
        hold = await self._run(self._adopting(text))
        assert isinstance(hold, Hold)
        return Held(self, hold)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _acquire(self, lock: Lock, wait: float | None) -> Held:
        hold = await self._run(self._client.acquire(lock, wait))
        assert isinstance(hold, Hold)
        return Held(self, hold)

    async def _run(self, call: Call, limit: float | None = None) -> Value:
        future: asyncio.Future[Value] = _loop().create_future()

        def done(value: Value, error: Exception | None) -> None:
            if future.done():
                self._give_up(value)
            elif error is not None:
                future.set_exception(error)
            else:
                future.set_result(value)

        call.start(self._turns(), done)
        try:
            if limit is not None:
                await asyncio.wait([future], timeout=limit)
                if not future.done():
                    raise Unavailable("no server answers in time")
            return await future
        except BaseException:
            call.drop()
            if future.done() and not future.cancelled() and future.exception() is None:
                self._give_up(future.result())
            raise

    def _give_up(self, value: Value) -> None:
        """Releases in the background what no caller gets."""
        if isinstance(value, Hold):
            value.drop()
        elif isinstance(value, str):
            call = self._adopting(value)
            # The call goes on only while something refers to it.
            call.start(self._turns(), lambda hold, _, call=call: self._give_up(hold))  # type: ignore[misc]

    def _turns(self) -> Turns:
        """The turns that resume the calls of this event loop."""
        loop, known = _loop(), self._known
        if known is None or known[0] is not loop:
            known = self._known = loop, _turns_of.get(loop) or _turns_of.setdefault(loop, _new_turns(loop))
        return known[1]


_base._spell_out((Locks.once, Locks.once_for), Locks._asking, _base._ONCE)

_turns_of: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Turns] = weakref.WeakKeyDictionary()


def _new_turns(loop: asyncio.AbstractEventLoop) -> Turns:
    turns = Turns()
    loop.add_reader(turns.fileno, turns)
    return turns


def _cancelling() -> int:
    task = asyncio.current_task()
    return task.cancelling() if _COUNTS and task is not None else 0


def _loop() -> asyncio.AbstractEventLoop:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise Configuration("rlock_client.aio needs asyncio; under trio, call rlock_client in a thread") from None
