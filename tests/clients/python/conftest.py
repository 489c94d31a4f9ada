"""The servers under test, and what every test looks at: who waits, and who holds a lock."""

import os
import time

import pytest
from redis import Redis

URL = os.environ["RLOCK_URL"]
PATIENCE = 20


@pytest.fixture(params=[2, 3], ids=["RESP2", "RESP3"])
def redis(request):
    with Redis.from_url(URL, protocol=request.param) as client:
        client.flushall()
        yield client


def until(what, condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"


def until_waiting(redis, count):
    until(f"{count} wait", lambda: redis.info("rlock")["rlock_waiters"] == count)


def holders(redis, key):
    return redis.execute_command("HKEYS", key)
