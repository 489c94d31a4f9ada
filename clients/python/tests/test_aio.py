"""The client for asyncio: cancellation from all sides."""

import asyncio
import gc
import sys

import pytest
from conftest import URL, in_asyncio, until, until_async, waiting

from rlock_client import Busy, Closed, Configuration, Lost, aio


def test_async_with(redis):
    async def test(locks):
        async with locks.lock("k", wait=10, fenced=True) as held:
            assert redis.hkeys("k") == [held.holder] and held.token > 0
            assert await locks.lock("k").try_acquire() is None
            with pytest.raises(Busy):
                await locks.lock("k", wait=0.05).acquire()
        assert not redis.exists("k")
        held = await locks.lock("k").acquire()
        await held.release()
        with pytest.raises(Lost):
            await held.release()
        async with locks.lock("k") as held:
            await held.release()

    in_asyncio(test)


def test_a_lock_object_releases_what_it_has_acquired(redis):
    async def test(locks):
        lock = locks.lock("k")
        if await lock.try_acquire():
            assert await lock.locked() and redis.exists("k")
            await lock.release()
        assert not await lock.locked()
        with pytest.raises(Lost, match="nothing to release"):
            await lock.release()

    in_asyncio(test)


def test_what_is_not_kept_stays_held_and_warns(redis):
    async def test(locks):
        with pytest.warns(ResourceWarning, match="<Held k: .* s left> stays held"):
            await locks.lock("k").acquire()
        assert not await locks.lock("k").try_acquire()

    in_asyncio(test)


def test_trio_is_refused():
    trio = pytest.importorskip("trio")
    with pytest.raises(Configuration, match="under trio"):
        trio.run(aio.Locks(URL).lock("k").acquire)


def test_one_lock_in_many_tasks(redis):
    async def test(locks):
        lock, inside = locks.lock("k"), 0

        async def work():
            nonlocal inside
            for _ in range(10):
                async with lock:
                    inside += 1
                    await asyncio.sleep(0)
                    assert inside == 1
                    inside -= 1

        await asyncio.gather(*(work() for _ in range(20)))

    in_asyncio(test)



def test_cancelled_at_any_moment_it_holds_nothing(redis):
    async def test(locks):
        for turns in range(60):
            tasks = [asyncio.create_task(locks.lock(f"k{i % 3}").acquire()) for i in range(9)]
            for _ in range(turns):
                await asyncio.sleep(0)
            [task.cancel() for task in tasks]
            granted = await asyncio.gather(*tasks, return_exceptions=True)
            for held in granted:
                if isinstance(held, aio.Held):
                    await held.release()
        await until_async("all is free", lambda: not redis.keys("k*") and waiting(redis) == 0)

    in_asyncio(test)


def test_the_loss_stops_the_body(redis):
    async def test(locks):
        with pytest.raises(Lost, match="not held") as lost:
            async with locks.lock("k", lease=1.5) as held:
                redis.delete("k")
                await asyncio.sleep(20)
        assert isinstance(lost.value.__cause__, asyncio.CancelledError) and held.lost
        if sys.version_info >= (3, 11):
            assert asyncio.current_task().cancelling() == 0
        await asyncio.sleep(0)

    in_asyncio(test)


def test_a_body_that_does_not_let_itself_be_stopped(redis):
    async def test(locks):
        with pytest.raises(Lost) as lost:
            async with locks.lock("k", lease=0.1, fixed=True):
                try:
                    await asyncio.sleep(20)
                except asyncio.CancelledError:
                    raise ValueError from None
        assert isinstance(lost.value.__cause__, ValueError)
        with pytest.raises(Lost):
            async with locks.lock("k", lease=0.1, fixed=True) as held:
                until("it is lost", lambda: held.lost)  # without any await
        await asyncio.sleep(0)

    in_asyncio(test)


def test_both_locks_are_lost(redis):
    async def test(locks):
        lock = locks.lock("a", lease=0.1, fixed=True)
        with pytest.raises(Lost):
            async with lock, locks.lock("b", lease=0.1, fixed=True):
                await asyncio.sleep(20)
        await asyncio.sleep(0)

    in_asyncio(test)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tasks do not count who cancels them")
def test_a_cancellation_at_the_same_time_as_the_loss_counts(redis):
    async def test(locks):
        async def work():
            async with locks.lock("k", lease=0.1, fixed=True) as held:
                # In the same turn of the loop as the loss.
                watch, cancel = held._hold.until_lost(), asyncio.current_task().cancel
                watch.start(held._turns(), lambda *_: cancel())
                await asyncio.sleep(20)

        task = asyncio.create_task(work())
        with pytest.raises(asyncio.CancelledError):
            await task
        assert task.cancelled()

    in_asyncio(test)


def test_a_cancelled_body_releases_the_lock(redis):
    async def test(locks):
        async def work():
            async with locks.lock("k"):
                await asyncio.sleep(20)

        task = asyncio.create_task(work())
        await until_async("it is held", lambda: redis.exists("k"))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not redis.exists("k")

    in_asyncio(test)


def test_on_lost(redis):
    async def test(locks):
        reported = asyncio.Event()
        held = await locks.lock("k", lease=0.2, fixed=True).acquire()
        held.on_lost(reported.set)
        await reported.wait()
        assert held.lost and held.loss.endswith(" lease has ended")

    in_asyncio(test)


def test_close(redis):
    async def test(locks):
        held = await locks.lock("k").acquire()
        waits = [asyncio.create_task(locks.lock("k").acquire()) for _ in range(10)]

        async def work():
            async with locks.lock("other"):
                await asyncio.sleep(20)

        body = asyncio.create_task(work())
        await until_async("all wait", lambda: waiting(redis) == 10 and redis.exists("other"))
        await locks.close()
        assert redis.keys() == [] and waiting(redis) == 0
        ends = await asyncio.gather(*waits, body, return_exceptions=True)
        assert [type(end) for end in ends] == [Closed] * 11 and held.lost

    in_asyncio(test)


def test_one_client_in_several_event_loops(redis):
    locks = aio.Locks(URL)

    async def test():
        async with locks.lock("k"):
            pass

    for _ in range(3):
        asyncio.run(test())


def test_uvloop(redis):
    uvloop = pytest.importorskip("uvloop")
    locks = aio.Locks(URL)

    async def test():
        async with locks.lock("k"):
            assert await locks.lock("k").try_acquire() is None

    uvloop.install() if sys.version_info < (3, 11) else None
    uvloop.run(test())



def test_what_a_loop_forgets_leaves_the_queue(redis, locks):
    holder, loop = locks.lock("k").acquire(), asyncio.new_event_loop()
    waits = aio.Locks(URL)
    task = loop.create_task(waits.lock("k").acquire())
    loop.run_until_complete(until_async("it waits", lambda: waiting(redis) == 1))
    loop.close()
    task._log_destroy_pending = False
    del task, loop
    waits._known = None
    gc.collect()
    until("it waits no more", lambda: waiting(redis) == 0)
    holder.release()
