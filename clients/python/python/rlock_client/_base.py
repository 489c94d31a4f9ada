"""What the synchronous client and the asyncio client share: everything except how they wait."""

from __future__ import annotations

import atexit
import inspect
import logging
import threading
import time
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, TypeVar
from urllib.parse import unquote

from . import _green, _native, _settings
from ._native import Call, Client, Hold, Turns
from .errors import Closed, Configuration, LockError, LossReason, Lost, Unavailable

if TYPE_CHECKING:
    from typing_extensions import Required, Self, TypedDict, Unpack

    class Settings(TypedDict, total=False):
        lease: Time | None
        patience: Time | None
        connect_timeout: Time | None
        answer_timeout: Time | None
        name: str | None
        ca: _settings.Pem | None
        cert: _settings.Pem | None
        key: _settings.Pem | None

    class Terms(TypedDict, total=False):
        wait: Time | None
        lease: Time | None
        fixed: bool
        fenced: bool
        owner: str | bytes | None
        max_waiters: int | None
        replicas: int | tuple[int, Time] | None

    class OnceTerms(TypedDict, total=False):
        keep: Required[Time]
        wait: Time | None
        lease: Time | None
        max_waiters: int | None
        json: bool


Time = float | timedelta
Name = str | bytes
LockT = TypeVar("LockT", bound="LockBase[Any, Any]")
LocksT = TypeVar("LocksT", bound="LocksBase[Any]")
EnteredT = TypeVar("EnteredT")

_logger = logging.getLogger("rlock_client")
# Clients to stop and close when the interpreter ends.
_open: weakref.WeakSet[LocksBase[Any]] = weakref.WeakSet()
# Holds that the program no longer refers to. They stay held.
_abandoned: deque[HeldBase[Any]] = deque()
_AT_EXIT = 2.0
# How long the client waits for an answer by default.
_ANSWER = 3.0
# The native part's reason for a hold that ended because its client was closed.
_CLOSED = "the client was closed"


class Stopped(LockError):
    """The `stop` event of `lead` ended the wait, and `lead` ends with it."""


class LocksBase(Generic[LockT]):
    _makes: ClassVar[Callable[..., Any]]

    def __init__(self, address: str, **settings: Unpack[Settings]) -> None:
        """One server: redis://user:password@host:port/db, rediss:// for TLS, or redis+unix:///path."""
        self._begin(("server", [address], "", None, None, 0, False), **settings)

    @classmethod
    def cluster(cls, addresses: Iterable[str], **settings: Unpack[Settings]) -> Self:
        """A Redis Cluster: the addresses of some of its nodes."""
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
        """The master of that name that sentinels watch. User, password, database and TLS are the master's."""
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
        lease: Time | None = None,
        patience: Time | None = None,
        connect_timeout: Time | None = None,
        answer_timeout: Time | None = None,
        name: str | None = None,
        ca: _settings.Pem | None = None,
        cert: _settings.Pem | None = None,
        key: _settings.Pem | None = None,
    ) -> Self:
        times = [_settings.seconds(it) for it in (lease, patience, connect_timeout, answer_timeout)]
        self._client = Client(*place, name, *times, *map(_settings.pem, (ca, cert, key)))
        self._place, self._answer = place, times[3] or _ANSWER
        _open.add(self)
        return self

    def lock(self, name: Name, **terms: Unpack[Terms]) -> LockT:
        """A lock with one holder at a time."""
        return self._makes(self, "lock", [name], 0, **terms)  # type: ignore[no-any-return]

    def read(self, name: Name, **terms: Unpack[Terms]) -> LockT:
        """The read side of a read-write lock: any number of readers hold it at the same time."""
        return self._makes(self, "read", [name], 0, **terms)  # type: ignore[no-any-return]

    def write(self, name: Name, **terms: Unpack[Terms]) -> LockT:
        """The write side of a read-write lock: one writer holds it alone."""
        return self._makes(self, "write", [name], 0, **terms)  # type: ignore[no-any-return]

    def permit(self, name: Name, limit: int, **terms: Unpack[Terms]) -> LockT:
        """One of `limit` permits."""
        return self._makes(self, "permit", [name], limit, **terms)  # type: ignore[no-any-return]

    def all(self, names: Iterable[Name], **terms: Unpack[Terms]) -> LockT:
        """The locks of all these names: they are acquired in one step, all or none."""
        if isinstance(names, str | bytes):
            raise Configuration("all: names must be a list, not one string")
        return self._makes(self, "all", list(names), 0, **terms)  # type: ignore[no-any-return]

    def _asking(
        self,
        name: Name,
        *,
        keep: Time,
        wait: Time | None = None,
        lease: Time | None = None,
        max_waiters: int | None = None,
        json: bool = False,
    ) -> Call:
        lock = self.lock(name, wait=wait, lease=lease, max_waiters=max_waiters)
        return self._client.once(lock, _settings.seconds(keep), lock.wait)

    def _adopting(self, text: str) -> Call:
        """The lock's keys begin at the seventh part of the text."""
        return self._client.adopt(", ".join(map(unquote, text.split("/")[6:])), text)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {', '.join(map(_settings.without_login, self._place[1]))}>"


class LockBase(Generic[LocksT, EnteredT]):
    """A lock, and how to acquire it. Nothing is sent before it is acquired. It can be acquired any number of times, also by
    several threads or tasks at once."""

    def __init__(
        self,
        locks: LocksT,
        kind: str,
        names: list[Name],
        limit: int,
        *,
        wait: Time | None = None,
        lease: Time | None = None,
        fixed: bool = False,
        fenced: bool = False,
        owner: str | bytes | None = None,
        max_waiters: int | None = None,
        replicas: int | tuple[int, Time] | None = None,
    ) -> None:
        if fixed and lease is None:
            raise Configuration("fixed: a fixed lease needs its length, which is `lease`")
        if owner is not None and kind in ("permit", "all"):
            raise Configuration("owner: only a single lock has one")
        self.locks, self.kind, self.names, self.limit = locks, kind, names, limit
        self.wait, self.lease = _settings.seconds(wait), _settings.seconds(lease)
        self.fixed, self.fenced, self.owner, self.max_waiters = fixed, fenced, owner, max_waiters
        count, within = replicas if isinstance(replicas, tuple) else (replicas, 1.0)
        self.replicas = None if count is None else (count, _settings.seconds(within))
        # If this event is set, a wait of `acquire` ends with `Stopped`.
        self._stop: threading.Event | None = None
        # The holds that were acquired through this object, and by which thread or task.
        self._held: dict[HeldBase[Any], object] = {}
        self._entered: list[tuple[object, EnteredT]] = []

    def __repr__(self) -> str:
        names = ", ".join(it if isinstance(it, str) else repr(it) for it in self.names)
        terms = {name: getattr(self, name) for name in ("wait", "lease", "fixed", "fenced", "owner", "max_waiters")}
        shown = [names, *(f"{name}={value!r}" for name, value in terms.items() if value not in (None, False))]
        return f"<{type(self).__name__} {self.kind}: {', '.join(shown)}>"

    def _keeps(self, held: HeldBase[Any], who: object) -> None:
        """Remembers the hold for `release`, and forgets old ones that were lost and never released."""
        for older in list(self._held):
            if not older.lost:
                break
            self._held.pop(older, None)
        self._held[held] = who
        held._lock = weakref.ref(self)

    def _last(self, who: object) -> Any:
        for held, by in reversed(list(self._held.items())):
            if by == who:
                return held
        names = ", ".join(map(str, self.names))
        raise Lost(f"{names}: not acquired by this thread or task through this object: nothing to release")

    def _left(self, who: object) -> EnteredT:
        """The hold that this thread or task entered last. A generator may be entered in one thread and left in another."""
        entered = [it for it in self._entered if it[0] == who] or self._entered[:]
        if not entered or (entered[-1][0] != who and len(entered) > 1):
            raise RuntimeError("other threads or tasks have entered this lock, and it is not clear which one leaves it")
        self._entered.remove(entered[-1])
        return entered[-1][1]


class HeldBase(Generic[LocksT]):
    """A lock that is held until it is released or lost, or its client is closed."""

    def __init__(self, locks: LocksT, hold: Hold) -> None:
        self._locks, self._hold = locks, hold
        self._lock: Callable[[], LockBase[Any, Any] | None] | None = None
        self._loss: tuple[LossReason | None, str] | None = None
        self._watches: list[Call] = []
        # Called once, when the hold is over.
        self._ended: Callable[[bool], object] | None = None

    def __del__(self) -> None:
        hold = getattr(self, "_hold", None)
        if hold is None or not hold.remaining:
            return
        # Checks two older holds each time, so that ended ones do not pile up.
        for _ in range(min(2, len(_abandoned))):
            if (older := _abandoned.popleft())._hold.remaining:
                _abandoned.append(older)
        _abandoned.append(self)
        warnings.warn(f"{self!r} stays held, although nothing refers to it: release it", ResourceWarning, 2, self)

    def __repr__(self) -> str:
        state = f"lost: {self.loss}" if self.lost else f"{self.remaining:.1f} s left" if self.remaining else "released"
        return f"<{type(self).__name__} {self._hold.about}: {state}>"

    @property
    def holder(self) -> str:
        """The name under which the server knows the holder."""
        return self._hold.holder

    @property
    def tokens(self) -> list[int]:
        """The fencing tokens, in the order of the names; none if it is not `fenced`."""
        return self._hold.tokens

    @property
    def token(self) -> int | None:
        """The fencing token; for several locks, that of the first one."""
        return self.tokens[0] if self.tokens else None

    @property
    def lost(self) -> bool:
        """Whether the lock is no longer guaranteed. Asks no server. A released lock is not lost."""
        return self.loss is not None

    @property
    def loss(self) -> str | None:
        """Why it is lost, if it is."""
        loss = self._loss or self._hold.loss
        return loss and loss[1]

    @property
    def remaining(self) -> float:
        """For how many seconds the lock is guaranteed without a renewal. Asks no server."""
        return self._hold.remaining

    def check(self) -> None:
        """Raises Lost unless the lock is held. Asks no server."""
        if not self._hold.remaining:
            raise self._error(self._loss or self._hold.loss or (None, "it was released"))

    def on_lost(self, callback: Callable[[], object]) -> None:
        """Calls the callback once if the lock is lost: in the event loop, or in a thread for such callbacks."""

        def done(_: object, error: Exception | None) -> None:
            # A closed client is no loss to report.
            if error is None:
                self._soon(callback)

        watch = self._hold.until_lost()
        self._watches.append(watch)
        watch.start(self._turns(), done)

    def _turns(self) -> Turns:
        raise NotImplementedError

    def _soon(self, callback: Callable[[], object]) -> None:
        raise NotImplementedError

    def _error(self, loss: tuple[LossReason | None, str]) -> LockError:
        about, (reason, why) = self._hold.about, loss
        return Closed(f"{about}: {why}") if why == _CLOSED else Lost(f"{about}: lost: {why}", reason=reason)

    def _giving_back(self) -> Call:
        """The call that releases it. From now on its loss is not watched."""
        self._loss = self._loss or self._hold.loss
        for watch in self._watches:
            watch.drop()
        self._watches.clear()
        return self._hold.release()

    def _is_over(self, error: LockError | None = None) -> None:
        if self._lock is not None and (lock := self._lock()) is not None:
            lock._held.pop(self, None)
        if isinstance(error, Lost) and error.reason:
            self._loss = self._loss or (error.reason, str(error).removeprefix(f"{self._hold.about}: lost: "))
        if self._ended is not None:
            self._ended(self._loss is not None)
            self._ended = None

    def _judge(self, failure: LockError | None, error: BaseException | None) -> None:
        """Decides at the end of `with` whether to raise. The work was protected if the lease was guaranteed until then and
        the server does not say otherwise. If the release got no reply, it goes on in the background."""
        if self._loss is None:
            if failure is not None:
                _logger.warning("%s: released, but without a reply: %s", self._hold.about, failure)
        elif not isinstance(error, Lost | Closed) and isinstance(error, Exception | None):
            self._raise(self._loss, error)

    def _raise(self, loss: tuple[LossReason | None, str], error: BaseException | None) -> NoReturn:
        raise self._error(loss) from error


_SETTINGS = """
    Times are in seconds, or `timedelta`s.

    lease: how long a lock stays taken after its holder died; 30 by default.
    patience: how long to try servers that do not answer; 10 by default.
    connect_timeout, answer_timeout: for one connection, and for one reply; 2 and 3 by default.
    name: how operators see this program; host and process by default.
    ca, cert, key: for TLS, a path, or the PEM itself as bytes.
    """
_TERMS = """
    Times are in seconds, or `timedelta`s.

    wait: how long to wait; 0: try once; None: forever.
    lease: how long the lock stays taken after its holder died; the client's by default.
    fixed: the lease is not renewed: the lock is lost when it ends.
    fenced: `held.token` grows with each grant, so that storage can refuse an old holder.
    owner: the holder's name, under which it may acquire a single lock again.
    max_waiters: wait only if fewer wait already, else raise QueueFull.
    replicas: how many replicas have to confirm the lock; with a time, as (number, time), or within 1 s.
    """


_ONCE = """
    Times are in seconds, or `timedelta`s.

    keep: how long the value is kept.
    wait: how long to wait for the value of another caller, then raise Busy; 0: do not wait; None: forever.
    lease: how long the key stays taken after the process that works died; the client's by default.
    max_waiters: wait only if fewer wait already, else raise QueueFull.
    json: the value is anything that JSON has, not bytes; all callers get what JSON makes of it.
    """


def _spell_out(methods: Iterable[Any], options: Callable[..., Any], doc: str) -> None:
    """Makes `help()` show the options in place of `**options`."""
    shown = [it for it in inspect.signature(options).parameters.values() if it.kind is it.KEYWORD_ONLY]
    for method in methods:
        function = getattr(method, "__func__", method)
        own = inspect.signature(function)
        before = [it for it in own.parameters.values() if it.kind is not it.VAR_KEYWORD]
        function.__signature__ = own.replace(parameters=[*before, *shown])
        function.__doc__ = f"{function.__doc__}\n{doc}"


_ways = (LocksBase.__init__, LocksBase.cluster, LocksBase.sentinels, LocksBase.of)
_spell_out(_ways, LocksBase._begin, _SETTINGS)
_kinds = (LocksBase.lock, LocksBase.read, LocksBase.write, LocksBase.permit, LocksBase.all)
_spell_out(_kinds, LockBase.__init__, _TERMS)


def _stop() -> None:
    for locks in list(_open):
        locks._client.stop()


def _close() -> None:
    end = time.monotonic() + _AT_EXIT
    for call in [locks._client.close() for locks in list(_open)]:
        with suppress(Unavailable):
            _green.wait(call, max(0.0, end - time.monotonic()))
    _native.end()


# Runs before the interpreter joins threads that wait here. `concurrent.futures` ends its threads the same way.
with suppress(RuntimeError):  # the interpreter ends already
    getattr(threading, "_register_atexit", lambda _: None)(_stop)
atexit.register(_close)
