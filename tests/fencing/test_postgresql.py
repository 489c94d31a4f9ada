"""PostgreSQL as the storage: a server of the test's own, which only its socket reaches."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from glob import glob
from pathlib import Path

import psycopg
import pytest
from scenarios import *  # noqa: F403

# snippet: postgresql
# A row that exists:
UPDATE = "update invoices set status = %(status)s, token = %(token)s where id = %(id)s and token <= %(token)s"

# A row that may be new:
UPSERT = """
insert into invoices (id, status, token) values (%(id)s, %(status)s, %(token)s)
on conflict (id) do update set status = excluded.status, token = excluded.token
where invoices.token <= excluded.token
"""


def write(connection, statement, **values):
    return connection.execute(statement, values).rowcount == 1
# end


# snippet: transaction
FENCE = """
insert into fences (lock, token) values (%(lock)s, %(token)s)
on conflict (lock) do update set token = excluded.token where fences.token <= excluded.token
"""


class Stale(Exception):
    """A newer holder has written."""


def fence(connection, lock, token):
    if connection.execute(FENCE, {"lock": lock, "token": token}).rowcount == 0:
        raise Stale(f"{lock}: token {token} is old")
# end


change = write
TABLES = """
create table invoices (id bigint primary key, status text not null, token bigint not null);
create table fences (lock text primary key, token bigint not null);
"""
# What a place's name begins with.
FORMS = ["update", "upsert", "transaction"]


@contextmanager
def connected(directory):
    with psycopg.connect(host=directory, user="postgres") as connection:
        yield connection


def write(place, token, value):  # noqa: F811
    form, directory = place.split(" ")
    with connected(directory) as connection:
        if form != "transaction":
            return change(connection, {"update": UPDATE, "upsert": UPSERT}[form], id=42, status=value, token=token)
    try:
        with connected(directory) as connection:
            connection.execute("update invoices set status = 'undone'")
            fence(connection, "invoice:42", token)
            connection.execute("update invoices set status = %s", [value])
    except Stale:
        return False
    return True


def read(place):
    with connected(place.split(" ")[1]) as connection:
        return connection.execute("select status from invoices").fetchone()[0]


@pytest.fixture(scope="module")
def server():
    programs = Path(shutil.which("initdb") or sorted(glob("/usr/lib/postgresql/*/bin/initdb"))[-1]).resolve().parent
    other = {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.getuid() == 0 else {}
    # Not pytest's own directory, which is closed to other users; and short, as it has a socket.
    with tempfile.TemporaryDirectory() as directory:
        if other:
            shutil.chown(directory, "nobody", "nogroup")
        setup = [programs / "initdb", "--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--no-locale"]
        subprocess.run([*setup, f"{directory}/data"], check=True, stdout=subprocess.DEVNULL, cwd=directory, **other)
        command = [programs / "postgres", "-D", f"{directory}/data", "-k", directory, "-c", "listen_addresses="]
        with open(f"{directory}/log", "w") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=directory, **other)
        try:
            deadline = time.monotonic() + 60
            while True:
                try:
                    with connected(directory) as connection:
                        connection.execute(TABLES)
                    break
                except psycopg.OperationalError:
                    assert process.poll() is None and time.monotonic() < deadline, Path(f"{directory}/log").read_text()
                    time.sleep(0.02)
            yield directory
        finally:
            process.send_signal(signal.SIGINT)  # does not wait for clients
            process.wait(60)


@pytest.fixture(params=FORMS)
def place(request, server):
    with connected(server) as connection:
        connection.execute("truncate invoices, fences")
        if request.param != "upsert":
            connection.execute("insert into invoices values (42, 'new', 0)")
    return f"{request.param} {server}"


def test_a_late_write_waits_for_the_one_under_way_and_is_refused(place):
    server = place.split(" ")[1]
    with ThreadPoolExecutor(1) as late, connected(server) as newer:
        assert change(newer, UPSERT, id=42, status="newer", token=2)
        fence(newer, "invoice:42", 2)
        refused = late.submit(write, place, 1, "late")
        blocked = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"
        with connected(server) as observer:
            observer.autocommit = True
            deadline = time.monotonic() + 20
            while observer.execute(blocked).fetchone()[0] == 0:
                assert not refused.done() and time.monotonic() < deadline
                time.sleep(0.005)
        newer.commit()
        assert not refused.result(20)
    assert read(place) == "newer"


def test_a_refused_transaction_changes_nothing(server):
    with connected(server) as connection:
        connection.execute("truncate invoices, fences")
        fence(connection, "invoice:42", 2)
    with pytest.raises(Stale), connected(server) as connection:
        connection.execute("insert into invoices values (43, 'late', 1)")
        fence(connection, "invoice:42", 1)
    with connected(server) as connection:
        assert connection.execute("select count(*) from invoices").fetchone()[0] == 0


def test_above_read_committed_it_is_an_error(server):
    with connected(server) as connection:
        connection.execute("truncate invoices, fences")
        connection.execute("insert into invoices values (42, 'new', 0)")
    with connected(server) as late:
        late.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        late.execute("select 1 from invoices")
        with connected(server) as newer:
            assert change(newer, UPDATE, id=42, status="newer", token=2)
        with pytest.raises(psycopg.errors.SerializationFailure):
            change(late, UPDATE, id=42, status="late", token=1)
