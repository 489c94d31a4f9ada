"""Where the servers are and how to reach them, in the native part's form: also from a client of redis-py, without
importing redis-py."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

Pem = str | os.PathLike[str] | bytes


def pem(given: Pem | None) -> bytes | None:
    """The bytes of a PEM that is given as such, or as the path of a file."""
    return given if given is None or isinstance(given, bytes) else Path(given).read_bytes()


def seconds(time: float | timedelta | None) -> float | None:
    return time.total_seconds() if isinstance(time, timedelta) else time


def without_login(address: str) -> str:
    """The address without user and password, so that it may be shown."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def found_in(client: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The place and the settings of a client of redis-py: of one server, of a cluster, or of a master that sentinels watch."""
    if nodes := getattr(client, "nodes_manager", None):
        # The asynchronous client itself has the settings.
        settings = getattr(client, "connection_kwargs", None) or nodes.connection_kwargs
        seeds = [{**settings, "host": node.host, "port": node.port} for node in nodes.startup_nodes.values()]
        return ("cluster", [_address(seed) for seed in seeds], "", None, None, 0, False), _limits(settings)
    pool = client.connection_pool
    settings = pool.connection_kwargs
    tls = _has_tls(settings, pool.connection_class)
    watchers = getattr(pool, "sentinel_manager", None)
    if watchers is not None:
        pools = [sentinel.connection_pool for sentinel in watchers.sentinels]
        addresses = [_address(it.connection_kwargs, it.connection_class) for it in pools]
        user, password = _login(settings)
        access = (pool.service_name, user, password, settings.get("db") or 0, tls)
        return ("sentinels", addresses, *access), _limits(settings)
    return ("server", [_address(settings, pool.connection_class)], "", None, None, 0, False), _limits(settings)


def _address(settings: Mapping[str, Any], connection: type | None = None) -> str:
    user, password = (quote(it or "", safe="") for it in _login(settings))
    database = settings.get("db") or 0
    if path := settings.get("path"):
        return f"redis+unix://{quote(path)}?db={database}" + (f"&user={user}&pass={password}" if password else "")
    host = settings.get("host") or "localhost"
    login = f"{user}:{password}@" if user or password else ""
    scheme = "rediss" if _has_tls(settings, connection) else "redis"
    at = f"[{host}]" if ":" in host else host
    return f"{scheme}://{login}{at}:{settings.get('port') or 6379}/{database}"


def _login(settings: Mapping[str, Any]) -> tuple[str | None, str | None]:
    if provider := settings.get("credential_provider"):
        user, *password = provider.get_credentials()
        return (user, password[0]) if password else (None, user)
    return settings.get("username"), settings.get("password")


def _has_tls(settings: Mapping[str, Any], connection: type | None) -> bool:
    connection = settings.get("connection_class") or connection
    return bool(settings.get("ssl")) or "SSL" in getattr(connection, "__name__", "")


def _limits(settings: Mapping[str, Any]) -> dict[str, Any]:
    authorities = settings.get("ssl_ca_data")
    found = {
        "connect_timeout": settings.get("socket_connect_timeout"),
        "ca": authorities.encode() if isinstance(authorities, str) else settings.get("ssl_ca_certs"),
        "cert": settings.get("ssl_certfile"),
        "key": settings.get("ssl_keyfile"),
    }
    return {name: value for name, value in found.items() if value is not None}
