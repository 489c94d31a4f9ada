"""In place of the Lock of redis-py for asyncio."""

import asyncio

import pytest
import redis as redis_py
import redis.asyncio
from conftest import PATIENCE, URL, until_async, waiting
from redis.exceptions import LockError, LockNotOwnedError

from rlock_client.redis_lock import AsyncLock, AsyncRedis


def with_client(test, **options):
    async def limited():
        async with AsyncRedis.from_url(URL, **options) as client:
            await asyncio.wait_for(test(client), PATIENCE)

    asyncio.run(limited())


@pytest.mark.parametrize("options", [{}, {"decode_responses": True}])
def test_acquire_and_release(redis, options):
    async def test(client):
        it, other = client.lock("foo"), client.lock("foo")
        assert isinstance(it, AsyncLock) and await it.acquire(token="token")
        assert redis.hkeys("foo") == ["token"] and it.local.token == b"token"
        assert await it.locked() and await it.owned() and not await other.owned()
        assert not await other.acquire(blocking=False)
        await it.release()
        assert it.local.token is None and not await it.locked() and not redis.exists("foo")
        with pytest.raises(LockError, match="already unlocked"):
            await it.release()

    with_client(test, **options)


def test_a_lock_class_of_redis_py_s_own_client(redis):
    async def test(_):
        async with redis_py.asyncio.Redis.from_url(URL) as client, client.lock("foo", timeout=5, lock_class=AsyncLock):
            assert redis.type("foo") == "hash" and 4_000 < redis.pttl("foo") <= 5_000

    with_client(test)


def test_it_waits_in_the_queue_and_can_be_cancelled(redis):
    async def test(client):
        async with client.lock("foo"):
            wait = asyncio.create_task(client.lock("foo").acquire())
            await until_async("it waits", lambda: waiting(redis) == 1)
            wait.cancel()
            await until_async("it waits no more", lambda: waiting(redis) == 0)
            with pytest.raises(LockError, match="Unable to acquire lock within the time specified"):
                async with client.lock("foo", blocking_timeout=0.05):
                    pass
        assert not redis.exists("foo")

    with_client(test)


def test_extend_and_reacquire(redis):
    async def test(client):
        it = client.lock("foo", timeout=10)
        with pytest.raises(LockError, match="unlocked"):
            it.extend(10)
        await it.acquire()
        assert await it.extend(10) and 18_000 < redis.pttl("foo") <= 20_000
        assert await it.extend(5, replace_ttl=True) and redis.pttl("foo") <= 5_000
        assert await it.reacquire() and 8_000 < redis.pttl("foo") <= 10_000
        redis.set("foo", "data")
        assert not await it.owned()
        for call in (lambda: it.extend(10), it.reacquire, it.release):
            with pytest.raises(LockNotOwnedError):
                await call()
        assert it.local.token is None

    with_client(test)


def test_what_was_lost(redis):
    async def test(client):
        async with client.lock("foo", raise_on_release_error=False):
            redis.delete("foo")
        with pytest.raises(LockNotOwnedError):
            async with client.lock("foo"):
                redis.delete("foo")

    with_client(test)


def test_no_server():
    async def test(_):
        client = AsyncRedis(port=1)
        with pytest.raises(redis_py.exceptions.ConnectionError):
            await client.lock("foo").acquire(blocking_timeout=0.1)

    with_client(test)
