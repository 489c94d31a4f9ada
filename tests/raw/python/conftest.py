"""The server under test."""

import os

import pytest
from redis import Redis

URL = os.environ["RLOCK_URL"]


@pytest.fixture(params=[2, 3], ids=["RESP2", "RESP3"])
def redis(request):
    with Redis.from_url(URL, protocol=request.param) as client:
        client.flushall()
        yield client
