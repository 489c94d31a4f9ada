"""The locks in place of redis-py's, for threads and for asyncio, do what redis-py's documentation says."""

import asyncio
import gc
import inspect
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
import redis as redis_py
import redis.asyncio as redis_aio
from conftest import URL, until, until_async, waiting
from redis.exceptions import LockError, LockNotOwnedError

from rlock_client.redis_lock import AsyncLock, AsyncRedis, Lock, Redis


class Blocking:
    """A lock for asyncio that is called like one for threads."""

    def __init__(self, run, it):
        self._run, self._it = run, it

    def __getattr__(self, name):
        found = getattr(self._it, name)
        if not callable(found):
            return found

        def call(*given, **named):
            answer = found(*given, **named)
            return self._run(answer) if inspect.isawaitable(answer) else answer

        return call

    def __enter__(self):
        self._run(self._it.__aenter__())
        return self

    def __exit__(self, *error):
        self._run(self._it.__aexit__(*error))


@pytest.fixture
def client(redis):
    with Redis.from_url(URL) as client:
        yield client


@pytest.fixture(params=["threads", "asyncio"])
def lock(request, client):
    """Makes locks of the name foo."""
    if request.param == "threads":
        yield partial(client.lock, "foo")
        return
    loop, client = asyncio.new_event_loop(), AsyncRedis.from_url(URL)
    yield lambda **options: Blocking(loop.run_until_complete, client.lock("foo", **options))
    loop.run_until_complete(client.aclose())
    loop.close()


def test_acquire_and_release(redis, lock):
    it = lock()
    assert it.acquire(blocking=False)
    assert redis.hkeys("foo") == [it.local.token.decode()] and 0 < redis.pttl("foo") <= 30_000
    assert it.locked() and it.owned()
    it.release()
    assert not redis.exists("foo") and not it.locked() and not it.owned()


@pytest.mark.parametrize("token", ["token", b"token"])
def test_a_token_of_one_s_own(redis, lock, token):
    it = lock()
    assert it.acquire(blocking=False, token=token)
    assert redis.hkeys("foo") == ["token"] and it.local.token == b"token" and it.owned()
    assert it.acquire(token=token), "its holder acquires it again"
    it.release()
    until("it is free", lambda: not redis.exists("foo"))


def test_a_name_that_stores_something_else(redis, lock):
    it = lock(timeout=10)
    for call in (lambda: it.extend(10), it.reacquire, it.release):
        it.acquire()
        redis.set("foo", "data")
        assert it.locked() and not it.owned()
        with pytest.raises(LockNotOwnedError):
            call()
        redis.delete("foo")


def test_the_lock_is_exclusive(lock):
    one, other = lock(), lock()
    assert one.acquire(blocking=False)
    assert not other.acquire(blocking=False)
    assert not one.acquire(blocking=False)
    assert one.locked() and other.locked() and not other.owned()
    one.release()
    assert other.acquire(blocking=False)
    other.release()


def test_a_timeout_is_the_lock_s_whole_life(redis, lock):
    it = lock(timeout=10)
    assert it.acquire(blocking=False)
    assert 8_000 < redis.pttl("foo") <= 10_000
    it.release()
    short = lock(timeout=0.1)
    assert short.acquire()
    until("it has ended", lambda: not redis.exists("foo"))
    with pytest.raises(LockNotOwnedError):
        short.release()


def test_blocking_timeout(lock):
    one, other = lock(), lock(blocking_timeout=0.1)
    assert one.acquire(blocking=False)
    assert not other.acquire() and not other.acquire(blocking_timeout=0.2)
    with pytest.raises(LockError, match="Unable to acquire lock within the time specified"):
        with other:
            pass
    one.release()


def test_context_manager(redis, lock):
    with lock() as it:
        assert redis.hkeys("foo") == [it.local.token.decode()]
    assert not redis.exists("foo")
    with pytest.raises(LockNotOwnedError):
        with lock():
            redis.delete("foo")
    with lock(raise_on_release_error=False):
        redis.delete("foo")


def test_releasing_what_is_not_held(redis, lock):
    it = lock()
    with pytest.raises(LockError, match="already unlocked") as error:
        it.release()
    assert error.value.lock_name == "foo"
    it.acquire(blocking=False)
    redis.delete("foo")
    redis.hset("foo", "another", 1)
    with pytest.raises(LockNotOwnedError):
        it.release()
    assert it.local.token is None and redis.hkeys("foo") == ["another"]


def test_extend(redis, lock):
    it = lock(timeout=10)
    assert it.acquire(blocking=False) and it.extend(10)
    assert 18_000 < redis.pttl("foo") <= 20_000
    assert it.extend(5, replace_ttl=True) and redis.pttl("foo") <= 5_000
    assert it.reacquire() and 8_000 < redis.pttl("foo") <= 10_000
    it.release()
    assert not redis.exists("foo")


@pytest.mark.parametrize(("verb", "given"), [("extend", [10]), ("reacquire", [])])
def test_extending_what_is_not_held(redis, lock, verb, given):
    it = lock(timeout=10)
    with pytest.raises(LockError, match="unlocked"):
        getattr(it, verb)(*given)
    it.acquire()
    redis.delete("foo")
    with pytest.raises(LockNotOwnedError):
        getattr(it, verb)(*given)
    endless = lock()
    endless.acquire()
    with pytest.raises(LockError, match="no timeout"):
        getattr(endless, verb)(*given)
    endless.release()


def test_a_lock_without_references_stays_held(lock):
    lock(timeout=20).acquire()
    gc.collect()
    assert not lock().acquire(blocking=False)


def test_extended_beyond_its_first_timeout(redis, client):
    def ours(token):
        return client.lock("foo")._kept.held[token][0]

    it = client.lock("foo", timeout=0.1)
    assert it.acquire() and it.extend(20)
    held = ours(it.local.token)
    until("the first lease has ended", lambda: held.lost)
    assert it.owned()
    it.release()
    assert not redis.exists("foo")
    again = client.lock("foo", timeout=0.1)
    again.acquire(token=b"t")
    assert again.extend(20)
    until("the first lease has ended", lambda: ours(b"t").lost)
    again.release()
    assert again.acquire(token=b"t") and again.extend(20) and again.owned()
    again.release()


def test_a_fixed_lease_is_whole_after_a_wait_in_the_queue(redis, client):
    one, other = (client.lock("foo", timeout=600, thread_local=False) for _ in range(2))
    assert one.acquire()
    with ThreadPoolExecutor(1) as waiter:
        waits = waiter.submit(other.acquire)
        until("it waits", lambda: waiting(redis) == 1)
        one.release()
        assert waits.result()
    assert redis.pttl("foo") > 590_000
    other.release()


@pytest.mark.parametrize("thread_local", [True, False])
def test_a_token_is_its_thread_s_own(client, thread_local):
    it, errors = client.lock("foo", thread_local=thread_local), []
    it.acquire()

    def release():
        try:
            it.release()
        except LockError as error:
            errors.append(error)

    thread = threading.Thread(target=release)
    thread.start()
    thread.join()
    assert bool(errors) is thread_local
    if thread_local:
        it.release()


def test_another_process_may_release_by_the_token(redis, client):
    it = client.lock("foo", timeout=20, thread_local=False)
    it.acquire()
    with Redis.from_url(URL, decode_responses=True) as elsewhere:
        other = elsewhere.lock("foo", thread_local=False)
        other.local.token = it.local.token
        assert other.owned()
        other.release()
    assert not redis.exists("foo")


def test_a_task_that_waits_can_be_cancelled(redis):
    async def test():
        async with AsyncRedis.from_url(URL, decode_responses=True) as client, client.lock("foo"):
            wait = asyncio.create_task(client.lock("foo").acquire())
            await until_async("it waits", lambda: waiting(redis) == 1)
            wait.cancel()
            await until_async("it waits no more", lambda: waiting(redis) == 0)
        assert not redis.exists("foo")

    asyncio.run(test())


def test_a_lock_class_of_redis_py_s_own_clients(redis):
    async def test():
        async with redis_aio.Redis.from_url(URL) as client, client.lock("foo", timeout=5, lock_class=AsyncLock):
            assert redis.type("foo") == "hash" and 4_000 < redis.pttl("foo") <= 5_000

    asyncio.run(test())
    with redis_py.Redis.from_url(URL) as client, client.lock("foo", timeout=5, lock_class=Lock):
        assert redis.type("foo") == "hash" and 4_000 < redis.pttl("foo") <= 5_000


def test_no_server():
    with pytest.raises(redis_py.exceptions.ConnectionError):
        Lock(redis_py.Redis(port=1), "foo").acquire(blocking_timeout=0.1)
    with pytest.raises(redis_py.exceptions.ConnectionError):
        asyncio.run(AsyncRedis(port=1).lock("foo").acquire(blocking_timeout=0.1))


def test_clients_that_share_connections_share_one_of_ours(client):
    other = Redis(connection_pool=client.connection_pool)
    assert client.lock("foo")._kept is other.lock("foo")._kept


def test_django_redis(redis):
    django = pytest.importorskip("django.conf")
    pytest.importorskip("django_redis")
    options = {"REDIS_CLIENT_CLASS": "rlock_client.redis_lock.Redis"}
    cache = {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": URL, "OPTIONS": options}
    django.settings.configure(CACHES={"default": cache})
    from django.core.cache import cache

    with cache.lock("report", timeout=5) as it:
        assert isinstance(it, Lock) and it.owned()
    assert redis.keys("*report*") == []


def test_redbeat(client):
    schedulers = pytest.importorskip("redbeat.schedulers")
    it = client.lock("redbeat::lock", timeout=10, sleep=5)
    it.lua_extend = client.register_script(schedulers.LUA_EXTEND_TO_SCRIPT)
    assert it.acquire()
    for _ in range(3):
        it.extend(10)
    assert it.owned() and client.pttl("redbeat::lock") <= 10_000
    it.release()
