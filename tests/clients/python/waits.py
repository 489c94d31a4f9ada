"""Any number of waits over one connection: a session of the server, its events, and who waits for which."""

# snippet: session
import asyncio
import time
from contextlib import suppress
from itertools import count
from uuid import uuid4

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff
from redis.exceptions import RedisError, ResponseError

TTL_MS = 10_000  # how long the server keeps the waits of a process that it does not hear from


class Waits:
    """Waits for locks of one server. `async with Waits(url) as waits`, once in a process; end all waits before it."""

    def __init__(self, url):
        # The server answers each call of EVENTS within a third of the TTL. Every command here may be sent again.
        options = {"socket_timeout": TTL_MS / 2_000, "retry": Retry(ExponentialBackoff(), 3), "decode_responses": True}
        self._pool = BlockingConnectionPool.from_url(url, max_connections=4, **options)
        self._redis = Redis.from_pool(self._pool)
        self._session, self._process = str(uuid4()), str(uuid4())
        self._tickets, self._news = map(str, count(1)), {}
        self._seen = None  # the last event; None: there is no session

    async def __aenter__(self):
        self._polling = asyncio.create_task(self._poll())
        return self

    async def __aexit__(self, *_):
        while not self._polling.done():  # Python before 3.12 may lose a cancellation
            self._polling.cancel()
            await asyncio.sleep(0)
        with suppress(RedisError):
            await self._redis.execute_command("RLOCK.CANCEL", self._session)  # ends the session
        await self._redis.aclose()

    async def acquire(self, key, lease_ms, wait_ms):
        """Returns the holder, for RENEW and RELEASE; None if the lock was not free in time. May be cancelled."""
        ticket = next(self._tickets)
        holder = f"{self._process}:{ticket}"
        self._news[ticket] = asyncio.Queue()
        granted = False
        try:
            wait = self._wait(ticket, key, holder, lease_ms, wait_ms)
            with suppress(asyncio.TimeoutError):  # nobody says that the time is up if the server is gone
                granted = await asyncio.wait_for(wait, wait_ms / 1_000 + 1)
        finally:
            del self._news[ticket]
            if not granted:
                with suppress(RedisError):
                    await self._redis.execute_command("RLOCK.CANCEL", self._session, ticket)
                    await self._redis.execute_command("RLOCK.RELEASE", key, holder, "ALL")
        return holder if granted else None

    async def _wait(self, ticket, key, holder, lease_ms, wait_ms):
        end = time.monotonic() + wait_ms / 1_000
        while (left_ms := int((end - time.monotonic()) * 1_000)) > 0:
            try:
                # Sent again with the same ticket, it keeps its place in the queue.
                wait = ("WAIT", left_ms, "SESSION", self._session, ticket)
                if await self._redis.execute_command("RLOCK.ACQUIRE", key, holder, lease_ms, *wait) is None:
                    return True
            except ResponseError as error:
                if not str(error).startswith("NOSESSION"):
                    raise
            outcome, value = await self._news[ticket].get()
            if outcome == "error":
                raise ResponseError(value)
            if outcome == "timeout":
                return False
            # A grant may be old when it is read: the lock is ours only if it can be renewed.
            if outcome == "granted" and await self._redis.execute_command("RLOCK.RENEW", key, holder, lease_ms) == 1:
                return True
        return False

    async def _poll(self):
        while True:
            connection = self._pool.make_connection()
            try:
                await connection.connect()
                await self._listen(connection)
            except (RedisError, OSError) as error:
                if str(error).startswith("NOSESSION"):
                    self._seen = None
                await asyncio.sleep(0.1)
            finally:
                await connection.disconnect(nowait=True)

    async def _listen(self, connection):
        await self._call(connection)  # opens the session, or takes it up again
        await self._read(connection)
        for news in self._news.values():
            news.put_nowait(("ask again", None))
        # Two calls are under way, so that one waits in the server while the answer to the other is read.
        await self._call(connection, "WAIT", 0)
        while True:
            await self._call(connection, "WAIT", 0)
            await self._read(connection)

    async def _call(self, connection, *wait):
        known = () if self._seen is None else ("ACK", self._seen)
        await connection.send_command("RLOCK.EVENTS", self._session, *known, "TTL", TTL_MS, *wait)

    async def _read(self, connection):
        events = await connection.read_response()
        for _, ticket, outcome, value in events:
            if ticket in self._news:
                self._news[ticket].put_nowait((outcome, value))
            elif outcome == "granted":
                # Nobody waits any more, and it is not acknowledged yet: the server takes the lock back.
                await self._redis.execute_command("RLOCK.CANCEL", self._session, ticket)
        self._seen = events[-1][0] if events else self._seen or 0

# end
