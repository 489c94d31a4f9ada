"""A cluster: each command goes to the lock's own node, and at once."""

import os

import pytest
from redis import RedisCluster
from redis.backoff import NoBackoff
from redis.retry import Retry

URL = os.environ["RLOCK_CLUSTER_URL"]


@pytest.fixture(params=[2, 3], ids=["RESP2", "RESP3"])
def cluster(request):
    with RedisCluster.from_url(URL, protocol=request.param) as client:
        client.flushall(target_nodes=RedisCluster.PRIMARIES)
        client.config_resetstat(target_nodes=RedisCluster.PRIMARIES)
        yield client


def test_commands_find_their_node(cluster):
    for number in range(30):
        assert cluster.execute_command("RLOCK.ACQUIRE", f"orders:{number}", "worker-7", 30_000) is None
    assert all(cluster.dbsize(target_nodes=node) > 0 for node in cluster.get_primaries()), "locks are on all nodes"
    for number in range(30):
        assert cluster.execute_command("RLOCK.RELEASE", f"orders:{number}", "worker-7") == 1
    for node in cluster.get_primaries():
        errors = cluster.info("errorstats", target_nodes=node)
        assert "errorstat_MOVED" not in errors, "no node had to send the client to another"


def test_a_wait_finds_its_node(cluster):
    url = URL
    cluster.execute_command("RLOCK.ACQUIRE", "orders:42", "worker-7", 1_000)
    # redis-py asks the server which argument is the key of a command that it does not know.
    with RedisCluster.from_url(url, socket_timeout=15, retry=Retry(NoBackoff(), 0)) as waits:
        assert waits.execute_command("RLOCK.ACQUIRE", "orders:42", "worker-8", 30_000, "WAIT", 10_000) is None
    assert cluster.hkeys("orders:42") == [b"worker-8"]
