"""The process around the client: forks, signals, and its end."""

import signal
import time

import pytest
from conftest import URL, program, ran, until, waiting

from rlock_client import Locks



def test_a_forked_child_holds_nothing_of_its_parent_s(redis):
    ran("""
        locks = Locks(URL)
        held = locks.lock("k").acquire()
        reported = threading.Event()
        held.on_lost(reported.set)
        def child():
            assert held.lost and held.remaining == 0 and "forked" in held.loss
            for call in (held.check, held.release, held.detach):
                try:
                    call()
                except Lost:
                    continue
                sys.exit("it is held")
            # The client that was made before goes on, and so do those that tell of losses.
            assert locks.lock("k").try_acquire() is None
            with locks.lock("child", wait=5) as mine:
                assert not mine.lost
            late = threading.Event()
            mine = locks.lock("child", lease=0.1, fixed=True).acquire()
            mine.on_lost(late.set)
            assert late.wait(10)
        forked(child)
        assert not held.lost and not reported.is_set()
        held.release()
    """)


def test_a_fork_amid_waits_and_a_running_loop(redis):
    ran("""
        locks, loops = Locks(URL), aio.Locks(URL)
        held = locks.lock("k").acquire()
        threads = [threading.Thread(target=lambda: locks.lock("k").acquire().release()) for _ in range(10)]
        [it.start() for it in threads]
        async def main():
            waits = [asyncio.create_task(loops.lock("k").acquire()) for _ in range(10)]
            for _ in range(200):
                await loops.lock("busy").try_acquire()
            while waiting() < 20:
                await asyncio.sleep(0.01)
            for _ in range(5):
                child = os.fork()
                if child == 0:
                    import gc
                    del waits
                    gc.collect()
                    with locks.lock("child", wait=5):
                        pass
                    os._exit(0)
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            assert not held.lost
            held.release()
            for wait in asyncio.as_completed(waits):
                await (await wait).release()
        asyncio.run(main())
        [it.join() for it in threads]
    """)
    until("no waiters are left", lambda: waiting(redis) == 0)


def test_a_child_of_asyncio_s(redis):
    ran("""
        loops = aio.Locks(URL)
        async def use(name):
            async with loops.lock(name, wait=5):
                pass
        asyncio.run(use("parent"))
        child = os.fork()
        asyncio.run(use("k"))
        if child == 0:
            sys.exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    """)


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_multiprocessing(redis, tmp_path, method):
    path = tmp_path / "work.py"
    path.write_text(f"""
import multiprocessing
from rlock_client import Locks
locks = Locks({URL!r})
def add(_):
    with locks.lock("k", wait=20):
        with open({str(tmp_path / "sum")!r}, "r+") as file:
            count = int(file.read() or 0)
            file.seek(0)
            file.write(str(count + 1))
if __name__ == "__main__":
    open({str(tmp_path / "sum")!r}, "w").close()
    with locks.lock("parent"), multiprocessing.get_context({method!r}).Pool(4) as pool:
        pool.map(add, range(40), chunksize=1)
""")
    ran(
        f"import runpy; runpy.run_path({str(path)!r}, run_name='__main__')"
        if method == "fork"
        else f"""
        import subprocess
        subprocess.run([sys.executable, {str(path)!r}], check=True)
    """
    )
    assert (tmp_path / "sum").read_text() == "40"


@pytest.mark.parametrize("wait", ["locks.lock('k').acquire()", "locks.lock('k').__enter__()"])
def test_ctrl_c_ends_a_wait(redis, wait):
    with Locks(URL) as locks, locks.lock("k"):
        process = program(f"""
            locks = Locks(URL)
            try:
                {wait}
            except KeyboardInterrupt:
                until(lambda: waiting() == 0)
                print("interrupted", flush=True)
                time.sleep(60)
        """)
        try:
            until("it waits", lambda: waiting(redis) == 1)
            begun = time.monotonic()
            process.send_signal(signal.SIGINT)
            assert process.stdout.readline() == "interrupted\n"
            assert time.monotonic() - begun < 2
        finally:
            process.kill()
            process.communicate()


def test_ctrl_c_in_asyncio(redis):
    with Locks(URL) as locks, locks.lock("k"):
        process = program("asyncio.run(aio.Locks(URL).lock('k').acquire())")
        until("it waits", lambda: waiting(redis) == 1)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
        assert "KeyboardInterrupt" in errors
        until("it waits no more", lambda: waiting(redis) == 0)


def test_the_end_releases_what_is_held(redis):
    ran("""
        locks, loops = Locks(URL), aio.Locks(URL)
        held = locks.lock("a").acquire()
        other = asyncio.run(loops.lock("b").acquire())
    """)
    assert redis.keys() == []
    ran("held = Locks(URL).lock('a').acquire(); sys.exit(3)", code=3)
    assert redis.keys() == []


@pytest.mark.parametrize("daemon", [True, False])
@pytest.mark.parametrize("kind", ["sync", "aio"])
def test_the_end_does_not_wait_for_waiters(redis, kind, daemon):
    with Locks(URL) as locks, locks.lock("k"):
        begun = time.monotonic()
        _, errors = ran(f"""
            locks, loops = Locks(URL), aio.Locks(URL)
            def wait():
                try:
                    asyncio.run(loops.lock("k").acquire()) if {kind == "aio"} else locks.lock("k").acquire()
                except Closed:
                    pass
            threads = [threading.Thread(target=wait, daemon={daemon}) for _ in range(20)]
            [it.start() for it in threads]
            mine = locks.lock("mine").acquire()
            mine.on_lost(print)
            until(lambda: waiting() == 20)
        """)
        assert time.monotonic() - begun < 10 and errors == ""
    until("no waiters are left", lambda: waiting(redis) == 0)
    assert redis.keys() == []


def test_the_end_with_daemons_that_are_busy(redis):
    for _ in range(5):
        _, errors = ran("""
            locks, loops, turns = Locks(URL), aio.Locks(URL), []
            def work():
                while True:
                    locks.lock("k").acquire().release()
                    turns.append(1)
            async def works():
                while True:
                    async with loops.lock("k"):
                        turns.append(1)
            def quiet(work):
                try:
                    work()
                except Closed:
                    pass
            for _ in range(4):
                threading.Thread(target=quiet, args=(work,), daemon=True).start()
                threading.Thread(target=quiet, args=(lambda: asyncio.run(works()),), daemon=True).start()
            until(lambda: len(turns) > 40)
        """)
        assert errors == ""
    until("the server has noticed", lambda: waiting(redis) == 0)


def test_the_end_without_a_server():
    begun = time.monotonic()
    ran("""
        import socket
        silent = socket.create_server(("127.0.0.1", 0))
        locks = Locks(f"redis://127.0.0.1:{silent.getsockname()[1]}", connect_timeout=30, patience=30)
        def wait():
            try:
                locks.lock("k").acquire()
            except Closed:
                pass
        threading.Thread(target=wait).start()
        kept = silent.accept()
    """)
    assert time.monotonic() - begun < 10


def test_a_client_that_is_dropped_closes_its_connections(redis):
    def connections():
        return sum(client["name"] == "gone" for client in redis.client_list())

    locks = Locks(URL, name="gone")
    locks.lock("k").acquire().release()
    assert connections() > 0
    del locks
    until("they are closed", lambda: connections() == 0)
