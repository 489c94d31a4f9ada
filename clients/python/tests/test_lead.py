"""lead: turn after turn under one lock. The suite of all clients tests more, with the client for asyncio."""

import asyncio
import logging
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import URL, in_asyncio, until, waiting

from rlock_client import Closed, Locks, Lost, Unavailable, _lead


class Work:
    """The work of a leader: each turn lasts until the test ends it."""

    def __init__(self):
        self.may_end, self.stop, self.holds = threading.Semaphore(0), threading.Event(), []

    def __call__(self, held):
        self.holds.append(held)
        while not self.may_end.acquire(timeout=0.005) and not self.stop.is_set():
            held.check()

    def until_turns(self, count):
        until(f"turn {count}", lambda: len(self.holds) == count)


@pytest.fixture
def work():
    return Work()


@pytest.fixture
def leader(redis, work, locks):
    """Begins `lead` in a thread; all of them are stopped at the end of the test."""
    with ThreadPoolExecutor() as pool:
        yield lambda turn, stop=work.stop, **terms: pool.submit(locks.lead, "k", turn, stop=stop, **terms)
        work.stop.set()


def test_turns_of_a_thread(redis, work, leader, locks):
    lead = leader(work, fenced=True, lease=0.3)
    work.until_turns(1)
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(locks.lock("k").acquire)
        until("the other waits", lambda: waiting(redis) == 1)
        work.may_end.release()
        held = other.result()
        until("the leader waits", lambda: waiting(redis) == 1)
        held.release()
    work.until_turns(2)
    redis.delete("k")
    work.until_turns(3)
    first, second, third = work.holds
    assert second.token > first.token and second.lost and not third.lost and not lead.done()


def test_work_that_ends_after_the_loss(redis, leader):
    turns = []

    def work(held):
        turns.append(held)
        if len(turns) == 3:
            raise SystemExit
        redis.delete("k")
        if len(turns) == 2:
            until("it is lost", lambda: held.lost)
            raise ValueError("mine")

    assert isinstance(leader(work, lease=0.3).exception(20), SystemExit)
    assert [held.lost for held in turns] == [True, True, False]


@pytest.mark.parametrize("error", [ValueError("mine"), Lost("other: lost"), Unavailable("other"), SystemExit()])
def test_the_work_s_error_ends_it(redis, leader, error):
    def work(held):
        raise error

    assert leader(work).exception(20) is error
    assert not redis.exists("k")


def test_stopped_while_it_waits_and_while_the_work_runs(redis, work, leader, locks):
    stop = threading.Event()
    with locks.lock("k"):
        lead = leader(pytest.fail, stop)
        until("it waits", lambda: waiting(redis) == 1)
        stop.set()
        assert lead.result(20) is None and waiting(redis) == 0
    lead = leader(work)
    work.until_turns(1)
    work.stop.set()
    assert lead.result(20) is None and not redis.exists("k")


def test_pauses_grow_while_turns_fail_soon(monkeypatch, caplog):
    caplog.set_level(logging.CRITICAL, "rlock_client")
    now = 100.0
    monkeypatch.setattr(_lead.time, "monotonic", lambda: now)
    pauses = [0.0]
    for _ in range(7):
        pauses.append(_lead.pause(pauses[-1], now - 1, Unavailable()))
    assert pauses[1:] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.0, 3.0]
    assert _lead.pause(3.0, now - 5, Unavailable()) == 0.1


def test_closed_while_it_waits_and_while_the_work_runs(redis):
    leaders = Locks(URL)
    with ThreadPoolExecutor() as pool:
        leads = [pool.submit(leaders.lead, "k", lambda held: until("it is lost", lambda: held.lost)) for _ in range(2)]
        until("one leads and one waits", lambda: waiting(redis) == 1)
        leaders.close()
        assert [type(lead.exception(20)) for lead in leads] == [Closed] * 2


def test_work_that_turns_the_loss_into_lost(redis):
    async def test(locks):
        turns, second = [], asyncio.Event()

        async def work(held):
            turns.append(held)
            if len(turns) == 2:
                second.set()
            redis.delete("k")
            try:
                await asyncio.sleep(20)
            finally:
                held.check()

        lead = asyncio.create_task(locks.lead("k", work, lease=0.3))
        await second.wait()
        lead.cancel()
        with pytest.raises(asyncio.CancelledError):
            await lead

    in_asyncio(test)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tasks do not count who cancels them")
def test_work_that_catches_its_cancellation(redis):
    async def test(locks):
        began = asyncio.Event()

        async def work(held):
            began.set()
            try:
                await asyncio.sleep(20)
            except asyncio.CancelledError:
                pass

        lead = asyncio.create_task(locks.lead("k", work))
        await began.wait()
        lead.cancel()
        with pytest.raises(asyncio.CancelledError):
            await lead
        assert not redis.exists("k")

    in_asyncio(test)


@pytest.mark.parametrize("error", [ValueError("mine"), Lost("other: lost"), TimeoutError()])
def test_the_async_work_s_error_ends_it(redis, error):
    async def test(locks):
        async def work(held):
            raise error

        with pytest.raises(type(error)) as raised:
            await locks.lead("k", work)
        assert raised.value is error and not redis.exists("k")

    in_asyncio(test)
