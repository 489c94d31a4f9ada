"""What docs/tutorial.md shows, step by step."""

import importlib.util
import itertools
import pathlib
import signal
import subprocess
import sys

import pytest
from conftest import PATIENCE, URL, until, waiting
from redis import Redis

from rlock_client import Busy, Locks, Lost

pytest_plugins = ["rlock_client.testing"]

BILLING = pathlib.Path(__file__).parents[1] / "examples" / "billing.py"
spec = importlib.util.spec_from_file_location("billing", BILLING)
billing = importlib.util.module_from_spec(spec)
spec.loader.exec_module(billing)


# snippet: test
def test_one_process_bills_a_customer(rlock_url, monkeypatch):
    sent = []
    monkeypatch.setattr(billing, "send", lambda customer, invoice: sent.append(invoice))
    with Locks(rlock_url) as locks:
        with locks.lock("billing:ann"):  # another process bills ann
            with pytest.raises(Busy):
                billing.bill(locks, "ann", [1, 2], wait=0)
        billing.bill(locks, "ann", [1, 2])
    assert sent == [1, 2]


# end


# snippet: loss
def test_a_lost_lock_stops_the_work(rlock_url, monkeypatch):
    def send(customer, invoice):
        Redis.from_url(rlock_url).execute_command("RLOCK.BREAK", "billing:ann")

    monkeypatch.setattr(billing, "send", send)
    with Locks(rlock_url, lease=3) as locks, pytest.raises(Lost):
        billing.bill(locks, "ann", itertools.count())


# end


def start(customer):
    return subprocess.Popen([sys.executable, BILLING, URL, customer], stdout=subprocess.PIPE, text=True)


def test_a_deploy_hands_the_lock_over(redis):
    old, new = start("ann"), None
    try:
        assert old.stdout.readline() == "ann: invoice 1\n"
        new = start("ann")
        until("the new process waits", lambda: waiting(redis))
        old.send_signal(signal.SIGTERM)
        assert new.stdout.readline() == "ann: invoice 1\n"
        new.send_signal(signal.SIGTERM)
        assert [process.wait(PATIENCE) for process in (old, new)] == [0, 0]
        assert redis.keys() == []
    finally:
        old.kill()
        if new:
            new.kill()
