"""The examples: what their callers get."""

import importlib.util
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import URL, until

testing = pytest.importorskip("fastapi.testclient")


@contextmanager
def running(name, monkeypatch):
    monkeypatch.setenv("RLOCK_URL", URL)
    path = Path(__file__).parents[1] / "examples" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with testing.TestClient(module.app) as client:
        yield client


@pytest.fixture
def service(monkeypatch):
    with running("service", monkeypatch) as client:
        yield client


def test_orders_are_shipped_one_at_a_time(redis, service):
    with ThreadPoolExecutor(8) as callers:
        answers = list(callers.map(lambda _: service.post("/orders/42/ship"), range(8)))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.json()["shipped"] for answer in answers}) == 8


def test_an_order_that_another_process_ships(redis, service, locks):
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


def test_a_repeated_request_gets_the_first_answer(redis, monkeypatch):
    key = {"Idempotency-Key": "a-key-of-16-letters"}
    with running("idempotent", monkeypatch) as here, running("idempotent", monkeypatch) as there:
        with ThreadPoolExecutor(8) as callers:
            pay = [callers.submit(host.post, "/payments", json={"amount": 5}, headers=key) for host in [here, there] * 4]
            answers = [answer.result() for answer in pay]
        assert {(answer.status_code, answer.text) for answer in answers} == {(201, '{"payment":1}')}
        assert here.post("/payments", json={"amount": 6}, headers=key).status_code == 422
        assert here.post("/payments", json={"amount": 5}, headers={"Idempotency-Key": "short"}).status_code == 422
        other = {"Idempotency-Key": "another-key-of-16"}
        with pytest.raises(ValueError):
            there.post("/payments", content="no json", headers=other)
        assert there.post("/payments", content="[]", headers=other).status_code == 201
