"""Waiting by a session: many waits on one connection, and whatever becomes of that."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from conftest import URL, holders, until_waiting
from redis.exceptions import ResponseError
from waits import Waits

LEASE = 600_000
LONG = 60_000  # longer than any test waits


@asynccontextmanager
async def waits_of(redis):
    protocol = redis.connection_pool.connection_kwargs["protocol"]
    async with Waits(f"{URL}?protocol={protocol}") as waits:
        yield waits


async def begin(redis, waits, number):
    """A wait that is the last of so many."""
    task = asyncio.create_task(waits.acquire("k", LEASE, LONG))
    await asyncio.to_thread(until_waiting, redis, number)
    return task


def figure(redis, name):
    return redis.info("rlock")[f"rlock_{name}"]


def end_of_connections(redis):
    redis.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")


def test_what_the_page_shows(redis):
    async def program():
        protocol = redis.connection_pool.connection_kwargs["protocol"]
        url = f"{URL}?protocol={protocol}"
        # snippet: use
        async with Waits(url) as waits:
            holder = await waits.acquire("orders:42", 30_000, 10_000)
            # …
            freed = redis.execute_command("RLOCK.RELEASE", "orders:42", holder, "ALL")
        # end
        assert freed == 1

    asyncio.run(program())


def test_many_waits_have_one_connection_and_are_served_in_order(redis):
    async def program():
        async with waits_of(redis) as waits:
            redis.execute_command("RLOCK.ACQUIRE", "k", "ann", LEASE)
            tasks = [await begin(redis, waits, number) for number in range(1, 51)]
            assert figure(redis, "tickets") == 50
            assert redis.info("clients")["connected_clients"] <= 1 + 1 + 4
            holder = "ann"
            for task in tasks:
                assert redis.execute_command("RLOCK.RELEASE", "k", holder, "ALL") == 1
                holder = await asyncio.wait_for(task, 20)
                assert holders(redis, "k") == [holder.encode()]

    asyncio.run(program())


def test_a_wait_ends_with_its_time(redis):
    async def program():
        async with waits_of(redis) as waits:
            redis.execute_command("RLOCK.ACQUIRE", "k", "ann", LEASE)
            assert await waits.acquire("k", LEASE, 50) is None
            await asyncio.to_thread(left_the_queue, redis)

    asyncio.run(program())


def test_who_is_cancelled_leaves_the_queue(redis):
    async def program():
        async with waits_of(redis) as waits:
            redis.execute_command("RLOCK.ACQUIRE", "k", "ann", LEASE)
            task = await begin(redis, waits, 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.to_thread(left_the_queue, redis)

    asyncio.run(program())


def test_an_error_is_raised(redis):
    async def program():
        async with waits_of(redis) as waits:
            redis.execute_command("RLOCK.RACQUIRE", "k", "ann", LEASE)
            with pytest.raises(ResponseError, match="^WRONGKIND "):
                await waits.acquire("k", LEASE, LONG)

    asyncio.run(program())


def test_places_outlive_the_connection(redis):
    async def program():
        async with waits_of(redis) as waits:
            redis.execute_command("RLOCK.ACQUIRE", "k", "ann", LEASE)
            first = await begin(redis, waits, 1)
            waited = figure(redis, "waits")
            end_of_connections(redis)
            second = await begin(redis, waits, 2)
            assert figure(redis, "waits") == waited + 1, "the first has kept its place"
            assert redis.execute_command("RLOCK.RELEASE", "k", "ann") == 1
            holder = await asyncio.wait_for(first, 20)
            assert redis.execute_command("RLOCK.RELEASE", "k", holder, "ALL") == 1
            assert await asyncio.wait_for(second, 20)

    asyncio.run(program())


def test_a_session_that_is_lost_is_opened_again(redis):
    async def program():
        async with waits_of(redis) as waits:
            redis.execute_command("RLOCK.ACQUIRE", "k", "ann", LEASE)
            for lost in range(2):
                task = await begin(redis, waits, 1)
                redis.execute_command("RLOCK.CANCEL", waits._session)
                end_of_connections(redis)
                await asyncio.to_thread(until_waiting, redis, 1)
                assert redis.execute_command("RLOCK.RELEASE", "k", "ann") == 1
                holder = await asyncio.wait_for(task, 20)
                assert redis.execute_command("RLOCK.RELEASE", "k", holder, "ALL") == 1
                redis.execute_command("RLOCK.ACQUIRE", "k", "ann", LEASE)

    asyncio.run(program())


@pytest.mark.parametrize("redis", [3], indirect=True)
def test_a_process_that_stood_still_asks_again(redis):
    async def program():
        async with waits_of(redis) as waits:
            redis.execute_command("RLOCK.ACQUIRE", "k", "ann", LEASE)
            task = await begin(redis, waits, 1)
            until_waiting(redis, 0)  # no other task goes on meanwhile, so the session ends
            await asyncio.to_thread(until_waiting, redis, 1)
            assert redis.execute_command("RLOCK.RELEASE", "k", "ann") == 1
            assert await asyncio.wait_for(task, 20)

    asyncio.run(program())


def test_who_closes_ends_the_session(redis):
    async def program():
        async with waits_of(redis) as waits:
            redis.execute_command("RLOCK.ACQUIRE", "k", "ann", LEASE)
            task = await begin(redis, waits, 1)
            assert redis.execute_command("RLOCK.RELEASE", "k", "ann") == 1
            assert await asyncio.wait_for(task, 20)
        with pytest.raises(ResponseError, match="^NOSESSION "):
            redis.execute_command("RLOCK.CANCEL", waits._session)

    asyncio.run(program())


def left_the_queue(redis):
    """Nobody waits any longer, and nobody is granted the lock when its holder releases it."""
    until_waiting(redis, 0)
    assert redis.execute_command("RLOCK.RELEASE", "k", "ann") == 1
    assert holders(redis, "k") == []
