"""lead: turn after turn under one lock, for threads and for asyncio."""

import asyncio
import logging
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import URL, in_asyncio, until, until_async, waiting

from rlock_client import Closed, Configuration, Locks, Lost, Unavailable, WrongKind, _lead, aio


class Work:
    """The work of a leader: each turn lasts until the test ends it."""

    def __init__(self):
        self.turns, self.may_end, self.stop, self.holds = 0, threading.Semaphore(0), threading.Event(), []

    def __call__(self, held):
        self.holds.append(held)
        self.turns += 1
        while not self.may_end.acquire(timeout=0.005) and not self.stop.is_set():
            held.check()


@pytest.fixture
def work():
    return Work()


@pytest.fixture
def leader(redis, work):
    """Begins `lead` in a thread; all of them are stopped at the end of the test."""
    locks, pool = Locks(URL, patience=0.1, answer_timeout=0.1), ThreadPoolExecutor()
    yield lambda turn, stop=work.stop, **terms: pool.submit(locks.lead, "k", turn, stop=stop, **terms)
    work.stop.set()
    pool.shutdown()
    locks.close()


def test_each_turn_waits_behind_the_others(redis, work, leader, locks):
    lead = leader(work, fenced=True)
    until("it leads", lambda: work.turns == 1)
    assert redis.hkeys("k") == [work.holds[0].holder]
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(locks.lock("k").acquire)
        until("the other waits", lambda: waiting(redis) == 1)
        work.may_end.release()
        held = other.result()
        until("the leader waits", lambda: waiting(redis) == 1)
        assert work.turns == 1
        held.release()
    until("it leads again", lambda: work.turns == 2)
    assert work.holds[1].token > work.holds[0].token and not lead.done()
    work.may_end.release()


def test_a_lost_lock_is_waited_for_again(redis, work, leader):
    lead = leader(work, lease=0.3)
    for turns in range(1, 4):
        until("it leads", lambda turns=turns: work.turns == turns)
        redis.delete("k")
    until("it leads", lambda: work.turns == 4)
    assert all(held.lost for held in work.holds[:3]) and not lead.done()
    work.may_end.release()


def test_work_that_does_not_look_learns_of_the_loss_at_its_end(redis, leader):
    holds = []

    def work(held):
        holds.append(held)
        if len(holds) == 1:
            redis.delete("k")
        else:
            until("the test has looked", lambda: len(holds) == 3)

    leader(work)
    until("it leads again", lambda: len(holds) == 2)
    assert holds[0].lost and not holds[1].lost
    holds.append(None)


@pytest.mark.parametrize("error", [ValueError("mine"), Lost("other: lost"), Unavailable("other"), SystemExit()])
def test_the_work_s_error_ends_it(redis, leader, error):
    def work(held):
        raise error

    assert leader(work).exception(20) is error
    assert not redis.exists("k")


def test_an_error_after_the_loss_follows_from_it(redis, leader):
    turns = []

    def work(held):
        turns.append(held)
        if len(turns) == 2:
            raise SystemExit
        redis.delete("k")
        until("it is lost", lambda: held.lost)
        raise ValueError("mine")

    assert isinstance(leader(work).exception(20), SystemExit) and len(turns) == 2


def test_stopped_while_it_waits(redis, leader, locks):
    stop = threading.Event()
    with locks.lock("k"):
        lead = leader(pytest.fail, stop=stop)
        until("it waits", lambda: waiting(redis) == 1)
        stop.set()
        assert lead.result(20) is None
        assert waiting(redis) == 0


def test_stopped_while_the_work_runs(redis, leader):
    stop, began = threading.Event(), threading.Event()

    def work(held):
        began.set()
        stop.wait()

    lead = leader(work, stop=stop)
    assert began.wait(20)
    stop.set()
    assert lead.result(20) is None
    assert not redis.exists("k")


def test_an_unavailable_server_is_waited_out(redis, work, leader, caplog):
    def logged():
        return [it for it in caplog.messages if "next attempt" in it]

    redis.client_pause(60_000, all=False)
    try:
        lead = leader(work)
        until("it has failed twice", lambda: len(logged()) == 2)
        assert not lead.done() and not work.turns
    finally:
        redis.client_unpause()
    until("it leads", lambda: work.turns == 1)
    assert logged()[0].startswith("lead: next attempt in 0.1 s: k: ")
    work.may_end.release()


def test_pauses_grow_while_turns_fail_soon(monkeypatch, caplog):
    caplog.set_level(logging.CRITICAL, "rlock_client")
    now = 100.0
    monkeypatch.setattr(_lead.time, "monotonic", lambda: now)
    pauses = [0.0]
    for _ in range(7):
        pauses.append(_lead.pause(pauses[-1], now - 1, Unavailable()))
    assert pauses[1:] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.0, 3.0]
    assert _lead.pause(3.0, now - 5, Unavailable()) == 0.1


def test_what_does_not_pass_ends_it(redis, leader):
    redis.hset("k", mapping={"mode": "read", "x": 1})
    assert isinstance(leader(pytest.fail).exception(20), WrongKind)
    with Locks(URL) as locks, pytest.raises(Configuration):
        locks.lead("", pytest.fail)
    with pytest.raises(Closed):
        locks.lead("k", pytest.fail)


def test_closed_while_it_waits_and_while_the_work_runs(redis, locks):
    leaders = Locks(URL)
    with ThreadPoolExecutor() as pool:
        leads = [pool.submit(leaders.lead, "k", lambda held: until("it is lost", lambda: held.lost)) for _ in range(2)]
        until("one leads and one waits", lambda: waiting(redis) == 1)
        leaders.close()
        assert [type(lead.exception(20)) for lead in leads] == [Closed] * 2


def test_one_of_many_tasks_leads(redis):
    async def test(locks):
        inside, turns = 0, []

        async def work(held):
            nonlocal inside
            inside += 1
            await asyncio.sleep(0)
            assert inside == 1 and not held.lost
            inside -= 1
            turns.append(held.holder)

        leads = [asyncio.create_task(locks.lead("k", work)) for _ in range(10)]
        await until_async("there were many turns", lambda: len(turns) > 50)
        [lead.cancel() for lead in leads]
        ends = await asyncio.gather(*leads, return_exceptions=True)
        assert [type(end) for end in ends] == [asyncio.CancelledError] * 10
        await until_async("all is free", lambda: not redis.exists("k") and waiting(redis) == 0)

    in_asyncio(test)


def test_the_loss_cancels_the_work_and_the_next_turn_begins(redis):
    async def test(locks):
        ended, second = [], asyncio.Event()

        async def work(held):
            if ended:
                second.set()
            else:
                redis.delete("k")
            try:
                await asyncio.sleep(20)
            finally:
                ended.append(held)

        lead = asyncio.create_task(locks.lead("k", work, lease=0.3))
        await second.wait()
        assert ended[0].lost and not lead.done()
        lead.cancel()
        with pytest.raises(asyncio.CancelledError):
            await lead
        assert len(ended) == 2 and not ended[1].lost and not redis.exists("k")

    in_asyncio(test)


def test_work_that_turns_the_loss_into_lost(redis):
    async def test(locks):
        turns, second = 0, asyncio.Event()

        async def work(held):
            nonlocal turns
            turns += 1
            if turns == 2:
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


def test_cancelled_while_it_waits(redis):
    async def test(locks):
        async with locks.lock("k"):
            lead = asyncio.create_task(locks.lead("k", pytest.fail))
            await until_async("it waits", lambda: waiting(redis) == 1)
            lead.cancel()
            with pytest.raises(asyncio.CancelledError):
                await lead
            await until_async("it waits no more", lambda: waiting(redis) == 0)

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


def test_a_task_that_leads_with_a_closed_client(redis):
    async def test(_):
        locks, began = aio.Locks(URL), asyncio.Event()

        async def work(held):
            began.set()
            await asyncio.sleep(20)

        lead = asyncio.create_task(locks.lead("k", work))
        await began.wait()
        await locks.close()
        with pytest.raises(Closed):
            await lead

    in_asyncio(test)
