"""A server of locks for tests: `rlock dev`, the engine of the rlock module on locks in memory. It starts in some milliseconds.

With pytest, put `pytest_plugins = ["rlock_client.testing"]` into conftest.py: each test that asks for `rlock_url` has a server of
its own. Without pytest, use `with serve() as url`.
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator

__all__ = ["serve"]

MISSING = (
    "there is no rlock on PATH: install the command (cargo install --path cli, in a checkout of rlock), "
    "or set RLOCK_BIN to it"
)


@contextlib.contextmanager
def serve(*options: str) -> Iterator[str]:
    """The address of a server that ends with the block. Options are those of `rlock dev`: `"--set", "max-waiters=10"`.

    The program is the one that RLOCK_BIN names, or the rlock on PATH.
    """
    program = os.environ.get("RLOCK_BIN") or shutil.which("rlock")
    if program is None:
        raise FileNotFoundError(MISSING)
    pipe = subprocess.PIPE
    # The server ends when its input ends, so also when this process does.
    command = [program, "dev", "--port", "0", "--until-eof", *options]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as server:
        address = server.stdout.readline().strip()
        if not address:
            raise RuntimeError(f"{program} dev does not start: {server.communicate()[1].strip()}")
        try:
            yield address
        finally:
            server.communicate()


try:
    import pytest
except ImportError:
    pass
else:

    @pytest.fixture
    def rlock_url() -> Iterator[str]:
        """The address of a server of locks that only this test has."""
        with serve() as address:
            yield address
