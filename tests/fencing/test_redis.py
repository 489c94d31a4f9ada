"""Redis as the storage: on the locks' own server, and on a cluster, which does not have the lock."""

import os
from functools import cache

import pytest
from conftest import URL
from redis import Redis, RedisCluster
from scenarios import *  # noqa: F403

# snippet: redis
WRITE = """
local highest = tonumber(redis.call('HGET', KEYS[1], 'token') or 0)
if tonumber(ARGV[1]) < highest then return 0 end
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'value', ARGV[2])
return 1
"""


def write(redis, key, token, value):
    return redis.eval(WRITE, 1, key, token, value) == 1
# end


put, KEY = write, "status:of:invoice"


@cache
def client(url):
    return (Redis if url == URL else RedisCluster).from_url(url, decode_responses=True)


def write(place, token, value):  # noqa: F811
    return put(client(place), KEY, token, value)


def read(place):
    return client(place).hget(KEY, "value")


@pytest.fixture(params=["RLOCK_URL", "RLOCK_CLUSTER_URL"])
def place(request):
    url = os.environ[request.param]
    client(url).delete(KEY)
    return url
