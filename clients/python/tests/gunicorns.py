"""A real gunicorn."""

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys


@contextlib.contextmanager
def gunicorn(folder, application, *options):
    """The port of a gunicorn with one worker process, which is terminated at the end."""
    (folder / "served.py").write_text(application)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        command = [sys.executable, "-m", "gunicorn", "--chdir", folder, "served:application", *options]
        command += ["--bind", f"fd://{listener.fileno()}", "--no-control-socket"]
        server = subprocess.Popen(
            command, pass_fds=[listener.fileno()], stderr=subprocess.DEVNULL, start_new_session=True
        )
        try:
            yield listener.getsockname()[1]
            server.terminate()
            server.wait(20)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGKILL)  # also a worker that does not react
            server.wait()


def answer(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", "/")
    return connection.getresponse().status
