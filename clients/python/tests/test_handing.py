"""detach and adopt: a lock that one process hands on to another."""

import asyncio
import threading
from datetime import timedelta

import pytest
from conftest import in_asyncio, ran, until_async

from rlock_client import Configuration, Lost


def test_in_threads(redis, locks):
    lock, reported = locks.lock("k", fenced=True, lease=1.5), threading.Event()
    with lock as first:
        first.on_lost(reported.set)
        text = first.detach(timedelta(seconds=10))
    assert redis.hkeys("k") == [first.holder] and 5_000 < redis.pttl("k") <= 10_000
    assert not first.remaining and not first.lost and first not in lock._held
    for call in (first.release, first.detach, first.check):
        with pytest.raises(Lost, match="released"):
            call()
    with locks.adopt(text) as second:
        assert (second.holder, second.tokens) == (first.holder, first.tokens) and first.tokens
        assert repr(second).startswith("<Held k: 1.")
        for within in (0, -1, float("nan")):
            with pytest.raises(Configuration):
                second.detach(within)
    assert not redis.exists("k") and not reported.is_set()
    with pytest.raises(Lost, match="^k: lost: the server says"):
        locks.adopt(text)


def test_a_forked_child_goes_on(redis):
    ran("""
        locks = Locks(URL)
        text = locks.lock("k").acquire().detach()
        forked(lambda: locks.adopt(text).release())
    """)
    assert redis.keys() == []


def test_the_loss_stops_the_body_of_what_was_adopted(redis):
    async def test(locks):
        async with locks.lock("k", lease=1.5) as first:
            text = await first.detach(20)
        with pytest.raises(Lost, match="not held") as lost:
            async with await locks.adopt(text):
                redis.delete("k")
                await asyncio.sleep(20)
        assert isinstance(lost.value.__cause__, asyncio.CancelledError) and not first.lost

    in_asyncio(test)


def test_cancelled_at_any_moment_it_is_held_here_or_released(redis):
    async def test(locks):
        for turns in range(12):
            held = await locks.lock("k").acquire()
            task = asyncio.create_task(held.detach())
            for _ in range(turns):
                await asyncio.sleep(0.0002)
            task.cancel()
            try:
                held = await locks.adopt(await task)
            except asyncio.CancelledError:
                pass
            if held.remaining:
                await held.release()
            await until_async("it is free", lambda: not redis.exists("k"))

    in_asyncio(test)


def test_a_text_that_no_task_gets_is_not_left_behind(redis):
    async def test(locks):
        held = await locks.lock("k").acquire()
        call, ended = held._hold.detach(None), asyncio.Event()
        call.start(locks._turns(), lambda text, _: (locks._give_up(text), ended.set()))
        await ended.wait()
        await until_async("it is released", lambda: not redis.exists("k"))

    in_asyncio(test)
