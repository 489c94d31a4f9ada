"""detach and adopt: a lock that one process hands on to another."""

import asyncio
import threading
from datetime import timedelta
from urllib.parse import quote

import pytest
from conftest import URL, in_asyncio, ran, until, until_async

from rlock_client import Configuration, Locks, Lost, Unavailable, aio


@pytest.fixture
def others(redis):
    with Locks(URL) as others:
        yield others


def test_a_lock_that_is_handed_on(redis, locks, others):
    lock, told = locks.lock("a b", fenced=True, lease=1.5), threading.Event()
    first = lock.acquire()
    first.on_lost(told.set)
    second = others.adopt(first.detach())
    assert (second.holder, second.tokens) == (first.holder, first.tokens) and first.tokens
    assert repr(second).startswith("<Held a b: 1.") and not first.remaining and not first.lost
    assert first not in lock._held
    for call in (first.release, first.detach, first.check):
        with pytest.raises(Lost, match="given back"):
            call()
    least = left = redis.pttl("a b")
    while left <= least:
        least, left = left, redis.pttl("a b")
    redis.delete("a b")
    until("it is lost", lambda: second.lost)
    assert not told.is_set()


def test_with(redis, locks, others):
    with locks.lock("k") as held:
        text = held.detach()
    assert redis.hkeys("k") == [held.holder]
    with others.adopt(text) as held:
        assert redis.hkeys("k") == [held.holder]
    assert not redis.exists("k")
    with pytest.raises(Lost) as lost:
        with locks.lock("k", lease=0.3).acquire() as held:
            redis.delete("k")
            until("it is lost", lambda: held.lost)
            raise ValueError
    assert isinstance(lost.value.__cause__, ValueError)
    with pytest.raises(Lost, match="^k: lost: the server says"):
        others.adopt(text)


def test_within(redis, locks, others):
    held = locks.lock("k").acquire()
    text = held.detach(60)
    assert 55_000 < redis.pttl("k") <= 60_000
    held = others.adopt(text)
    assert redis.pttl("k") <= 30_000
    held.detach(timedelta(seconds=10))
    assert redis.pttl("k") <= 10_000


def test_what_cannot_be_handed_on(redis, locks):
    with pytest.raises(Configuration, match="fixed"):
        with locks.lock("k", lease=20, fixed=True) as held:
            held.detach()
    with locks.lock("k") as held:
        for within in (0, -1, float("nan")):
            with pytest.raises(Configuration):
                held.detach(within)
        assert not held.lost
    for text in ("", "nonsense", "rlock1/plain/0/0/-/h/k", "rlock1/plain/1000/0/-/h/%", "rlock2/plain/1000/0/-/h/k"):
        with pytest.raises(Configuration):
            locks.adopt(text)
    held = locks.lock("k").acquire()
    redis.delete("k")
    with pytest.raises(Lost) as lost:
        held.detach()
    assert lost.value.reason == "not-held" and held.lost


def test_what_a_silent_server_keeps_from_being_handed_on_stays_held(redis):
    with Locks(URL, patience=0.1, answer_timeout=0.1) as locks:
        held = locks.lock("k").acquire()
        redis.client_pause(60_000, all=False)
        try:
            with pytest.raises(Unavailable):
                held.detach()
        finally:
            redis.client_unpause()
        assert not held.lost and held.remaining
        held.release()
    assert not redis.exists("k")


def test_another_process_goes_on(redis, locks):
    text = locks.lock("k").acquire().detach()
    output, _ = ran(f"""
        with Locks(URL).adopt({text!r}) as held:
            print(held.holder)
    """)
    assert text.split("/")[5] == quote(output.strip(), safe=":")
    assert not redis.exists("k")


def test_a_forked_child_goes_on(redis):
    ran("""
        locks = Locks(URL)
        held, kept = locks.lock("k").acquire(), locks.lock("kept").acquire()
        text = held.detach()
        child = os.fork()
        if child == 0:
            try:
                try:
                    kept.detach()
                except Lost:
                    locks.adopt(text).release()
                    os._exit(0)
                os._exit(1)
            except BaseException as error:
                print(repr(error), flush=True)
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        kept.release()
    """)
    assert redis.keys() == []


def test_asyncio(redis):
    async def test(locks):
        async with aio.Locks(URL) as others:
            async with locks.lock("k", fenced=True, lease=1.5) as first:
                text = await first.detach(20)
            with pytest.raises(Lost, match="not held") as lost:
                async with await others.adopt(text) as second:
                    assert (second.holder, second.token) == (first.holder, first.token)
                    redis.delete("k")
                    with pytest.raises(Lost):
                        await others.adopt(text)
                    until("it is lost", lambda: second.lost)
                    await asyncio.sleep(20)
            assert isinstance(lost.value.__cause__, asyncio.CancelledError) and not first.lost

    in_asyncio(test)


def test_cancelled_at_any_moment_it_is_held_here_or_released(redis):
    async def test(locks):
        detached = 0
        for turns in range(12):
            held = await locks.lock("k").acquire()
            task = asyncio.create_task(held.detach())
            for _ in range(turns):
                await asyncio.sleep(0.0002)
            task.cancel()
            try:
                text = await task
            except asyncio.CancelledError:
                if held.remaining:
                    await held.release()
            else:
                detached += 1
                await (await locks.adopt(text)).release()
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
