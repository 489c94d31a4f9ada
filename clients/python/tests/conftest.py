"""The server under test, and what the tests look at. They find it by RLOCK_URL, and a cluster by RLOCK_CLUSTER_URL."""

import asyncio
import os
import subprocess
import sys
import textwrap
import time

import pytest
from redis import Redis

import rlock_client
from rlock_client import aio

URL = os.environ["RLOCK_URL"]
PATIENCE = 20


@pytest.fixture
def redis():
    with Redis.from_url(URL, decode_responses=True) as client:
        client.flushall()
        yield client


@pytest.fixture
def locks(redis):
    with rlock_client.Locks(URL) as locks:
        yield locks


def until(what, condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.005)


async def until_async(what, condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        await asyncio.sleep(0.005)


def waiting(redis):
    return redis.info("rlock")["rlock_waiters"]


def in_asyncio(test):
    """Runs a test with a client for asyncio, within the time limit of all tests."""

    async def limited():
        async with aio.Locks(URL) as locks:
            await asyncio.wait_for(test(locks), PATIENCE)

    asyncio.run(limited())


HEADER = """
import asyncio, os, signal, sys, threading, time
from rlock_client import *
from rlock_client import aio
from redis import Redis
signal.signal(signal.SIGINT, signal.default_int_handler)  # what a shell runs in the background ignores it
signal.alarm(60)  # whatever becomes of the test that waits for its output
URL = os.environ["RLOCK_URL"]
def until(condition):
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)
def waiting():
    return Redis.from_url(URL).info("rlock")["rlock_waiters"]
def forked(child):
    pid = os.fork()
    if pid == 0:
        try:
            child()
            os._exit(0)
        except BaseException as error:
            print(repr(error), flush=True)
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
"""


def program(text, first=""):
    """Another process with readable output. `first` runs before anything is imported."""
    text = textwrap.dedent(first) + HEADER + textwrap.dedent(text)
    return subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ran(text, code=0, first=""):
    """Runs a program to its end, and returns what it has written."""
    process = program(text, first)
    try:
        output, errors = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    assert process.returncode == code, errors
    return output, errors
