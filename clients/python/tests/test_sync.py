"""The synchronous client: how it is used, and what it says when it cannot go on."""

import gc
import inspect
import logging
import pickle
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from conftest import URL, until, waiting

import rlock_client
from rlock_client import (
    Busy,
    Closed,
    Configuration,
    LockError,
    Locks,
    Lost,
    NoRight,
    Unavailable,
    WrongKind,
)


def test_with_holds_the_lock_and_releases_it(redis, locks):
    with locks.lock("orders:42", wait=10, fenced=True) as held:
        assert redis.hkeys("orders:42") == [held.holder]
        assert held.token > 0 and held.tokens == [held.token]
        assert not held.lost and held.loss is None and 0 < held.remaining <= 30
        held.check()
    assert not redis.exists("orders:42")
    assert not held.lost and held.remaining == 0
    with pytest.raises(Lost, match="released"):
        held.check()
    with pytest.raises(Lost, match="released"):
        held.release()


def test_acquire_and_release(redis, locks):
    held = locks.lock("k").acquire()
    assert held.token is None and held.tokens == []
    assert locks.lock("k").try_acquire() is None
    with pytest.raises(Busy, match="^k: not free in time$"):
        locks.lock("k", wait=0.05).acquire()
    held.release()
    again = locks.lock("k").try_acquire()
    again.release()


def test_what_is_not_kept_stays_held_and_warns(redis):
    with Locks(URL) as locks:
        with pytest.warns(ResourceWarning, match="<Held k: .* s left> stays held"):
            locks.lock("k", lease=1.5).acquire()
        least = left = redis.pttl("k")
        while left <= least:
            least, left = left, redis.pttl("k")
        assert redis.exists("k"), "it is renewed"
    assert not redis.exists("k")


def test_a_client_with_a_lock_that_is_not_kept_stays_open(redis):
    with pytest.warns(ResourceWarning):
        Locks(URL).lock("k", lease=5, fixed=True).acquire()
    gc.collect()
    assert redis.exists("k")


def test_what_ended_by_itself_does_not_warn(redis, locks, recwarn):
    held = locks.lock("k", lease=0.1, fixed=True).acquire()
    until("it has ended", lambda: not redis.exists("k"))
    del held
    assert not recwarn.list


def test_a_lock_object_releases_what_it_has_acquired(redis, locks):
    lock = locks.lock("k")
    if lock.try_acquire():
        assert lock.locked() and redis.exists("k")
        lock.release()
    assert not lock.locked() and not redis.exists("k")
    with pytest.raises(Lost, match="nothing to release"):
        lock.release()
    lock.acquire()
    with pytest.raises(Lost, match="not acquired by this thread"), ThreadPoolExecutor(1) as other:
        other.submit(lock.release).result()
    lock.release()
    with lock as held:
        lock.release()
        assert held.remaining == 0
    lock = locks.permit("p", 2)
    for held in [lock.acquire(), lock.acquire()]:
        assert held in lock._held
        held.release()
    assert not lock._held


def test_locks_that_were_lost_and_never_released_are_forgotten(redis, locks):
    lock = locks.lock("k", lease=0.02, fixed=True)
    for _ in range(5):
        held = lock.acquire()
        until("it is lost", lambda held=held: held.lost)
    assert len(lock._held) == 1


def test_locked_asks_the_server(redis, locks):
    with Locks(URL) as others:
        for kind in ("lock", "read", "write"):
            with getattr(others, kind)("k"):
                assert getattr(locks, kind)("k").locked()
        with others.permit("p", 2):
            assert not locks.permit("p", 2).locked() and locks.permit("p", 1).locked()
        with others.lock("b"):
            assert locks.all(["a", "b"]).locked() and not locks.all(["a", "c"]).locked()


def test_times_may_be_timedeltas(redis, locks):
    time = timedelta(seconds=20)
    lock = locks.lock("k", wait=time, lease=time, replicas=(1, time))
    assert (lock.wait, lock.lease, lock.replicas) == (20.0, 20.0, (1, 20.0))
    with Locks(URL, lease=time, answer_timeout=time).lock("k") as held:
        assert held.remaining <= 20


def test_how_it_is_shown(redis, locks):
    lock = locks.lock("k", wait=10, fenced=True)
    assert repr(Locks("redis://ann:secret@localhost:1/3")) == "<Locks redis://localhost:1/3>"
    assert repr(Locks.cluster(["redis://:s@a:1", "redis+unix:///p?pass=s"])) == "<Locks redis://a:1, redis+unix:///p>"
    assert repr(lock) == "<Lock lock: k, wait=10, fenced=True>"
    with lock as held:
        assert re.fullmatch(r"<Held k: \d+\.\d s left>", repr(held))
    assert repr(held) == "<Held k: released>"


@pytest.mark.parametrize("call", [Locks.lock, Locks.read, Locks.write, Locks.permit, Locks.all])
def test_help_shows_all_parameters(call):
    shown = inspect.signature(call).parameters
    assert {"wait", "lease", "fixed", "fenced", "owner", "max_waiters", "replicas"} < set(shown)
    assert "seconds" in call.__doc__
    for opening in (Locks.__init__, Locks.cluster, Locks.sentinels, Locks.of):
        assert {"lease", "patience", "name", "ca"} < set(inspect.signature(opening).parameters)



def test_one_lock_in_many_threads(redis, locks):
    lock, seen, inside = locks.lock("k"), [], []

    def work():
        for _ in range(20):
            with lock as held:
                inside.append(held)
                seen.append(len(inside))
                inside.remove(held)

    threads = [threading.Thread(target=work) for _ in range(8)]
    [it.start() for it in threads]
    [it.join() for it in threads]
    assert seen == [1] * 160


def test_a_generator_may_end_in_another_thread(redis, locks):
    lock = locks.lock("k")
    lock.__enter__()
    thread = threading.Thread(target=lock.__exit__, args=(None, None, None))
    thread.start()
    thread.join()
    assert not redis.exists("k")


def test_what_was_released_within_with(redis, locks):
    with locks.lock("k") as held:
        held.release()



def test_a_loss_is_raised_at_the_end_of_with(redis, locks, caplog):
    with pytest.raises(Lost, match="k: lost: the server says that it is not held") as lost:
        with locks.lock("k", lease=1.5) as held:
            redis.delete("k")
            until("it is lost", lambda: held.lost)
            with pytest.raises(Lost):
                held.check()
    assert lost.value.reason == "not-held"
    assert held.lost and held.loss.startswith("the server says that it is not held")
    until("it is logged", lambda: len(caplog.records) == 1)
    line = caplog.records[0]
    assert line.name == "rlock_client" and line.levelno == logging.WARNING
    assert "lock: k" in line.getMessage() and held.holder in line.getMessage()


def test_a_loss_that_the_release_finds(redis, locks):
    held = locks.lock("k").acquire()
    redis.delete("k")
    with pytest.raises(Lost) as lost:
        held.release()
    assert held.lost and held.loss.startswith("the server says") and lost.value.reason == "not-held"
    with pytest.raises(Lost) as lost:
        held.release()
    assert lost.value.reason is None, "it was released before"


def test_the_body_s_error_is_the_cause(redis, locks):
    with pytest.raises(Lost) as lost:
        with locks.lock("k", lease=0.2, fixed=True) as held:
            until("it is lost", lambda: held.lost)
            raise ValueError("mine")
    assert isinstance(lost.value.__cause__, ValueError)
    with pytest.raises(ValueError):
        with locks.lock("k"):
            raise ValueError
    with pytest.raises(SystemExit):
        with locks.lock("k", lease=0.2, fixed=True) as held:
            until("it is lost", lambda: held.lost)
            raise SystemExit
    until("it is free", lambda: not redis.exists("k"))


def test_on_lost(redis, locks):
    reported = threading.Event()
    held = locks.lock("k", lease=0.2, fixed=True).acquire()
    held.on_lost(reported.set)
    assert reported.wait(20) and held.lost
    late = threading.Event()
    held.on_lost(late.set)
    assert late.wait(20)
    quiet, last = (locks.lock(name, lease=1.0, fixed=True).acquire() for name in ("q", "k"))
    reported.clear()
    late.clear()
    quiet.on_lost(reported.set)
    quiet.release()
    last.on_lost(late.set)
    assert late.wait(20) and not reported.is_set(), "what was released is not lost"


def test_close_ends_waits_and_releases(redis):
    locks, ended = Locks(URL), []
    held = locks.lock("k").acquire()

    def wait():
        try:
            locks.lock("k").acquire()
        except Closed as error:
            ended.append(str(error))

    threads = [threading.Thread(target=wait) for _ in range(10)]
    [it.start() for it in threads]
    until("all wait", lambda: waiting(redis) == 10)
    locks.close()
    assert not redis.exists("k")
    [it.join(20) for it in threads]
    assert ended == ["k: the client was closed"] * 10 and waiting(redis) == 0
    assert held.lost and held.loss == "the client was closed"
    with pytest.raises(Closed):
        held.release()
    with pytest.raises(Closed):
        locks.lock("k").acquire()
    locks.close()


def test_with_in_a_closed_client(redis):
    locks = Locks(URL)
    with pytest.raises(Closed):
        with locks.lock("k"):
            locks.close()


def test_mistakes_are_errors_of_their_own_kind(redis, locks):
    redis.hset("rw", mapping={"mode": "read", "x": 1})
    with pytest.raises(WrongKind) as wrong:
        locks.lock("rw").acquire()
    assert wrong.value.code == "WRONGKIND"
    for call in (
        lambda: Locks("http://secret"),
        lambda: Locks.cluster([]).connect(),
        lambda: Locks(URL, lease=-1),
        lambda: locks.lock("k", wait=float("nan")).acquire(),
        lambda: locks.lock("k", lease=float("inf")).acquire(),
        lambda: locks.lock("k", fixed=True),
        lambda: locks.all("abc"),
    ):
        with pytest.raises(Configuration) as configuration:
            call()
        assert "secret" not in str(configuration.value)
    for call in (lambda: locks.lock(5).acquire(), lambda: locks.lock("k", waits=1)):
        with pytest.raises(TypeError):
            call()


@pytest.mark.parametrize("limit", ["wait", "patience"])
def test_a_server_that_was_never_reached_is_waited_for(limit):
    """The time counts from the first try to connect."""
    settings, terms = ({}, {"wait": 0.2}) if limit == "wait" else ({"patience": 0.2}, {})
    begun = time.monotonic()
    with pytest.raises(Unavailable):
        Locks("redis://127.0.0.1:1", **settings).lock("k", **terms).acquire()
    assert time.monotonic() - begun >= 0.2


def test_errors_are_also_those_of_python():
    kinds = [(Busy, TimeoutError), (Unavailable, ConnectionError), (NoRight, PermissionError), (Configuration, ValueError)]
    assert all(issubclass(kind, LockError) and issubclass(kind, known) for kind, known in kinds)


@pytest.mark.parametrize("kind", [it for it in vars(rlock_client).values() if isinstance(it, type)])
def test_errors_can_be_pickled(kind):
    if issubclass(kind, LockError):
        error = kind("k: text", "CODE")
        error.reason = "ended"
        error = pickle.loads(pickle.dumps(error))
        assert error.reason == "ended"
        assert type(error) is kind and str(error) == "k: text" and error.code == "CODE"
