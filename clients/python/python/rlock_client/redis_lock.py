"""In place of `redis.lock.Lock`: the same signature, the same exceptions. Who waits has a place in the server's queue.

    redis.lock("orders:42", timeout=30, lock_class=rlock_client.redis_lock.Lock)

Different is: a lock without a `timeout` ends when its process does, as its lease of 30 s is renewed until then; `sleep`
does nothing, as nobody polls; and a `token` of one's own may take the lock again while it has it.

The key has another type than redis-py's, so both kinds of `Lock` must not be mixed under one name."""

from __future__ import annotations

import logging
import threading
import time
import uuid
import weakref
from functools import partialmethod
from types import SimpleNamespace, TracebackType
from typing import TYPE_CHECKING, Any, Literal

import redis.client
from redis.exceptions import ConnectionError, LockError, LockNotOwnedError

from . import Busy, Held, Locks, Lost, Unavailable
from . import LockError as OurError

if TYPE_CHECKING:
    from typing_extensions import Self

logger = logging.getLogger(__name__)


class _Kept:
    """What was acquired through one client of redis-py's. It stays held if nobody refers to its Lock any more."""

    def __init__(self, client: Any) -> None:
        self.locks = Locks.of(client)
        # By token: what is held, and when it ends by itself.
        self.held: dict[bytes, tuple[Held, float]] = {}
        self.many = 64

    def keep(self, token: bytes, held: Held, seconds: float | None) -> None:
        now = time.monotonic()
        if len(self.held) >= self.many:
            for ended in [token for token, (_, end) in list(self.held.items()) if end < now]:
                self.held.pop(ended, None)
            self.many = 64 + 2 * len(self.held)
        self.held[token] = held, float("inf") if seconds is None else now + seconds


_all: weakref.WeakKeyDictionary[Any, _Kept] = weakref.WeakKeyDictionary()


def _kept(client: Any) -> _Kept:
    """Clients that share their connections share this, too."""
    key = getattr(client, "connection_pool", None) or client
    return _all.get(key) or _all.setdefault(key, _Kept(client))


class Lock:
    """As `redis.lock.Lock`."""

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

    def __enter__(self) -> Self:
        if self.acquire():
            return self
        raise self._error("Unable to acquire lock within the time specified")

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        try:
            self.release()
        except LockError:
            if self.raise_on_release_error:
                raise
            logger.warning("Lock was unlocked or no longer owned when exiting context manager.")

    def acquire(
        self,
        sleep: float | None = None,
        blocking: bool | None = None,
        blocking_timeout: float | None = None,
        token: str | bytes | None = None,
    ) -> bool:
        owner: bytes = uuid.uuid4().hex.encode() if token is None else self.redis.get_encoder().encode(token)
        wait = self.blocking_timeout if blocking_timeout is None else blocking_timeout
        if not (self.blocking if blocking is None else blocking):
            wait = 0
        wait = wait and max(0, wait)
        kept = _kept(self.redis)
        try:
            is_fixed = bool(self.timeout)
            lease = self.timeout if is_fixed else None
            held = kept.locks.lock(self.name, wait=wait, lease=lease, fixed=is_fixed, owner=owner).acquire()
        except Busy:
            return False
        except Unavailable as error:
            raise ConnectionError(str(error)) from error
        except OurError as error:
            raise self._error(str(error)) from error
        kept.keep(owner, held, lease)
        self.local.token = owner
        return True

    def locked(self) -> bool:
        return bool(self.redis.exists(self.name))

    def owned(self) -> bool:
        """It asks the server."""
        token = self._token()
        return token is not None and bool(self.redis.hexists(self.name, token))

    def release(self) -> None:
        token = self._token()
        if token is None:
            raise self._error("Cannot release a lock that's not owned or is already unlocked.")
        self.local.token = None
        self.do_release(token)

    def do_release(self, expected_token: bytes) -> None:
        held, _ = _kept(self.redis).held.pop(expected_token, (None, 0))
        is_released = False
        # What was extended is not known to the client; nor is what another process has acquired.
        if held is None or held.lost:
            is_released = self.redis.execute_command("RLOCK.RELEASE", self.name, expected_token) is not None
        if held is not None:
            try:
                held.release()
                is_released = True
            except Lost:
                pass
            except Unavailable as error:
                raise ConnectionError(str(error)) from error
        if not is_released:
            raise self._error("Cannot release a lock that's no longer owned", LockNotOwnedError)

    def extend(self, additional_time: float, replace_ttl: bool = False) -> Literal[True]:
        token = self._token_to("extend")
        # redbeat puts a script of its own here, by which the time is replaced.
        left = 0 if replace_ttl or hasattr(self, "lua_extend") else max(0, self.redis.pttl(self.name))
        return self._renew(token, left + int(additional_time * 1000), "extend")

    def reacquire(self) -> Literal[True]:
        return self._renew(self._token_to("reacquire"), int((self.timeout or 0) * 1000), "reacquire")

    def _renew(self, token: bytes, milliseconds: int, verb: str) -> Literal[True]:
        if self.redis.execute_command("RLOCK.RENEW", self.name, token, milliseconds) != 1:
            raise self._error(f"Cannot {verb} a lock that's no longer owned", LockNotOwnedError)
        kept = _kept(self.redis)
        if token in kept.held:
            kept.keep(token, kept.held[token][0], milliseconds / 1000)
        return True

    def _token_to(self, verb: str) -> bytes:
        token = self._token()
        if token is None:
            raise self._error(f"Cannot {verb} an unlocked lock")
        if self.timeout is None:
            raise self._error(f"Cannot {verb} a lock with no timeout")
        return token

    def _token(self) -> bytes | None:
        """Another thread has none."""
        return getattr(self.local, "token", None)

    def _error(self, text: str, kind: type[LockError] = LockError) -> LockError:
        return kind(text, lock_name=self.name)


class Redis(redis.client.Redis):
    """A client of redis-py whose `lock` is the one above: for libraries that take the class of a client, not of a lock."""

    lock = partialmethod(redis.client.Redis.lock, lock_class=Lock)
