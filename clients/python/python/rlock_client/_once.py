"""What `once` of both clients shares: the value as it is stored, and the key of a call to a decorated function."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ._base import Name


def stored(value: object, as_json: bool) -> bytes:
    if as_json:
        return json.dumps(value, separators=(",", ":")).encode()
    if not isinstance(value, bytes | bytearray | memoryview):
        raise TypeError(f"once: the work must return bytes (or use json=True), not {type(value).__name__}")
    return bytes(value)


def found(value: bytes, as_json: bool) -> Any:
    return json.loads(value) if as_json else value


def key_of(key: Name | Callable[..., Name], args: Any, kwargs: Any) -> Name:
    return key(*args, **kwargs) if callable(key) else key
