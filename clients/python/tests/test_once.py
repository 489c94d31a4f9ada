"""once: one caller works, and all get its value. The suite of all clients tests more, with the client for asyncio."""

import asyncio
import inspect
import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import URL, in_asyncio, ran, until, until_async, waiting

from rlock_client import Busy, Closed, Configuration, Locks, Lost, aio


class Work:
    """Work that lasts until the test ends it, with a value or an error. It counts how often it has begun."""

    def __init__(self):
        self.began, self.may_end, self.value, self.held = 0, threading.Event(), b"value", None

    def __call__(self, held):
        self.began, self.held = self.began + 1, held
        assert self.may_end.wait(20)
        if isinstance(self.value, BaseException):
            raise self.value
        return self.value

    def ends(self, value=b"value"):
        self.value = value
        self.may_end.set()


@pytest.fixture
def work():
    return Work()


@pytest.fixture
def pool(work):
    with ThreadPoolExecutor(101) as pool:
        yield pool
        work.may_end.set()


def asked(redis):
    return redis.info("commandstats").get("cmdstat_rlock.once", {"calls": 0})["calls"]


def never(*_):
    raise AssertionError("it works")


def test_threads_share_one_request(redis, locks, work, pool):
    leads = pool.submit(locks.once, "k", work, keep=60)
    until("it works", lambda: work.began)
    assert redis.hkeys("k") == [work.held.holder] and not work.held.lost
    before, started = asked(redis), threading.Barrier(101)
    waits = [pool.submit(lambda: (started.wait(), locks.once("k", never, keep=60))[1]) for _ in range(100)]
    started.wait()
    with pytest.raises(Busy):
        locks.once("k", never, keep=60, wait=0.05)
    assert waiting(redis) == 0 and asked(redis) == before
    work.ends()
    assert {it.result(20) for it in [leads, *waits]} == {b"value"}
    assert not work.held.lost and not work.held.remaining
    locks.forget("k")
    assert locks.once("k", lambda held: b"", keep=60) == locks.once("k", never, keep=60, wait=0) == b""


@pytest.mark.parametrize("error", [ValueError("mine"), Busy("other"), Lost("other"), SystemExit(), KeyboardInterrupt()])
def test_the_work_s_error_is_its_caller_s_alone(redis, locks, work, pool, error):
    second = Work()
    first = pool.submit(locks.once, "k", work, keep=60)
    until("it works", lambda: work.began)
    beside = pool.submit(locks.once, "k", second, keep=60)
    work.ends(error)
    assert first.exception(20) is error
    until("the next thread works", lambda: second.began)
    assert not redis.exists("rlock_answer:{k}")
    second.ends()
    assert beside.result(20) == b"value"


def test_values(redis, locks):
    for value in ("text", None, 5):
        with pytest.raises(TypeError, match="must return bytes"):
            locks.once("k", lambda held, value=value: value, keep=60)
    for terms in ({}, {"keep": None}, {"keep": 0}):
        with pytest.raises((Configuration, TypeError)):
            locks.once("k", never, **terms)
    assert redis.keys() == []
    assert locks.once("a", lambda held: bytearray(b"a"), keep=60) == b"a"
    assert locks.once("m", lambda held: memoryview(b"a"), keep=60) == b"a"
    with pytest.raises(json.JSONDecodeError):
        locks.once("a", never, keep=60, json=True)
    with pytest.raises(TypeError, match="JSON serializable"):
        locks.once("k", lambda held: {1, 2}, keep=60, json=True)
    first = locks.once("k", lambda held: {"a": (1, None, "é"), "b": 1.5}, keep=60, json=True)
    again = locks.once("k", never, keep=60, json=True)
    assert first == again == {"a": [1, None, "é"], "b": 1.5} and first is not again
    assert locks.once("k", never, keep=60) == b'{"a":[1,null,"\\u00e9"],"b":1.5}'


def test_work_that_does_not_keep_its_lock(redis, locks):
    def fails(held):
        redis.delete("k")
        until("it is lost", lambda: held.lost)
        raise ValueError

    with pytest.raises(Lost, match="not held"):
        locks.once("k", lambda held: b"%d" % redis.delete("k"), keep=60)
    with pytest.raises(Lost, match="released"):
        locks.once("k", lambda held: held.release() or b"", keep=60)
    with pytest.raises(Lost) as lost:
        locks.once("k", fails, keep=60, lease=0.3)
    assert isinstance(lost.value.__cause__, ValueError) and redis.keys() == []


def test_closed(redis, work, pool):
    locks = Locks(URL)
    leads = pool.submit(locks.once, "k", work, keep=60)
    until("it works", lambda: work.began)
    beside = [pool.submit(locks.once, "k", never, keep=60) for _ in range(3)]
    locks.close()
    assert not redis.exists("k") and work.held.lost
    work.ends()
    assert [type(it.exception(20)) for it in [leads, *beside]] == [Closed] * 4 and redis.keys() == []


def test_once_for(redis, locks):
    calls = []

    @locks.once_for(lambda day, *, of="all": f"report:{day}:{of}", keep=60, json=True)
    def report(day, *, of="all"):
        """A report."""
        calls.append((day, of))
        return {"day": day}

    @locks.once_for("fixed", keep=60)
    def fixed():
        calls.append("fixed")
        return b"value"

    assert report(1) == report(1) == report(day=1, of="all") == {"day": 1}
    assert report(2, of="x") == {"day": 2}
    assert fixed() == fixed() == b"value"
    assert calls == [(1, "all"), (2, "x"), "fixed"]
    assert report.__doc__ == "A report."
    locks.forget("report:1:all")
    assert report(1) and len(calls) == 4


@pytest.mark.parametrize("kind", [Locks, aio.Locks])
def test_help_shows_the_options(kind):
    for call in (kind.once, kind.once_for):
        assert {"keep", "wait", "lease", "max_waiters", "json"} < set(inspect.signature(call).parameters)
        assert "seconds" in call.__doc__


def test_a_fork_while_threads_share_a_request(redis):
    ran("""
        locks, may_end = Locks(URL), threading.Event()
        def work(held):
            may_end.wait()
            return b"parent"
        def never(held):
            os._exit(3)
        values = []
        threads = [threading.Thread(target=lambda: values.append(locks.once("k", work, keep=60)))]
        threads[0].start()
        until(lambda: Redis.from_url(URL).exists("k"))
        threads += [threading.Thread(target=lambda: values.append(locks.once("k", never, keep=60))) for _ in range(5)]
        [it.start() for it in threads[1:]]
        def child():
            locks.connect()
            try:
                locks.once("k", never, keep=60, wait=1)
            except Busy:
                assert locks.once("child", lambda held: b"child", keep=60) == b"child"
                return
            sys.exit("not busy")
        forked(child)
        may_end.set()
        [it.join() for it in threads]
        assert values == [b"parent"] * 6
    """)


def test_tasks_share_one_request(redis, work, pool):
    with Locks(URL) as others:
        leads = pool.submit(others.once, "k", work, keep=60)
        until("it works", lambda: work.began)

        async def test(locks):
            waits = [asyncio.create_task(locks.once("k", never, keep=60)) for _ in range(1000)]
            await until_async("they wait", lambda: waiting(redis) == 1)
            # The task that has sent the request is among them.
            [wait.cancel() for wait in waits[:500]]
            ends = await asyncio.gather(*waits[:500], return_exceptions=True)
            assert {type(end) for end in ends} == {asyncio.CancelledError}
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(locks.once("k", never, keep=60), 0.05)
            await until_async("one waits", lambda: waiting(redis) == 1)
            work.ends()
            assert set(await asyncio.gather(*waits[500:])) == {b"value"}

        in_asyncio(test)
        assert leads.result(20) == b"value"


def test_async_work(redis):
    async def test(locks):
        async def work(held):
            assert redis.hkeys("k") == [held.holder]
            return {"a": 1}

        assert await locks.once("k", work, keep=60, json=True) == {"a": 1}

        @locks.once_for(lambda day: f"report:{day}", keep=60)
        async def report(day):
            return b"%d" % day

        assert inspect.iscoroutinefunction(report)
        assert [await report(1), await report(1), await report(2)] == [b"1", b"1", b"2"]

    in_asyncio(test)


def test_cancelled_while_it_works(redis):
    async def test(locks):
        began, ended = asyncio.Event(), []

        async def work(held):
            began.set()
            try:
                await asyncio.sleep(20)
            finally:
                ended.append(redis.exists("k"))

        first = asyncio.create_task(locks.once("k", work, keep=60))
        await began.wait()
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert ended == [1] and redis.keys() == [], "the work was stopped before the release"

    in_asyncio(test)


@pytest.mark.parametrize("error", [ValueError("mine"), TimeoutError("mine"), asyncio.CancelledError("mine")])
def test_the_async_work_s_error(redis, error):
    async def test(locks):
        async def work(held):
            raise error

        with pytest.raises(type(error)) as raised:
            await locks.once("k", work, keep=60)
        assert raised.value.args == ("mine",) and redis.keys() == []
        if sys.version_info >= (3, 11):
            assert asyncio.current_task().cancelling() == 0

    in_asyncio(test)


def test_cancelled_at_any_moment_it_leaves_nothing(redis):
    async def test(locks):
        async def work(held):
            await asyncio.sleep(0)
            return b"value"

        for turns in range(40):
            tasks = [asyncio.create_task(locks.once(f"k{i % 2}", work, keep=60)) for i in range(6)]
            for _ in range(turns):
                await asyncio.sleep(0.0001)
            [task.cancel() for task in tasks[::2]]
            ends = await asyncio.gather(*tasks, return_exceptions=True)
            assert ends[1::2] == [b"value"] * 3
            await until_async("all is free", lambda: not redis.exists("k0", "k1") and waiting(redis) == 0)
            await asyncio.gather(locks.forget("k0"), locks.forget("k1"))

    in_asyncio(test)
