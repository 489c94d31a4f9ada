"""The server for tests, as docs/testing.md shows it."""

import subprocess
import sys

import pytest

from rlock_client import Busy, Locks, NoRight, testing

pytest_plugins = ["rlock_client.testing"]


def ship(locks):
    with locks.lock("orders:42", wait=0):
        pass


# snippet: python
def test_one_ships_at_a_time(rlock_url):
    with Locks(rlock_url) as locks:
        with locks.lock("orders:42"):  # another one ships it
            with pytest.raises(Busy):
                ship(locks)
        ship(locks)


# end


def test_each_test_has_a_server_of_its_own(rlock_url):
    with testing.serve("--password", "secret") as other:
        assert other != rlock_url
        with pytest.raises(NoRight), Locks(other) as locks:
            ship(locks)
        with Locks(other.replace("//", "//:secret@")) as locks:
            ship(locks)


def test_what_is_missing_is_named(monkeypatch):
    monkeypatch.delenv("RLOCK_BIN", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(FileNotFoundError, match="install the command .* or set RLOCK_BIN"), testing.serve():
        pass


def test_a_server_that_does_not_start_says_why():
    with pytest.raises(RuntimeError, match="there is no setting no-such"), testing.serve("--set", "no-such=1"):
        pass


def test_it_needs_no_pytest():
    without = "import sys; sys.modules['pytest'] = None; from rlock_client import testing; print(testing.serve)"
    subprocess.run([sys.executable, "-c", without], check=True, stdout=subprocess.DEVNULL)
