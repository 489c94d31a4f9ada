"""The errors: one class for each thing that a caller may do about it. The text is the client's, with the server's words."""

from __future__ import annotations

from typing import Literal

LossReason = Literal["not-held", "overwritten", "not-renewed", "ended"]


class LockError(Exception):
    """Any of the errors below. `code` is the code of the server's answer, if the server refused."""

    code: str | None

    def __init__(self, text: str = "", code: str | None = None) -> None:
        super().__init__(text)
        self.code = code


class Busy(LockError, TimeoutError):
    """The lock was not free in time."""


class Lost(LockError):
    """The lock is not held any more: the work is not protected. `reason` says why:

    - "not-held": the server says so: the lock was broken, deleted, or forgotten by a restart or failover;
    - "overwritten": its name stores something else;
    - "not-renewed": its lease ended because no renewal came through;
    - "ended": its lease ended, and no renewal had failed: a fixed lease, or the program or its machine stalled.

    It is None if the release is in doubt, or if the lock was released before or never held here."""

    reason: LossReason | None

    def __init__(self, text: str = "", code: str | None = None, reason: LossReason | None = None) -> None:
        super().__init__(text, code)
        self.reason = reason


class InDoubt(Lost):
    """The reply to the release is lost: the lock may have been held until then, or not."""


class Unavailable(LockError, ConnectionError):
    """No server answers, or the server cannot do it now. There is nothing to clean up."""


class TooFewReplicas(LockError):
    """Fewer replicas than asked for have confirmed the lock; it was released."""


class QueueFull(LockError):
    """The server takes no more waiters, or more than `max_waiters` wait."""


class WrongKind(LockError):
    """The lock of that name is of another kind: a plain one, a read-write one, or permits."""


class Deadlock(LockError):
    """The caller would wait for itself."""


class NoModule(LockError):
    """The server has no rlock module."""


class OldModule(LockError):
    """The server's rlock module is too old."""


class NoRight(LockError, PermissionError):
    """A wrong password, none where one is needed, or a missing access right."""


class Refused(LockError):
    """The server refuses the request for another reason."""


class Configuration(LockError, ValueError):
    """A mistake in how the client was opened or called."""


class Closed(LockError):
    """The client was closed, in this program."""


_BY_WORD: dict[str, type[LockError]] = {
    "busy": Busy,
    "lost": Lost,
    "in-doubt": InDoubt,
    "unavailable": Unavailable,
    "too-few-replicas": TooFewReplicas,
    "queue-full": QueueFull,
    "wrong-kind": WrongKind,
    "deadlock": Deadlock,
    "no-module": NoModule,
    "old-module": OldModule,
    "no-right": NoRight,
    "configuration": Configuration,
    "closed": Closed,
}


def of(word: str, text: str, code: str | None, reason: LossReason | None) -> LockError:
    """The error for a failure of the native part."""
    kind = _BY_WORD.get(word, Refused)
    return kind(text, code, reason) if issubclass(kind, Lost) else kind(text, code)
