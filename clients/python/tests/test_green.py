"""gevent and eventlet: a greenlet that waits for a lock blocks no other one."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from conftest import ran, until
from gunicorns import answer, gunicorn

PATCHES = {
    "gevent": """
        from gevent import monkey; monkey.patch_all()
        import gevent as green
        from gevent import Timeout, sleep, spawn
        def join(it): it.get()
        def kill(it): it.kill()
    """,
    "eventlet": """
        import eventlet; eventlet.monkey_patch()
        from eventlet import Timeout, sleep, spawn
        def join(it): it.wait()
        def kill(it): it.kill()
    """,
}


@pytest.fixture(params=PATCHES)
def green(request, redis):
    pytest.importorskip(request.param)
    return partial(ran, first=PATCHES[request.param])


def test_a_wait_lets_other_greenlets_go_on(green):
    green("""
        locks, turns = Locks(URL), []
        lock = locks.lock("k")
        def work():
            with lock:
                turns.append(1)
                sleep(0)
        held = lock.acquire()
        tasks = [spawn(work) for _ in range(40)]
        until(lambda: waiting() == 40)
        assert lock.try_acquire() is None
        held.release()
        [join(it) for it in tasks]
        assert len(turns) == 40
        with Locks(URL) as other, other.lock("k", wait=1):
            pass
    """)


def test_a_greenlet_that_is_ended_leaves_the_queue(green):
    green("""
        locks = Locks(URL)
        with locks.lock("k"):
            killed = spawn(lambda: locks.lock("k").acquire())
            until(lambda: waiting() == 1)
            kill(killed)
            until(lambda: waiting() == 0)
            try:
                with Timeout(0.05):
                    locks.lock("k").acquire()
            except Timeout:
                until(lambda: waiting() == 0)
            else:
                sys.exit("no timeout")
            try:
                locks.lock("k", wait=0.05).acquire()
            except Busy:
                pass
            else:
                sys.exit("not busy")
        with locks.lock("k", wait=1):
            pass
    """)


def test_a_loss_is_reported_to_a_greenlet(green):
    green("""
        locks, reported = Locks(URL), threading.Event()
        held = locks.lock("k", lease=0.2, fixed=True).acquire()
        held.on_lost(reported.set)
        assert reported.wait(10) and held.lost
    """)


def test_the_end_releases_and_does_not_wait(green, redis):
    green("""
        locks = Locks(URL)
        held = locks.lock("k").acquire()
        waits = [spawn(lambda: locks.lock("k").acquire()) for _ in range(3)]
        until(lambda: waiting() == 3)
    """)
    until("no waiters are left", lambda: redis.info("rlock")["rlock_waiters"] == 0)
    assert redis.keys() == []


def test_sigterm_releases(green, redis):
    green("""
        exit_on_sigterm()
        locks, begun = Locks(URL), []
        def work():
            with locks.lock("k", lease=600):
                begun.append(1)
                sleep(60)
        spawn(work)
        while not begun:
            sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)
        sleep(60)
    """)
    assert redis.keys() == []


def test_a_fork_with_waits_under_way(green):
    green("""
        locks = Locks(URL)
        held = locks.lock("k").acquire()
        waits = [spawn(lambda: locks.lock("k").acquire().release()) for _ in range(5)]
        until(lambda: waiting() == 5)
        child = os.fork()
        if child == 0:
            if "eventlet" in sys.modules:
                eventlet.hubs.use_hub()
            with locks.lock("child", wait=5):
                os._exit(0)
        while os.waitpid(child, os.WNOHANG) == (0, 0):
            sleep(0.01)
        held.release()
        [join(it) for it in waits]
    """)


APPLICATION = """
import os, time
from rlock_client import Locks
locks = Locks(os.environ["RLOCK_URL"])
def application(environ, start_response):
    with locks.lock("orders", wait=20):
        time.sleep(0.001)
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]
"""


def test_gunicorn_serves_forty_requests_for_one_lock(redis, tmp_path):
    pytest.importorskip("gevent")
    pytest.importorskip("gunicorn")
    with gunicorn(tmp_path, APPLICATION, "--worker-class", "gevent") as port:
        with ThreadPoolExecutor(40) as callers:
            assert list(callers.map(answer, [port] * 40)) == [200] * 40


def test_a_leader_in_a_greenlet(green):
    green("""
        locks, stop, turns = Locks(URL), threading.Event(), []
        def work(held):
            turns.append(held)
            while len(turns) == 2 and not stop.is_set():
                sleep(0.005)
        with locks.lock("k"):
            first, leader = threading.Event(), spawn(lambda: locks.lead("k", work, stop=stop))
            waits = spawn(lambda: locks.lead("k", work, stop=first))
            until(lambda: waiting() == 2)
            first.set()
            join(waits)
            until(lambda: waiting() == 1)
        until(lambda: len(turns) == 2)
        stop.set()
        join(leader)
        assert locks.lock("k").try_acquire()
    """)


def test_greenlets_share_one_request(green):
    green("""
        locks, may_end, began = Locks(URL), threading.Event(), []
        def work(held):
            began.append(held)
            assert may_end.wait(10)
            return b"value"
        def fails(held):
            began.append(held)
            while True:
                sleep(0.005)
        values, ended = [], []
        first = spawn(lambda: locks.once("k", fails, keep=60))
        until(lambda: began)
        tasks = [spawn(lambda: values.append(locks.once("k", work, keep=60))) for _ in range(50)]
        sleep(0.05)
        assert waiting() == 0
        kill(first)
        until(lambda: len(began) == 2)
        try:
            locks.once("k", work, keep=60, wait=0.05)
        except Busy:
            may_end.set()
        [join(it) for it in tasks]
        assert values == [b"value"] * 50 and len(began) == 2
    """)
