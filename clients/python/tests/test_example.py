"""The example: one at a time, and what its callers are told."""

import importlib.util
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import URL, until

testing = pytest.importorskip("fastapi.testclient")


@pytest.fixture
def service(monkeypatch):
    monkeypatch.setenv("RLOCK_URL", URL)
    path = Path(__file__).parents[1] / "examples" / "service.py"
    spec = importlib.util.spec_from_file_location("service", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with testing.TestClient(module.app) as client:
        yield client


def test_orders_are_shipped_one_at_a_time(redis, service):
    with ThreadPoolExecutor(8) as callers:
        answers = list(callers.map(lambda _: service.post("/orders/42/ship"), range(8)))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.json()["shipped"] for answer in answers}) == 8


def test_an_order_that_somebody_else_ships(redis, service, locks):
    with locks.lock("order:42:lock"):
        assert service.post("/orders/42/ship").status_code == 409


def test_a_loss_while_it_is_shipped(redis, service, locks, monkeypatch):
    with ThreadPoolExecutor(1) as caller:
        with locks.lock("order:42:lock") as held:
            answer = caller.submit(service.post, "/orders/42/ship")
            until("it waits", lambda: redis.info("rlock")["rlock_waiters"] == 1)
            held.release()
        until("it is shipped", lambda: redis.exists("order:42:lock"))
        redis.delete("order:42:lock")
        assert answer.result().status_code == 503
