"""Waiting in the server: a connection that may be silent for long, and every way out of the queue."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from conftest import URL, holders, until_waiting
from redis.exceptions import TimeoutError

# snippet: imports
from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry
# end

LEASE = 600_000


# snippet: connect
def connect_for_waits(url, longest_wait_ms, **options):
    """By default redis-py times out after 5 s, and may send the command again: at the end of the queue."""
    patience = longest_wait_ms / 1000 + 5
    return Redis.from_url(url, socket_timeout=patience, retry=Retry(NoBackoff(), 0), **options)


# end


@pytest.fixture
def waits(redis):
    protocol = redis.connection_pool.connection_kwargs["protocol"]
    with connect_for_waits(URL, 60_000, protocol=protocol) as client:
        yield client


@contextmanager
def waiting(redis, *commands):
    """Sends commands that will wait, each on a connection of its own, one behind the other."""
    with ThreadPoolExecutor() as threads:
        futures = []
        try:
            for client, *command in commands:
                futures.append(threads.submit(client.execute_command, *command))
                until_waiting(redis, len(futures))
            yield futures
        finally:
            # Who still waits, because the test failed, would keep its thread.
            for client, *_ in commands:
                client.connection_pool.disconnect()


def test_a_release_hands_the_lock_over_in_order(redis, waits):
    redis.execute_command("RLOCK.ACQUIRE", "k", "ann", LEASE)
    bob = (waits, "RLOCK.ACQUIRE", "k", "bob", LEASE, "WAIT", 20_000)
    cid = (waits, "RLOCK.ACQUIRE", "k", "cid", LEASE, "WAIT", 20_000, "FENCED")
    with waiting(redis, bob, cid) as (bobs, cids):
        assert redis.execute_command("RLOCK.RELEASE", "k", "ann") == 1
        assert holders(redis, "k") == [b"bob"]
        assert bobs.result(20) is None
        assert redis.execute_command("RLOCK.RELEASE", "k", "bob") == 1
        assert holders(redis, "k") == [b"cid"]
        assert cids.result(20) == [None, 1]
    until_waiting(redis, 0)


def test_a_writer_that_leaves_lets_all_readers_in(redis, waits):
    redis.execute_command("RLOCK.WACQUIRE", "k", "ann", LEASE)
    bob = (waits, "RLOCK.RACQUIRE", "k", "bob", LEASE, "WAIT", 20_000)
    cid = (waits, "RLOCK.RACQUIRE", "k", "cid", LEASE, "WAIT", 20_000)
    with waiting(redis, bob, cid) as readers:
        assert redis.execute_command("RLOCK.RELEASE", "k", "ann") == 1
        assert [reader.result(20) for reader in readers] == [None, None]


def test_a_wait_ends_with_its_time(redis, waits):
    redis.execute_command("RLOCK.ACQUIRE", "orders:42", "worker-7", LEASE)
    # snippet: wait
    left = waits.execute_command("RLOCK.ACQUIRE", "orders:42", "worker-8", 30_000, "WAIT", 50)
    assert left > 0  # None: granted; a number: still held after 50 ms
    # end
    until_waiting(redis, 0)
    assert redis.execute_command("RLOCK.RELEASE", "orders:42", "worker-7") == 1
    assert holders(redis, "orders:42") == []


@pytest.mark.parametrize("redis", [3], indirect=True)
def test_a_wait_may_be_longer_than_redis_py_waits_by_itself(redis, waits):
    redis.execute_command("RLOCK.ACQUIRE", "k", "ann", 6_000)
    assert waits.execute_command("RLOCK.ACQUIRE", "k", "bob", LEASE, "WAIT", 20_000) is None


# In a program of its own, as redis-py has no way for one thread to close another's connection.
WAITER = """
import os, redis
waits = redis.Redis.from_url(os.environ["RLOCK_URL"], socket_timeout=None)
waits.execute_command("RLOCK.ACQUIRE", "k", "bob", 600_000, "WAIT", 0)
"""


def test_who_closes_the_connection_leaves_the_queue(redis):
    redis.execute_command("RLOCK.ACQUIRE", "k", "ann", LEASE)
    bob = subprocess.Popen([sys.executable, "-c", WAITER])
    try:
        until_waiting(redis, 1)
    finally:
        bob.kill()
        bob.wait()
    until_waiting(redis, 0)
    assert redis.execute_command("RLOCK.RELEASE", "k", "ann") == 1
    assert holders(redis, "k") == []


def test_a_time_out_of_the_clients_own_ends_the_wait(redis):
    redis.execute_command("RLOCK.ACQUIRE", "k", "ann", LEASE)
    with Redis.from_url(URL, socket_timeout=0.1, retry=Retry(NoBackoff(), 0)) as hasty:
        with pytest.raises(TimeoutError):
            hasty.execute_command("RLOCK.ACQUIRE", "k", "bob", LEASE, "WAIT", 0)
    until_waiting(redis, 0)
    assert redis.execute_command("RLOCK.RELEASE", "k", "ann") == 1
    assert holders(redis, "k") == []


@pytest.mark.parametrize("redis", [3], indirect=True)
def test_redis_py_sends_the_command_again_by_itself(redis):
    address = redis.connection_pool.connection_kwargs
    redis.execute_command("RLOCK.ACQUIRE", "k", "ann", LEASE)
    before = redis.info("rlock")["rlock_waits"]
    # A client made by from_url does not.
    with Redis(address["host"], address["port"], socket_timeout=0.1) as hasty, pytest.raises(TimeoutError):
        hasty.execute_command("RLOCK.ACQUIRE", "k", "bob", LEASE, "WAIT", 0)
    assert redis.info("rlock")["rlock_waits"] - before == 1 + 10
