"""An HTTP service as the storage."""

import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from http.server import ThreadingHTTPServer
from threading import Event, Thread

import pytest
from scenarios import *  # noqa: F403

# snippet: http
from http.server import BaseHTTPRequestHandler
from threading import Lock


class Orders(BaseHTTPRequestHandler):
    stored = {}  # path: (highest token, body); stands for the service's database
    one_at_a_time = Lock()

    def do_PUT(self):
        token = int(self.headers.get("Fencing-Token", -1))
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with self.one_at_a_time:
            status = self.put(token, body)
        self.send_response(status)
        self.end_headers()

    def put(self, token, body):
        if token < 0:
            return 428  # Precondition Required: a writer without a token would defeat the others
        if token < self.stored.get(self.path, (0, b""))[0]:
            return 412  # Precondition Failed: a newer holder has written
        self.stored[self.path] = token, body
        return 204
    # end


def ask(place, value, headers):
    request = urllib.request.Request(place, data=value.encode(), method="PUT", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def write(place, token, value):
    status = ask(place, value, {"Fencing-Token": str(token)})
    assert status in (204, 412), status
    return status == 204


def read(place):
    return Orders.stored["/orders/42"][1].decode()


@pytest.fixture
def place():
    Orders.stored.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Orders) as server:
        Thread(target=server.serve_forever, args=[0.01]).start()
        yield f"http://127.0.0.1:{server.server_port}/orders/42"
        server.shutdown()


def test_a_write_without_a_token_is_refused(place):
    assert ask(place, "without", {}) == 428
    assert not Orders.stored


def test_nothing_comes_between_the_comparison_and_the_write(place, monkeypatch):
    compared, came = Event(), Event()

    class Stored(dict):
        def get(self, *words):
            found = super().get(*words)
            if not compared.is_set():
                compared.set()
                assert came.wait(20)
            return found

        def __setitem__(self, *words):
            super().__setitem__(*words)
            came.set()

    class Mutex:
        one_at_a_time = Orders.one_at_a_time

        def __enter__(self):
            if compared.is_set():
                came.set()
            self.one_at_a_time.acquire()

        def __exit__(self, *_):
            self.one_at_a_time.release()

    monkeypatch.setattr(Orders, "stored", Stored())
    monkeypatch.setattr(Orders, "one_at_a_time", Mutex())
    with ThreadPoolExecutor(1) as late:
        late.submit(write, place, 1, "late")
        assert compared.wait(20)
        assert write(place, 2, "newer")
    assert read(place) == "newer"
