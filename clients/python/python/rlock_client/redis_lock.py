"""Replaces redis-py's locks, with the same signatures and exceptions: `Lock` replaces `redis.lock.Lock`, `AsyncLock`
replaces `redis.asyncio.lock.Lock`. Waiters have a place in the server's queue.

    redis.lock("orders:42", timeout=30, lock_class=rlock_client.redis_lock.Lock)

Differences: a lock without a `timeout` ends when its process does, since its lease of 30 s is renewed until then. `sleep`
does nothing, since nothing polls. A caller that passes its own `token` can acquire the lock again while it holds it.

The key has another type than redis-py's, so both kinds of locks must not be mixed under one name."""

from __future__ import annotations

import logging
import threading
import time
import uuid
import weakref
from collections.abc import Awaitable
from functools import partialmethod
from types import SimpleNamespace, TracebackType
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import redis.asyncio.client
import redis.client
from redis.exceptions import ConnectionError, LockError, LockNotOwnedError, ResponseError

from . import Busy, Locks, Lost, Unavailable, aio
from . import LockError as OurError

if TYPE_CHECKING:
    from typing_extensions import Self

logger = logging.getLogger(__name__)


class _Kept:
    """What was acquired through one client of redis-py. It stays held even if nothing refers to its lock any more."""

    def __init__(self, locks: Any) -> None:
        self.locks = locks
        # By token: the hold, and when it ends by itself.
        self.held: dict[bytes, tuple[Any, float]] = {}
        self.many = 64

    def keep(self, token: bytes, held: Any, seconds: float | None) -> None:
        now = time.monotonic()
        if len(self.held) >= self.many:
            for ended in [token for token, (_, end) in list(self.held.items()) if end < now]:
                self.held.pop(ended, None)
            self.many = 64 + 2 * len(self.held)
        older, _ = self.held.get(token, (held, 0))
        if older is not held:
            older._giving_back().drop()  # in the background
        self.held[token] = held, float("inf") if seconds is None else now + seconds


_all: weakref.WeakKeyDictionary[Any, _Kept] = weakref.WeakKeyDictionary()


def _kept(client: Any, kind: Any) -> _Kept:
    """Clients that share their connections share this, too."""
    key = getattr(client, "connection_pool", None) or client
    return _all.get(key) or _all.setdefault(key, _Kept(kind.of(client)))


class _LockBase:
    """What both locks share: everything that needs no server."""

    _locks: Any

    def __init__(
        self,
        redis: Any,
        name: str,
        timeout: float | None = None,
        sleep: float = 0.1,
        blocking: bool = True,
        blocking_timeout: float | None = None,
        thread_local: bool = True,
        raise_on_release_error: bool = True,
    ) -> None:
        self.redis, self.name, self.timeout, self.sleep = redis, name, timeout, sleep
        self.blocking, self.blocking_timeout = blocking, blocking_timeout
        self.thread_local, self.raise_on_release_error = bool(thread_local), raise_on_release_error
        self.local: Any = threading.local() if self.thread_local else SimpleNamespace()
        self.local.token = None

    def _wanted(self, blocking: bool | None, blocking_timeout: float | None, token: str | bytes | None) -> Any:
        """Our lock, which is not acquired yet."""
        owner = uuid.uuid4().hex.encode() if token is None else self._encoded(token)
        wait = self.blocking_timeout if blocking_timeout is None else blocking_timeout
        if not (self.blocking if blocking is None else blocking):
            wait = 0
        lease = self.timeout or None
        return self._kept.locks.lock(
            self.name, wait=wait and max(0, wait), lease=lease, fixed=lease is not None, owner=owner
        )

    def _encoded(self, token: str | bytes) -> bytes:
        # An asynchronous client has its encoder in its pool; a cluster's client has it itself.
        home = self.redis if hasattr(self.redis, "get_encoder") else self.redis.connection_pool
        encoded: bytes = home.get_encoder().encode(token)
        return encoded

    def _acquired(self, lock: Any, held: Any) -> None:
        self._kept.keep(lock.owner, held, lock.lease)
        self.local.token = lock.owner

    def _not_acquired(self, error: OurError) -> Literal[False]:
        if isinstance(error, Busy):
            return False
        if isinstance(error, Unavailable):
            raise ConnectionError(str(error)) from error
        raise self._error(str(error)) from error

    def _renewed(self, token: bytes, milliseconds: int, verb: str, answer: object) -> Literal[True]:
        if answer != 1:
            raise self._error(f"Cannot {verb} a lock that's no longer owned", LockNotOwnedError)
        if token in self._kept.held:
            self._kept.keep(token, self._kept.held[token][0], milliseconds / 1000)
        return True

    def _extended(self, left: int, seconds: float) -> int:
        return max(0, left) + int(seconds * 1000)

    def _replaces(self, replace_ttl: bool) -> bool:
        # redbeat sets `lua_extend` to a script of its own, which replaces the time.
        return replace_ttl or hasattr(self, "lua_extend")

    def _token_to(self, verb: str) -> bytes:
        token = self._token()
        if token is None:
            raise self._error(f"Cannot {verb} an unlocked lock")
        if self.timeout is None:
            raise self._error(f"Cannot {verb} a lock with no timeout")
        return token

    def _token_to_release(self) -> bytes:
        token = self._token()
        if token is None:
            raise self._error("Cannot release a lock that's not owned or is already unlocked.")
        return token

    def _token(self) -> bytes | None:
        """The token of this thread: if `thread_local`, another thread has none."""
        return getattr(self.local, "token", None)

    @property
    def _kept(self) -> _Kept:
        return _kept(self.redis, self._locks)

    def _not_released(self, error: LockError) -> None:
        if self.raise_on_release_error:
            raise error
        logger.warning("Lock was unlocked or no longer owned when exiting context manager.")

    def _not_owned(self) -> NoReturn:
        raise self._error("Cannot release a lock that's no longer owned", LockNotOwnedError)

    def _error(self, text: str, kind: type[LockError] = LockError) -> LockError:
        return kind(text, lock_name=self.name)


def _is_overwritten(error: ResponseError) -> bool:
    return str(error).startswith(("WRONGTYPE", "WRONGKIND"))


class Lock(_LockBase):
    """As `redis.lock.Lock`."""

    _locks = Locks

    def __enter__(self) -> Self:
        if self.acquire():
            return self
        raise self._error("Unable to acquire lock within the time specified")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        try:
            self.release()
        except LockError as it:
            self._not_released(it)

    def acquire(
        self,
        sleep: float | None = None,
        blocking: bool | None = None,
        blocking_timeout: float | None = None,
        token: str | bytes | None = None,
    ) -> bool:
        lock = self._wanted(blocking, blocking_timeout, token)
        try:
            held = lock.acquire()
        except OurError as error:
            return self._not_acquired(error)
        self._acquired(lock, held)
        return True

    def locked(self) -> bool:
        return bool(self.redis.exists(self.name))

    def owned(self) -> bool:
        """Asks the server."""
        token = self._token()
        return token is not None and bool(self._asked("HEXISTS", token))

    def release(self) -> None:
        token = self._token_to_release()
        self.local.token = None
        self.do_release(token)

    def do_release(self, expected_token: bytes) -> None:
        held, _ = self._kept.held.pop(expected_token, (None, 0))
        is_released = False
        # The client does not know locks that were extended, or that another process acquired.
        if held is None or held.lost:
            is_released = self._asked("RLOCK.RELEASE", expected_token) is not None
        if held is not None:
            try:
                held.release()
                is_released = True
            except Lost:
                pass
            except Unavailable as error:
                raise ConnectionError(str(error)) from error
        if not is_released:
            self._not_owned()

    def extend(self, additional_time: float, replace_ttl: bool = False) -> Literal[True]:
        token = self._token_to("extend")
        left = 0 if self._replaces(replace_ttl) else self.redis.pttl(self.name)
        return self._renew(token, self._extended(left, additional_time), "extend")

    def reacquire(self) -> Literal[True]:
        return self._renew(self._token_to("reacquire"), int((self.timeout or 0) * 1000), "reacquire")

    def _renew(self, token: bytes, milliseconds: int, verb: str) -> Literal[True]:
        return self._renewed(token, milliseconds, verb, self._asked("RLOCK.RENEW", token, milliseconds))

    def _asked(self, command: str, *words: Any) -> Any:
        """None if something else is stored under the lock's name."""
        try:
            return self.redis.execute_command(command, self.name, *words)
        except ResponseError as error:
            if _is_overwritten(error):
                return None
            raise


class AsyncLock(_LockBase):
    """As `redis.asyncio.lock.Lock`."""

    _locks = aio.Locks

    async def __aenter__(self) -> Self:
        if await self.acquire():
            return self
        raise self._error("Unable to acquire lock within the time specified")

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        try:
            await self.release()
        except LockError as it:
            self._not_released(it)

    async def acquire(
        self,
        blocking: bool | None = None,
        blocking_timeout: float | None = None,
        token: str | bytes | None = None,
    ) -> bool:
        lock = self._wanted(blocking, blocking_timeout, token)
        try:
            held = await lock.acquire()
        except OurError as error:
            return self._not_acquired(error)
        self._acquired(lock, held)
        return True

    async def locked(self) -> bool:
        return bool(await self.redis.exists(self.name))

    async def owned(self) -> bool:
        """Asks the server."""
        token = self._token()
        return token is not None and bool(await self._asked("HEXISTS", token))

    async def release(self) -> None:
        token = self._token_to_release()
        try:
            await self.do_release(token)
        except LockNotOwnedError:
            self.local.token = None
            raise
        # Not reached after a cancellation: then the release can be repeated.
        self.local.token = None

    async def do_release(self, expected_token: bytes) -> None:
        held, _ = self._kept.held.pop(expected_token, (None, 0))
        is_released = False
        if held is None or held.lost:
            is_released = await self._asked("RLOCK.RELEASE", expected_token) is not None
        if held is not None:
            try:
                await held.release()
                is_released = True
            except Lost:
                pass
            except Unavailable as error:
                raise ConnectionError(str(error)) from error
        if not is_released:
            self._not_owned()

    def extend(self, additional_time: float, replace_ttl: bool = False) -> Awaitable[Literal[True]]:
        token = self._token_to("extend")

        async def extended() -> Literal[True]:
            left = 0 if self._replaces(replace_ttl) else await self.redis.pttl(self.name)
            return await self._renew(token, self._extended(left, additional_time), "extend")

        return extended()

    def reacquire(self) -> Awaitable[Literal[True]]:
        return self._renew(self._token_to("reacquire"), int((self.timeout or 0) * 1000), "reacquire")

    async def _renew(self, token: bytes, milliseconds: int, verb: str) -> Literal[True]:
        return self._renewed(token, milliseconds, verb, await self._asked("RLOCK.RENEW", token, milliseconds))

    async def _asked(self, command: str, *words: Any) -> Any:
        """None if something else is stored under the lock's name."""
        try:
            return await self.redis.execute_command(command, self.name, *words)
        except ResponseError as error:
            if _is_overwritten(error):
                return None
            raise


class Redis(redis.client.Redis):
    """A client of redis-py with the `lock` above: for libraries that take the class of a client, not of a lock."""

    lock = partialmethod(redis.client.Redis.lock, lock_class=Lock)


class AsyncRedis(redis.asyncio.client.Redis):
    """The same for asyncio."""

    lock = partialmethod(redis.asyncio.client.Redis.lock, lock_class=AsyncLock)
