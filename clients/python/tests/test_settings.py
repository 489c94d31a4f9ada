"""`Locks.of`: our client connects to the same servers as a client of redis-py."""

import asyncio
import os

import pytest
import redis as redis_py
import redis.asyncio as redis_aio
from conftest import URL

from rlock_client import Locks, _settings, aio

CLUSTER = os.environ.get("RLOCK_CLUSTER_URL")
needs_cluster = pytest.mark.skipif(CLUSTER is None, reason="there is no RLOCK_CLUSTER_URL")


def place(client):
    return _settings.found_in(client)[0]


def settings(client):
    return _settings.found_in(client)[1]


@pytest.mark.parametrize("kind", [redis_py.Redis, redis_aio.Redis])
def test_addresses(kind):
    def address(**given):
        return place(kind(**given))[1][0]

    assert address() == "redis://localhost:6379/0"
    assert address(host="::1", port=1, db=3) == "redis://[::1]:1/3"
    assert address(username="u@", password="p/") == "redis://u%40:p%2F@localhost:6379/0"
    assert address(password="p") == "redis://:p@localhost:6379/0"
    assert address(unix_socket_path="/run/a b.sock", db=2) == "redis+unix:///run/a%20b.sock?db=2"
    assert address(ssl=True) == "rediss://localhost:6379/0"
    assert place(kind.from_url("rediss://h:7/5"))[1] == ["rediss://h:7/5"]
    provider = redis_py.UsernamePasswordCredentialProvider("u", "p")
    assert address(credential_provider=provider) == "redis://u:p@localhost:6379/0"


def test_certificates_and_limits(tmp_path):
    client = redis_py.Redis(ssl=True, ssl_ca_certs="ca", ssl_certfile="c", ssl_keyfile="k", socket_connect_timeout=1)
    assert settings(client) == {"ca": "ca", "cert": "c", "key": "k", "connect_timeout": 1}
    assert settings(redis_py.Redis(ssl=True, ssl_ca_data="PEM"))["ca"] == b"PEM"
    assert _settings.pem(b"PEM") == b"PEM"
    (tmp_path / "ca").write_bytes(b"of a file")
    assert _settings.pem(tmp_path / "ca") == b"of a file"


@pytest.mark.parametrize("module", [redis_py, redis_aio])
def test_sentinels(module):
    sentinels = module.Sentinel([("a", 1), ("b", 2)], sentinel_kwargs={"password": "s"}, password="p", db=3)
    kind, addresses, *access = place(sentinels.master_for("mymaster"))
    assert (kind, addresses) == ("sentinels", ["redis://:s@a:1/0", "redis://:s@b:2/0"])
    assert access == ["mymaster", None, "p", 3, False]


def test_one_server(redis):
    with Locks.of(redis, lease=5) as locks, locks.lock("k") as held:
        assert redis.hkeys("k") == [held.holder] and held.remaining <= 5


def test_one_server_of_asyncio(redis):
    async def test():
        async with aio.Locks.of(redis_aio.Redis.from_url(URL)) as locks, locks.lock("k"):
            assert redis.exists("k")

    asyncio.run(test())


@needs_cluster
def test_a_cluster():
    with redis_py.RedisCluster.from_url(CLUSTER) as client:
        for locks in (Locks.of(client), Locks.cluster([CLUSTER])):
            for name in ("a", "b", "c", "d"):
                with locks.lock(name):
                    assert client.exists(name)
        from rlock_client.redis_lock import Lock

        it = Lock(client, "foo", timeout=5)
        assert it.acquire() and it.owned() and it.locked() and it.extend(5)
        it.release()
        assert not it.locked()


@needs_cluster
def test_a_cluster_of_asyncio():
    async def test():
        async with redis_aio.RedisCluster.from_url(CLUSTER) as client:
            async with aio.Locks.of(client) as locks:
                for name in ("a", "b", "c", "d"):
                    async with locks.lock(name):
                        assert await client.exists(name)

    asyncio.run(test())
