"""What the project's pages show of this client."""

from conftest import URL

import rlock_client


def test_a_lock_around_work(redis):
    shipped, url = [], URL

    def ship(order, token):
        assert redis.exists(order)
        shipped.append(token)

    # snippet: lock
    locks = rlock_client.Locks(url)  # once in a program; rlock_client.aio for asyncio

    with locks.lock("orders:42", wait=10, fenced=True) as held:  # Busy after 10 s
        ship("orders:42", held.token)  # between its steps held.check() raises Lost
    # end
    assert shipped == [held.token]
    assert not redis.exists("orders:42")
    locks.close()
