"""Any number of waits over one connection: a session of the server, its events, and who waits for which."""

# snippet: session
import asyncio
import logging
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
        self._seen = 0  # the last event

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
        """Returns the holder, for RENEW and RELEASE … ALL; None if the lock was not free in time. May be cancelled."""
        ticket = next(self._tickets)
        holder = f"{self._process}:{ticket}"
        news = self._news[ticket] = asyncio.Queue()
        wait = asyncio.create_task(self._wait(news, ticket, key, holder, lease_ms, wait_ms))
        granted = False
        try:
            await asyncio.wait([wait], timeout=wait_ms / 1_000 + 1)
            news.put_nowait(("timeout", None))  # the server tells of it, if it is there
            granted = await wait
            return holder if granted else None
        finally:
            if not granted:
                news.put_nowait(("timeout", None))
                await asyncio.wait([wait])  # an ACQUIRE that is under way must not come after the CANCEL
                with suppress(RedisError):
                    await self._redis.execute_command("RLOCK.CANCEL", self._session, ticket)
                    await self._redis.execute_command("RLOCK.RELEASE", key, holder, "ALL")
            del self._news[ticket]

    async def _wait(self, news, ticket, key, holder, lease_ms, wait_ms):
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
            outcome, value = await news.get()
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
                    self._seen = 0
                logging.warning("rlock: no events, trying again: %s", error)
                await asyncio.sleep(0.1)
            finally:
                await connection.disconnect(nowait=True)

    async def _listen(self, connection):
        now = before = time.time()
        await self._call(connection)  # opens the session, or takes it up again
        await self._read(connection)
        for news in self._news.values():
            news.put_nowait(("ask again", None))
        # Two calls are under way, so that one waits in the server while the answer to the other is read.
        await self._call(connection, "WAIT", 0)
        while now - before < TTL_MS / 1_000:  # if not, this process stood still, and the session may have ended
            await self._call(connection, "WAIT", 0)
            await self._read(connection)
            now, before = time.time(), now

    async def _call(self, connection, *wait):
        await connection.send_command("RLOCK.EVENTS", self._session, "ACK", self._seen, "TTL", TTL_MS, *wait)

    async def _read(self, connection):
        events = await connection.read_response()
        for _, ticket, outcome, value, *_ in events:
            if ticket in self._news:
                self._news[ticket].put_nowait((outcome, value))
            elif outcome == "granted":
                # Nobody waits any more, and it is not acknowledged yet: the server takes the lock back.
                await self._redis.execute_command("RLOCK.CANCEL", self._session, ticket)
        if events:
            self._seen = events[-1][0]
# end
