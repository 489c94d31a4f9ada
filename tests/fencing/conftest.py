"""The server with the locks, by RLOCK_URL, and a holder in a process of its own."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from redis import Redis

from rlock_client import Locks

URL = os.environ["RLOCK_URL"]
LOCK = "invoice:42"


class Holder:
    """Another process, which holds the lock for a second at a time and writes what it is asked to."""

    def __init__(self, storage, place):
        command = [sys.executable, str(Path(__file__).with_name("holder.py")), storage.__name__, place, LOCK]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.token = int(self.process.stdout.readline())

    def write(self, value):
        print(value, file=self.process.stdin, flush=True)
        return {"accepted\n": True, "refused\n": False}[self.process.stdout.readline()]

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def locks():
    with Redis.from_url(URL) as redis:
        redis.config_set("rlock.tokens", "clock")  # the default: numbers near the end of what Lua can tell apart
        redis.delete(LOCK)
    with Locks(URL) as locks:
        yield locks


@pytest.fixture
def storage(request):
    """The test's own module: `write(place, token, value)` returns whether it was accepted, `read(place)` the value."""
    return request.module
