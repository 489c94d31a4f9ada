"""SIGTERM releases what a program holds, long before the lease ends."""

import signal

import pytest
from conftest import program, until
from gunicorns import answer, gunicorn

HELD = 'locks.lock("k", lease=600).acquire()'
WORKS = {
    "the main thread": """
        exit_on_sigterm()
        with locks.lock("k", lease=600):
            print("held", flush=True)
            time.sleep(60)
    """,
    "a lock without with": f"""
        exit_on_sigterm()
        held = {HELD}
        print("held", flush=True)
        time.sleep(60)
    """,
    "a daemon thread": """
        exit_on_sigterm()
        def work():
            with locks.lock("k", lease=600):
                print("held", flush=True)
                time.sleep(60)
        threading.Thread(target=work, daemon=True).start()
        time.sleep(60)
    """,
    "asyncio": """
        exit_on_sigterm()
        async def main():
            async with aio.Locks(URL).lock("k", lease=600):
                print("held", flush=True)
                await asyncio.sleep(60)
        asyncio.run(main())
    """,
    "a main thread that waits": f"""
        exit_on_sigterm()
        held = {HELD}
        print("held", flush=True)
        locks.lock("k").acquire()
    """,
}


@pytest.mark.parametrize("work", WORKS)
def test_sigterm_releases(redis, work):
    process = program("locks = Locks(URL)\n" + "\n".join(line[8:] for line in WORKS[work].splitlines()))
    assert process.stdout.readline() == "held\n"
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (0, "")
    assert redis.keys() == []


def test_a_handler_that_is_there_stays(redis):
    process = program("""
        signal.signal(signal.SIGTERM, lambda *_: print("mine", flush=True))
        exit_on_sigterm()
        os.kill(os.getpid(), signal.SIGTERM)
    """)
    assert process.communicate(timeout=20)[0] == "mine\n"


APPLICATION = """
import os
from rlock_client import Locks, exit_on_sigterm
exit_on_sigterm()
locks, held = Locks(os.environ["RLOCK_URL"]), []
def application(environ, start_response):
    held.append(locks.lock("k", lease=600).acquire())
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]
"""


@pytest.mark.parametrize("kind", ["sync", "gthread", "gevent"])
def test_gunicorn_releases_at_its_end(redis, tmp_path, kind):
    pytest.importorskip("gunicorn")
    with gunicorn(tmp_path, APPLICATION, "--worker-class", kind) as port:
        assert answer(port) == 200 and redis.exists("k")
    until("its worker has ended", lambda: redis.keys() == [])
