"""What can fail: one class for each thing that a caller may do about it. The text is the client's, with the server's words."""

from __future__ import annotations


class LockError(Exception):
    """Any of those below. `code` is that of the server's answer, if it was the server that said no."""

    code: str | None

    def __init__(self, text: str = "", code: str | None = None) -> None:
        super().__init__(text)
        self.code = code


class Busy(LockError, TimeoutError):
    """The lock was not free in time."""


class Lost(LockError):
    """The lease has ended, or may have, or somebody has taken the lock away: the work is not protected."""


class InDoubt(Lost):
    """Of a release whose answer is lost: the lock may have been held until then, or not."""


class Unavailable(LockError, ConnectionError):
    """No server answers, or it cannot do it now. There is nothing to clean up."""


class TooFewReplicas(LockError):
    """Fewer replicas than asked for have confirmed the lock; it was given back."""


class QueueFull(LockError):
    """The server takes no more waiters, or more than `max_waiters` wait."""


class WrongKind(LockError):
    """A lock of that name is there, of another kind: a plain one, a read-write one, or permits."""


class Deadlock(LockError):
    """It would wait for itself."""


class NoModule(LockError):
    """The server has no rlock module."""


class OldModule(LockError):
    """The server's rlock module is too old."""


class NoRight(LockError, PermissionError):
    """A wrong password, none where one is needed, or a missing access right."""


class Refused(LockError):
    """The server refuses it for another reason."""


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


def of(word: str, text: str, code: str | None) -> LockError:
    """The native part's failures."""
    return _BY_WORD.get(word, Refused)(text, code)
