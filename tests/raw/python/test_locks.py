"""Every reply and error that does not wait, as redis-py gives them."""

import pytest
from redis.exceptions import ResponseError

LEASE = 30_000


def test_a_lock_is_its_holders(redis):
    # snippet: send
    # execute_command sends any command, and returns its reply unchanged.
    assert redis.execute_command("RLOCK.ACQUIRE", "orders:42", "worker-7", 30_000) is None  # granted
    left = redis.execute_command("RLOCK.ACQUIRE", "orders:42", "worker-8", 30_000)
    assert 0 < left <= 30_000  # not granted: the ms that are left of the lease
    assert redis.execute_command("RLOCK.RELEASE", "orders:42", "worker-7") == 1  # free
    # end


def test_a_release_has_three_replies(redis):
    for _ in range(2):
        assert redis.execute_command("RLOCK.ACQUIRE", "k", "ann", LEASE) is None
    assert redis.execute_command("RLOCK.RELEASE", "k", "bob") is None
    assert redis.execute_command("RLOCK.RELEASE", "k", "ann") == 0
    assert redis.execute_command("RLOCK.RELEASE", "k", "ann") == 1
    assert redis.execute_command("RLOCK.RELEASE", "k", "ann") is None


def test_all_gives_back_every_hold(redis):
    for _ in range(2):
        assert redis.execute_command("RLOCK.ACQUIRE", "k", "ann", LEASE) is None
    assert redis.execute_command("RLOCK.RELEASE", "k", "ann", "ALL") == 1
    assert redis.execute_command("RLOCK.RELEASE", "k", "ann", "ALL") is None


def test_tokens_grow(redis):
    refused, token = redis.execute_command("RLOCK.ACQUIRE", "orders:42", "worker-7", 30_000, "FENCED")
    assert refused is None and token > 0
    left, token = redis.execute_command("RLOCK.ACQUIRE", "orders:42", "worker-8", LEASE, "FENCED")
    assert 0 < left <= LEASE and token is None
    assert redis.execute_command("RLOCK.ACQUIRE", "orders:42", "worker-7", LEASE, "FENCED") == [None, 2]


def test_renewing_restarts_the_lease(redis):
    redis.execute_command("RLOCK.ACQUIRE", "k", "ann", LEASE)
    assert redis.execute_command("RLOCK.RENEW", "k", "ann", 10 * LEASE) == 1
    assert redis.pttl("k") > LEASE
    assert redis.execute_command("RLOCK.RENEW", "k", "bob", LEASE) == 0


def test_readers_share_and_a_writer_excludes(redis):
    assert redis.execute_command("RLOCK.RACQUIRE", "k", "ann", LEASE) is None
    assert redis.execute_command("RLOCK.RACQUIRE", "k", "bob", LEASE) is None
    assert redis.execute_command("RLOCK.WACQUIRE", "k", "cid", LEASE) > 0
    assert redis.execute_command("RLOCK.RELEASE", "k", "ann", "READ") == 0
    assert redis.execute_command("RLOCK.RELEASE", "k", "bob", "READ") == 1
    assert redis.execute_command("RLOCK.WACQUIRE", "k", "cid", LEASE) is None
    assert redis.execute_command("RLOCK.RACQUIRE", "k", "ann", LEASE) > 0
    assert redis.execute_command("RLOCK.RELEASE", "k", "cid", "WRITE") == 1


def test_errors_name_what_is_wrong(redis):
    redis.execute_command("RLOCK.RACQUIRE", "orders:42", "worker-7", LEASE)
    with pytest.raises(ResponseError, match="^WRONGKIND "):
        redis.execute_command("RLOCK.ACQUIRE", "orders:42", "worker-8", 30_000)
    with pytest.raises(ResponseError, match="^lease must be "):  # redis-py removes the word ERR
        redis.execute_command("RLOCK.RACQUIRE", "orders:42", "worker-8", 0)
    assert redis.execute_command("HKEYS", "orders:42") == [b"mode", b"worker-7"]
