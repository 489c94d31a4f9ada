"""once: one caller works, and all get its value."""

import asyncio
import inspect
import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from conftest import URL, in_asyncio, ran, until, until_async, waiting

from rlock_client import Busy, Closed, Configuration, Locks, Lost, Refused, WrongKind, aio


@pytest.fixture
def others(redis):
    with Locks(URL) as others:
        yield others


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


def test_one_works_and_all_get_its_value(redis, locks, others, work, pool):
    leads = pool.submit(locks.once, "k", work, keep=60)
    until("it works", lambda: work.began)
    assert redis.hkeys("k") == [work.held.holder] and not work.held.lost
    waits = pool.submit(others.once, "k", never, keep=60)
    until("the other waits", lambda: waiting(redis) == 1)
    work.ends(b"\x00value")
    assert leads.result(20) == waits.result(20) == b"\x00value"
    assert locks.once("k", never, keep=60) == b"\x00value"
    assert not redis.exists("k") and 50_000 < redis.pttl("rlock_answer:{k}") <= 60_000
    assert not work.held.lost and not work.held.remaining
    locks.forget("k")
    locks.forget("k")
    assert others.once("k", lambda held: b"", keep=60) == b""
    assert locks.once("k", never, keep=60) == b""


def test_a_hundred_threads_share_one_request(redis, locks, others, work, pool):
    leads = pool.submit(others.once, "k", work, keep=60)
    until("it works", lambda: work.began)
    before, started = asked(redis), threading.Barrier(101)
    waits = [pool.submit(lambda: (started.wait(), locks.once("k", never, keep=60))[1]) for _ in range(100)]
    started.wait()
    until("they wait", lambda: waiting(redis) == 1)
    with pytest.raises(Busy):
        locks.once("k", never, keep=60, wait=0.05)
    # The first request of a client is tried before it waits.
    assert asked(redis) <= before + 2 and waiting(redis) == 1
    work.ends()
    assert {it.result(20) for it in waits} == {leads.result(20)} == {b"value"}


def test_threads_beside_the_one_that_works_get_its_value(redis, locks, work, pool):
    leads = pool.submit(locks.once, "k", work, keep=60)
    until("it works", lambda: work.began)
    before, started = asked(redis), threading.Barrier(101)
    waits = [pool.submit(lambda: (started.wait(), locks.once("k", never, keep=60))[1]) for _ in range(100)]
    started.wait()
    with pytest.raises(Busy):
        locks.once("k", never, keep=60, wait=0.05)
    assert waiting(redis) == 0 and asked(redis) == before
    work.ends()
    assert {it.result(20) for it in [leads, *waits]} == {b"value"}


@pytest.mark.parametrize("error", [ValueError("mine"), Busy("other"), Lost("other"), SystemExit(), KeyboardInterrupt()])
def test_the_work_s_error_is_its_caller_s_alone(redis, locks, others, work, pool, error):
    second, third = Work(), Work()
    first = pool.submit(locks.once, "k", work, keep=60)
    until("it works", lambda: work.began)
    beside = pool.submit(locks.once, "k", second, keep=60)
    work.ends(error)
    assert first.exception(20) is error
    until("the next thread works", lambda: second.began)
    elsewhere = pool.submit(others.once, "k", third, keep=60)
    until("another program waits", lambda: waiting(redis) == 1)
    second.ends(error)
    assert beside.exception(20) is error
    until("the other program works", lambda: third.began)
    assert not redis.exists("rlock_answer:{k}")
    third.ends()
    assert elsewhere.result(20) == locks.once("k", never, keep=60) == b"value"


def test_a_value_that_is_not_bytes(redis, locks):
    for value in ("text", None, 5):
        with pytest.raises(TypeError, match="must return bytes"):
            locks.once("k", lambda held, value=value: value, keep=60)
        assert redis.keys() == []
    assert locks.once("k", lambda held: bytearray(b"a"), keep=60) == b"a"
    assert locks.once("l", lambda held: memoryview(b"a"), keep=60) == b"a"
    with pytest.raises(TypeError, match="JSON serializable"):
        locks.once("m", lambda held: {1, 2}, keep=60, json=True)
    with pytest.raises(json.JSONDecodeError):
        locks.once("k", never, keep=60, json=True)


def test_json(redis, locks, others):
    value = {"a": (1, None, "é"), "b": 1.5}
    first = locks.once("k", lambda held: value, keep=60, json=True)
    again = locks.once("k", never, keep=60, json=True)
    assert first == again == others.once("k", never, keep=60, json=True) == {"a": [1, None, "é"], "b": 1.5}
    assert first is not again
    assert locks.once("k", never, keep=60) == b'{"a":[1,null,"\\u00e9"],"b":1.5}'


def test_the_lock_is_lost_while_it_works(redis, locks, others, work, pool):
    second = Work()
    leads = pool.submit(locks.once, "k", work, keep=60, lease=0.3)
    until("it works", lambda: work.began)
    beside = pool.submit(locks.once, "k", second, keep=60)
    redis.delete("k")
    until("it is lost", lambda: work.held.lost)
    with pytest.raises(Lost, match="not held"):
        work.held.check()
    work.ends(b"too late")
    assert isinstance(leads.exception(20), Lost)
    until("the next one works", lambda: second.began)
    assert not redis.exists("rlock_answer:{k}")
    second.ends()
    assert beside.result(20) == b"value"


def test_a_loss_that_only_the_server_knows_of(redis, locks):
    def work(held):
        redis.delete("k")
        return b"too late"

    with pytest.raises(Lost) as lost:
        locks.once("k", work, keep=60)
    assert lost.value.reason == "not-held" and redis.keys() == []


def test_an_error_under_a_lock_that_is_lost(redis, locks):
    def work(held):
        redis.delete("k")
        until("it is lost", lambda: held.lost)
        raise ValueError

    with pytest.raises(Lost) as lost:
        locks.once("k", work, keep=60, lease=0.3)
    assert isinstance(lost.value.__cause__, ValueError)


def test_work_that_releases(redis, locks):
    def work(held):
        held.release()
        return b"value"

    with pytest.raises(Lost, match="given back"):
        locks.once("k", work, keep=60)
    assert redis.keys() == []


def test_how_long_it_waits(redis, locks, others, work, pool):
    leads = pool.submit(others.once, "k", work, keep=60)
    until("it works", lambda: work.began)
    locks.connect()  # which the limit includes otherwise
    for wait in (0, 0.2):
        begun = time.monotonic()
        with pytest.raises(Busy):
            locks.once("k", never, keep=60, wait=wait)
        assert time.monotonic() - begun >= wait and waiting(redis) == 0
    work.ends()
    leads.result(20)
    assert locks.once("k", never, keep=60, wait=0) == b"value"


def test_mistakes(redis, locks):
    for terms in ({"keep": 0}, {"keep": -1}, {"keep": 1, "lease": 0}, {"keep": 1, "max_waiters": 0}, {"keep": None}):
        with pytest.raises((Configuration, TypeError)):
            locks.once("k", never, **terms)
    with pytest.raises(Configuration):
        locks.once("", never, keep=1)
    with pytest.raises(TypeError):
        locks.once("k", never)
    before = asked(redis)
    redis.hset("k", mapping={"mode": "read", "x": 1})
    with pytest.raises(WrongKind):
        locks.once("k", never, keep=1)
    assert asked(redis) == before + 1, "nothing was sent before"
    redis.delete("k")
    with pytest.raises(Refused):
        locks.once("k", lambda held: b"x" * 100_000, keep=60)
    until("it is free", lambda: redis.keys() == [])


def test_closed(redis, others, work, pool):
    locks = Locks(URL)
    leads = pool.submit(locks.once, "k", work, keep=60)
    until("it works", lambda: work.began)
    beside = [pool.submit(locks.once, "k", never, keep=60) for _ in range(3)]
    locks.close()
    assert [type(it.exception(20)) for it in beside] == [Closed] * 3
    assert not redis.exists("k") and work.held.lost
    work.ends()
    assert isinstance(leads.exception(20), Closed) and redis.keys() == []
    with pytest.raises(Closed):
        locks.once("k", never, keep=60)


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
        child = os.fork()
        if child == 0:
            try:
                locks.connect()
                try:
                    locks.once("k", never, keep=60, wait=1)
                except Busy:
                    assert locks.once("child", lambda held: b"child", keep=60) == b"child"
                    os._exit(0)
                os._exit(1)
            except BaseException as error:
                print(repr(error), flush=True)
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        may_end.set()
        [it.join() for it in threads]
        assert values == [b"parent"] * 6
    """)


def test_tasks_share_one_request(redis, others, work, pool):
    leads = pool.submit(others.once, "k", work, keep=60)
    until("it works", lambda: work.began)

    async def test(locks):
        before = asked(redis)
        waits = [asyncio.create_task(locks.once("k", never, keep=60)) for _ in range(1000)]
        await until_async("they wait", lambda: waiting(redis) == 1)
        # The one that has sent the request is among them.
        [wait.cancel() for wait in waits[:500]]
        ends = await asyncio.gather(*waits[:500], return_exceptions=True)
        assert {type(end) for end in ends} == {asyncio.CancelledError}
        with pytest.raises(Busy):
            await locks.once("k", never, keep=60, wait=0.05)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(locks.once("k", never, keep=60), 0.05)
        await until_async("one waits", lambda: waiting(redis) == 1)
        assert asked(redis) < before + 10
        work.ends()
        assert set(await asyncio.gather(*waits[500:])) == {b"value"}

    in_asyncio(test)
    assert leads.result(20) == b"value"


def test_async_work(redis):
    async def test(locks):
        async def work(held):
            assert redis.hkeys("k") == [held.holder]
            await asyncio.sleep(0)
            return {"a": 1}

        values = await asyncio.gather(*(locks.once("k", work, keep=60, json=True) for _ in range(10)))
        assert values == [{"a": 1}] * 10 and not redis.exists("k")
        await locks.forget("k")
        assert redis.keys() == []

        @locks.once_for(lambda day: f"report:{day}", keep=60)
        async def report(day):
            return b"%d" % day

        assert inspect.iscoroutinefunction(report)
        assert [await report(1), await report(1), await report(2)] == [b"1", b"1", b"2"]

    in_asyncio(test)


def test_cancelled_while_it_works(redis):
    async def test(locks):
        began, ended, second = asyncio.Event(), [], asyncio.Event()

        async def work(held):
            began.set()
            try:
                await asyncio.sleep(20)
            finally:
                ended.append(redis.exists("k"))

        async def next_work(held):
            second.set()
            return b"value"

        first = asyncio.create_task(locks.once("k", work, keep=60))
        await began.wait()
        beside = [asyncio.create_task(locks.once("k", next_work, keep=60)) for _ in range(3)]
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert ended == [1], "the work was stopped before the release"
        assert await asyncio.gather(*beside) == [b"value"] * 3 and second.is_set()

    in_asyncio(test)


def test_the_loss_cancels_the_work(redis):
    async def test(locks):
        async def work(held):
            redis.delete("k")
            await asyncio.sleep(20)

        async def next_work(held):
            return b"value"

        first = asyncio.create_task(locks.once("k", work, keep=60, lease=0.3))
        await until_async("it works", lambda: asked(redis))
        beside = asyncio.create_task(locks.once("k", next_work, keep=60))
        with pytest.raises(Lost, match="not held") as lost:
            await first
        assert isinstance(lost.value.__cause__, asyncio.CancelledError)
        assert await beside == b"value"

    redis.config_resetstat()
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


def test_an_async_client_that_is_closed(redis):
    async def test(_):
        locks, began = aio.Locks(URL), asyncio.Event()

        async def work(held):
            began.set()
            await asyncio.sleep(20)

        tasks = [asyncio.create_task(locks.once("k", work, keep=60)) for _ in range(5)]
        await began.wait()
        await locks.close()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(end) for end in ends] == [Closed] * 5 and redis.keys() == []

    in_asyncio(test)
