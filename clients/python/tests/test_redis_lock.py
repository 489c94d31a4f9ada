"""In place of redis-py's Lock: what its documentation says of it."""

import gc
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis as redis_py
from conftest import URL, until
from redis.exceptions import LockError, LockNotOwnedError

from rlock_client.redis_lock import Lock, Redis


@pytest.fixture
def client(redis):
    with redis_py.Redis.from_url(URL) as client:
        yield client


def lock(client, name="foo", **options):
    return client.lock(name, lock_class=Lock, **options)


def test_acquire_and_release(client):
    it = lock(client)
    assert it.acquire(blocking=False)
    assert client.hkeys("foo") == [it.local.token]
    assert it.locked() and it.owned()
    it.release()
    assert not client.exists("foo") and not it.locked() and not it.owned()


def test_a_token_of_one_s_own(client):
    for token in ("token", b"token"):
        it = lock(client)
        assert it.acquire(blocking=False, token=token)
        assert client.hkeys("foo") == [b"token"] and it.local.token == b"token" and it.owned()
        it.release()


def test_a_token_that_acquires_again(client):
    it = lock(client)
    assert it.acquire(token="token") and it.acquire(token="token")
    it.release()
    until("it is free", lambda: not client.exists("foo"))


def test_a_name_that_stores_something_else(client):
    it = lock(client, timeout=10)
    for call in (lambda: it.extend(10), it.reacquire, it.release):
        it.acquire()
        client.set("foo", "data")
        assert it.locked() and not it.owned()
        with pytest.raises(LockNotOwnedError):
            call()
        client.delete("foo")


def test_a_fixed_lease_is_not_renewed_after_a_wait(client):
    def renewals():
        return client.info("commandstats").get("cmdstat_rlock.renew", {"calls": 0})["calls"]

    one, other = lock(client, timeout=600), lock(client, timeout=600)
    assert one.acquire()
    before = renewals()
    with ThreadPoolExecutor(1) as waiter:
        waits = waiter.submit(other.acquire)
        until("it waits", lambda: client.info("rlock")["rlock_waiters"] == 1)
        one.release()
        assert waits.result()
    assert renewals() == before and client.pttl("foo") > 590_000


def test_the_lock_is_exclusive(client):
    one, other = lock(client), lock(client)
    assert one.acquire(blocking=False)
    assert not other.acquire(blocking=False)
    assert not one.acquire(blocking=False)
    assert one.locked() and other.locked() and not other.owned()
    one.release()
    assert other.acquire(blocking=False)
    other.release()


def test_a_timeout_is_the_lock_s_whole_life(client):
    it = lock(client, timeout=10)
    assert it.acquire(blocking=False)
    assert 8_000 < client.pttl("foo") <= 10_000
    it.release()
    short = lock(client, timeout=0.1)
    assert short.acquire()
    until("it has ended", lambda: not client.exists("foo"))
    with pytest.raises(LockNotOwnedError):
        short.release()


def test_without_a_timeout_it_is_renewed(client):
    it = lock(client)
    assert it.acquire() and 0 < client.pttl("foo") <= 30_000
    it.release()


def test_blocking_timeout(client):
    one, other = lock(client), lock(client, blocking_timeout=0.1)
    assert one.acquire(blocking=False)
    assert not other.acquire() and not other.acquire(blocking_timeout=0.2)
    with pytest.raises(LockError, match="Unable to acquire lock within the time specified"):
        with other:
            pass
    one.release()


def test_it_waits_in_the_queue(client):
    one, done = lock(client), threading.Event()
    assert one.acquire()

    def wait():
        with lock(client):
            done.set()

    thread = threading.Thread(target=wait)
    thread.start()
    until("it waits", lambda: client.info("rlock")["rlock_waiters"] == 1)
    one.release()
    thread.join(20)
    assert done.is_set() and not client.exists("foo")


def test_context_manager(client):
    with lock(client) as it:
        assert client.hkeys("foo") == [it.local.token]
    assert not client.exists("foo")
    with pytest.raises(LockError):
        with lock(client):
            client.delete("foo")
    with lock(client, raise_on_release_error=False):
        client.delete("foo")


def test_releasing_what_is_not_held(client):
    it = lock(client)
    with pytest.raises(LockError, match="already unlocked") as error:
        it.release()
    assert error.value.lock_name == "foo"
    it.acquire(blocking=False)
    client.delete("foo")
    client.hset("foo", "another", 1)
    with pytest.raises(LockNotOwnedError):
        it.release()
    assert it.local.token is None and client.hkeys("foo") == [b"another"]


def test_extend(client):
    it = lock(client, timeout=10)
    assert it.acquire(blocking=False) and it.extend(10)
    assert 18_000 < client.pttl("foo") <= 20_000
    assert it.extend(5, replace_ttl=True) and client.pttl("foo") <= 5_000
    assert it.reacquire() and 8_000 < client.pttl("foo") <= 10_000
    it.release()
    assert not client.exists("foo")


def test_extended_beyond_its_first_timeout(client):
    it = lock(client, timeout=0.1)
    assert it.acquire() and it.extend(20)
    held, _ = next(entry for entry in _kept(client).held.values())
    until("the first lease has ended", lambda: held.lost)
    assert it.owned()
    it.release()
    assert not client.exists("foo")
    again = lock(client, timeout=0.1)
    again.acquire(token=b"t")
    assert again.extend(20)
    until("the first lease has ended", lambda: _kept(client).held[b"t"][0].lost)
    again.release()
    assert again.acquire(token=b"t") and again.extend(20) and again.owned()
    again.release()


def _kept(client):
    return lock(client)._kept


def test_extending_what_is_not_held(client):
    for verb in ("extend", "reacquire"):
        given = (10,) if verb == "extend" else ()
        it = lock(client, timeout=10)
        with pytest.raises(LockError, match="unlocked"):
            getattr(it, verb)(*given)
        it.acquire()
        client.delete("foo")
        with pytest.raises(LockNotOwnedError):
            getattr(it, verb)(*given)
        endless = lock(client)
        endless.acquire()
        with pytest.raises(LockError, match="no timeout"):
            getattr(endless, verb)(*given)
        endless.release()


def test_a_token_is_its_thread_s_own(client):
    for thread_local in (True, False):
        it, errors = lock(client, thread_local=thread_local), []
        it.acquire()

        def release(it=it, errors=errors):
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


def test_a_lock_that_nobody_refers_to_stays_held(client):
    lock(client, timeout=20).acquire()
    gc.collect()
    assert not lock(client).acquire(blocking=False)


def test_another_process_may_release_by_the_token(client):
    it = lock(client, timeout=20, thread_local=False)
    it.acquire()
    with redis_py.Redis.from_url(URL, decode_responses=True) as elsewhere:
        other = lock(elsewhere, thread_local=False)
        other.local.token = it.local.token
        assert other.owned()
        other.release()
    assert not client.exists("foo")


def test_no_server():
    with pytest.raises(redis_py.exceptions.ConnectionError):
        Lock(redis_py.Redis(port=1), "foo").acquire(blocking_timeout=0.1)


def test_clients_that_share_connections_share_one_of_ours(client):
    other = redis_py.Redis(connection_pool=client.connection_pool)
    assert _kept(client) is _kept(other)


def test_django_redis_and_others_take_the_class_of_a_client(redis):
    with Redis.from_url(URL) as client:
        it = client.lock("foo", timeout=5, sleep=0.1, blocking_timeout=1)
        assert isinstance(it, Lock)
        with it:
            assert client.type("foo") == b"hash"


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


def test_redbeat(redis):
    schedulers = pytest.importorskip("redbeat.schedulers")
    with Redis.from_url(URL) as client:
        it = client.lock("redbeat::lock", timeout=10, sleep=5)
        it.lua_extend = client.register_script(schedulers.LUA_EXTEND_TO_SCRIPT)
        assert it.acquire()
        for _ in range(3):
            it.extend(10)
        assert it.owned() and client.pttl("redbeat::lock") <= 10_000
        it.release()
