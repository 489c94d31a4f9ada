"""The package as it is installed: its types, what it brings along, and that nothing else is needed."""

import subprocess
import sys
import tarfile
from importlib.metadata import files, metadata
from pathlib import Path

import pytest
from conftest import ran

import rlock_client


def test_types():
    pytest.importorskip("mypy")
    program = Path(__file__).parent / "typed.py"
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--python-version", "3.13", "--cache-dir", "/dev/null", program],
        check=False,
        capture_output=True,
        text=True,
        cwd=program.parent,
    )
    assert checked.returncode == 0, checked.stdout


def test_the_native_part_is_as_its_types_say():
    from rlock_client import _native

    stub = (Path(rlock_client.__file__).parent / "_native.pyi").read_text()
    for name, kind in vars(_native).items():
        if isinstance(kind, type):
            assert f"class {name}:" in stub
            for member in vars(kind):
                assert member.startswith("__") or f"def {member}(" in stub


def test_what_is_installed():
    names = {str(file) for file in files("rlock-client")}
    assert {"rlock_client/py.typed", "rlock_client/_native.pyi"} <= names
    assert [name for name in names if "test" in name and name.endswith(".py")] == ["rlock_client/testing.py"]
    assert any(name.endswith("licenses/LICENSE") for name in names)
    systems = [it for it in metadata("rlock-client").get_all("Classifier") if it.startswith("Operating System")]
    assert systems == ["Operating System :: POSIX :: Linux"], "no other one is built"
    assert metadata("rlock-client").get_all("Requires-Dist") is None or all(
        "extra ==" in needed for needed in metadata("rlock-client").get_all("Requires-Dist")
    )


def test_the_source_package(tmp_path):
    """It has what cargo needs, and nothing of the rest of the workspace."""
    maturin = pytest.importorskip("maturin")
    project = Path(__file__).parents[1] / "Cargo.toml"
    subprocess.run([sys.executable, "-m", maturin.__name__, "sdist", "-m", project, "-o", tmp_path], check=True)
    with tarfile.open(next(tmp_path.iterdir())) as package:
        package.extractall(tmp_path, filter="data")
    root = next(it for it in tmp_path.iterdir() if it.is_dir())
    assert (root / "README.md").read_text().startswith("# rlock-client for Python")
    assert {it.name for it in root.iterdir() if it.is_file()} == {
        "Cargo.lock", "Cargo.toml", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml"
    }  # fmt: skip
    assert not [it for it in root.rglob("*") if it.suffix in (".sh", ".java", ".go", ".mjs", ".patch")]
    checkout = Path(__file__).parents[3]
    for crate in ("core", "client-core", "client", "clients/bindings", "clients/python"):
        sources = {it.relative_to(checkout) for it in (checkout / crate / "src").rglob("*.rs")}
        assert sources and not [it for it in sources if not (root / it).exists()]
    # Cargo finds every file that it reads.
    command = ["cargo", "metadata", "--no-deps", "--format-version", "1"]
    subprocess.run(command, cwd=root, check=True, stdout=subprocess.DEVNULL)


def test_it_needs_no_other_package():
    ran("""
        import subprocess
        program = "import rlock_client, rlock_client.aio; rlock_client.Locks('redis://127.0.0.1:1')"
        subprocess.run([sys.executable, "-W", "error", "-c", "import sys; sys.modules['redis'] = None; " + program], check=True)
    """)


def test_a_second_of_nothing_costs_nothing(redis):
    """An idle client does not spin."""
    output, _ = ran("""
        import resource
        locks = Locks(URL)
        held = locks.lock("k").acquire()
        held.on_lost(print)
        wait = threading.Thread(target=lambda: locks.lock("k").acquire().release())
        wait.start()
        until(lambda: waiting() == 1)
        before = resource.getrusage(resource.RUSAGE_SELF)
        time.sleep(1)
        after = resource.getrusage(resource.RUSAGE_SELF)
        print(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        held.release()
        wait.join()
    """)
    assert float(output) < 0.2
