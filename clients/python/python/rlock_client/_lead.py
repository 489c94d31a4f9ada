"""What `lead` of both clients shares: which failures end it, and the pauses after those that do not."""

from __future__ import annotations

import logging
import time
from typing import Any

from ._base import HeldBase
from .errors import LockError, Lost, QueueFull, TooFewReplicas, Unavailable

_logger = logging.getLogger("rlock_client")
_TRANSIENT = (Lost, Unavailable, QueueFull, TooFewReplicas)
_FIRST, _LONGEST = 0.1, 3.0


def is_transient(error: LockError, held: HeldBase[Any] | None) -> bool:
    """Whether a later turn may succeed. An error that the work raises after a loss is mostly due to the loss."""
    return isinstance(error, _TRANSIENT) and (held is None or held.lost)


def pause(last: float, begun: float, error: LockError) -> float:
    """How many seconds to wait after a failed turn that began at `begun`: twice the last pause if it failed soon."""
    failed_soon = time.monotonic() - begun < _LONGEST
    length = min(max(2 * last, _FIRST), _LONGEST) if failed_soon else _FIRST
    _logger.warning("lead: next attempt in %.1f s: %s", length, error, exc_info=error.__cause__)
    return length
