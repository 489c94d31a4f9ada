"""What the synchronous client and that of asyncio have in common: everything but how they wait."""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, TypeVar

from . import _green, _native, _settings
from ._native import Call, Client, Hold, Turns
from .errors import Closed, Configuration, InDoubt, LockError, Lost, Unavailable

if TYPE_CHECKING:
    from typing_extensions import Self, TypedDict, Unpack

    class Settings(TypedDict, total=False):
        """Times are in seconds. `ca`, `cert` and `key`: paths, or the PEM itself as bytes."""

        lease: float | None
        patience: float | None
        connect_timeout: float | None
        answer_timeout: float | None
        name: str | None
        ca: _settings.Pem | None
        cert: _settings.Pem | None
        key: _settings.Pem | None

    class Terms(TypedDict, total=False):
        """How a lock is to be held. README.md has what each means."""

        wait: float | None
        lease: float | None
        fixed: bool
        fenced: bool
        owner: str | bytes | None
        max_waiters: int | None
        replicas: int | tuple[int, float] | None


Name = str | bytes
LockT = TypeVar("LockT", bound="LockBase[Any, Any]")
LocksT = TypeVar("LocksT", bound="LocksBase[Any]")
EnteredT = TypeVar("EnteredT")

# Those for which the interpreter's end is to be tidy.
_open: weakref.WeakSet[LocksBase[Any]] = weakref.WeakSet()
_AT_EXIT = 2.0
# How long the client waits for an answer, if nothing else is said.
_ANSWER = 3.0
# What the native part says of what was held then.
_CLOSED = "the client was closed"


class LocksBase(Generic[LockT]):
    _makes: ClassVar[Callable[..., Any]]

    def __init__(self, address: str, **settings: Unpack[Settings]) -> None:
        self._begin(("server", [address], "", None, None, 0, False), **settings)

    @classmethod
    def cluster(cls, addresses: Iterable[str], **settings: Unpack[Settings]) -> Self:
        """A Redis Cluster, of which some nodes are given."""
        return cls.__new__(cls)._begin(("cluster", list(addresses), "", None, None, 0, False), **settings)

    @classmethod
    def sentinels(
        cls,
        addresses: Iterable[str],
        master: str,
        *,
        user: str | None = None,
        password: str | None = None,
        db: int = 0,
        tls: bool = False,
        **settings: Unpack[Settings],
    ) -> Self:
        """The master of that name, which sentinels watch. User, password, database and TLS are the master's."""
        place = ("sentinels", list(addresses), master, user, password, db, tls)
        return cls.__new__(cls)._begin(place, **settings)

    @classmethod
    def of(cls, client: Any, **settings: Unpack[Settings]) -> Self:
        """The servers of a client of redis-py, of any kind: its settings are taken, its connections are not."""
        place, found = _settings.found_in(client)
        return cls.__new__(cls)._begin(place, **{**found, **settings})

    def _begin(
        self,
        place: tuple[Any, ...],
        *,
        lease: float | None = None,
        patience: float | None = None,
        connect_timeout: float | None = None,
        answer_timeout: float | None = None,
        name: str | None = None,
        ca: _settings.Pem | None = None,
        cert: _settings.Pem | None = None,
        key: _settings.Pem | None = None,
    ) -> Self:
        settings: tuple[Any, ...] = (name, lease, patience, connect_timeout, answer_timeout)
        self._client = Client(*place, *settings, *map(_settings.pem, (ca, cert, key)))
        self._answer = answer_timeout or _ANSWER
        _open.add(self)
        return self

    def lock(self, name: Name, **terms: Unpack[Terms]) -> LockT:
        """A lock that one has at a time."""
        return self._makes(self, "lock", [name], 0, **terms)  # type: ignore[no-any-return]

    def read(self, name: Name, **terms: Unpack[Terms]) -> LockT:
        """The side of a read-write lock that any number of readers have at the same time."""
        return self._makes(self, "read", [name], 0, **terms)  # type: ignore[no-any-return]

    def write(self, name: Name, **terms: Unpack[Terms]) -> LockT:
        """The side of a read-write lock that one writer has alone."""
        return self._makes(self, "write", [name], 0, **terms)  # type: ignore[no-any-return]

    def permit(self, name: Name, limit: int, **terms: Unpack[Terms]) -> LockT:
        """One of so many permits."""
        return self._makes(self, "permit", [name], limit, **terms)  # type: ignore[no-any-return]

    def all(self, names: Iterable[Name], **terms: Unpack[Terms]) -> LockT:
        """The locks of all these names, in one step: all or none."""
        return self._makes(self, "all", list(names), 0, **terms)  # type: ignore[no-any-return]

    def _limit(self, wait: float | None) -> float | None:
        """How long connecting may take, for somebody who waits for so long."""
        return None if wait is None else max(wait, 0) or self._answer


class LockBase(Generic[LocksT, EnteredT]):
    """A lock, and how it is to be held. Nothing is asked for before it is acquired; that can be done any number of times,
    also by several at once."""

    def __init__(
        self,
        locks: LocksT,
        kind: str,
        names: list[Name],
        limit: int,
        *,
        wait: float | None = None,
        lease: float | None = None,
        fixed: bool = False,
        fenced: bool = False,
        owner: str | bytes | None = None,
        max_waiters: int | None = None,
        replicas: int | tuple[int, float] | None = None,
    ) -> None:
        if fixed and lease is None:
            raise Configuration("fixed: a fixed lease needs its length, which is `lease`")
        if owner is not None and kind in ("permit", "all"):
            raise Configuration("owner: only a single lock has one")
        self.locks, self.kind, self.names, self.limit = locks, kind, names, limit
        self.wait, self.lease, self.fixed, self.fenced = wait, lease, fixed, fenced
        self.owner, self.max_waiters = owner, max_waiters
        self.replicas = (replicas, 1.0) if isinstance(replicas, int) else replicas
        self._entered: list[tuple[object, EnteredT]] = []

    def _left(self, who: object) -> EnteredT:
        """What this thread or task has entered last. A generator may be left in another thread than it was entered in."""
        entered = [it for it in self._entered if it[0] == who] or self._entered[:]
        if not entered or (entered[-1][0] != who and len(entered) > 1):
            raise RuntimeError("this lock was entered by others, and it is not clear by whom")
        self._entered.remove(entered[-1])
        return entered[-1][1]


class HeldBase(Generic[LocksT]):
    """What is held. Dropped, it is given back in the background."""

    def __init__(self, locks: LocksT, hold: Hold) -> None:
        self._locks, self._hold = locks, hold
        self._loss: str | None = None
        self._watches: list[Call] = []
        # Told once when it is over.
        self._ended: Callable[[bool], object] | None = None

    @property
    def holder(self) -> str:
        """By which the server knows it."""
        return self._hold.holder

    @property
    def tokens(self) -> list[int]:
        """The fencing tokens, in the order of the names; none if it is not `fenced`."""
        return self._hold.tokens

    @property
    def token(self) -> int | None:
        """The fencing token, of several locks the first one's."""
        return self.tokens[0] if self.tokens else None

    @property
    def lost(self) -> bool:
        """Whether it can no longer be vouched for. It asks no server. What was given back is not lost."""
        return self.loss is not None

    @property
    def loss(self) -> str | None:
        """Why it is lost, if it is."""
        return self._loss or self._hold.loss

    @property
    def remaining(self) -> float:
        """For how many seconds it can be vouched for, if nothing is renewed. It asks no server."""
        return self._hold.remaining

    def check(self) -> None:
        """Raises Lost unless it is held. It asks no server."""
        if not self._hold.remaining:
            raise self._told(self.loss or "it was given back")

    def on_lost(self, callback: Callable[[], object]) -> None:
        """Calls this once, should it be lost: in the event loop, or in a thread that is there for that."""

        def done(_: Hold | None, error: Exception | None) -> None:
            # Closing the client is no loss to be told of.
            if error is None:
                self._soon(callback)

        watch = self._hold.until_lost()
        self._watches.append(watch)
        watch.start(self._turns(), done)

    def _turns(self) -> Turns:
        raise NotImplementedError

    def _soon(self, callback: Callable[[], object]) -> None:
        raise NotImplementedError

    def _told(self, why: str) -> LockError:
        about = self._hold.about
        return Closed(f"{about}: {why}") if why == _CLOSED else Lost(f"{about}: lost: {why}")

    def _giving_back(self) -> Call:
        """Its release, and nobody watches any more."""
        self._loss = self._loss or self._hold.loss
        for watch in self._watches:
            watch.drop()
        self._watches.clear()
        return self._hold.release()

    def _is_over(self, error: LockError | None = None) -> None:
        if isinstance(error, Lost) and not isinstance(error, InDoubt):
            self._loss = self._loss or str(error)
        if self._ended is not None:
            self._ended(self._loss is not None)
            self._ended = None

    def _judge(self, failure: LockError | None, error: BaseException | None) -> None:
        """Whether `with` has done its work under the lock. It has, if the lock could be vouched for until its end and the
        server does not say otherwise; that goes on being given back in the background."""
        is_lost = isinstance(failure, Lost) and not isinstance(failure, InDoubt)
        if (is_lost or self._loss) and not isinstance(error, Lost | Closed) and isinstance(error, Exception | None):
            self._raise(error)

    def _raise(self, error: BaseException | None) -> NoReturn:
        raise self._told(self._loss or "the server says that it is not held") from error


def _stop() -> None:
    for locks in list(_open):
        locks._client.stop()


def _close() -> None:
    end = time.monotonic() + _AT_EXIT
    for call in [locks._client.close() for locks in list(_open)]:
        with suppress(Unavailable):
            _green.wait(call, max(0.0, end - time.monotonic()))
    _native.end()


# Before the threads are waited for that wait here; `concurrent.futures` ends its own by the same.
with suppress(RuntimeError):  # it ends already
    getattr(threading, "_register_atexit", lambda _: None)(_stop)
atexit.register(_close)
