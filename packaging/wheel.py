"""packaging/wheel.py STAGE WHEEL: writes the wheel of rlock-server. packaging/wheel.sh calls it.

The same stage gives the same bytes: the times in it are SOURCE_DATE_EPOCH's.
"""

import base64
import hashlib
import os
import sys
import time
import zipfile
from pathlib import Path

PACKAGE = '''"""The module rlock for Redis and Valkey: this package brings its file, and the command rlock."""

from pathlib import Path


def module_path() -> str:
    """What a server's loadmodule needs."""
    return str(Path(__file__).with_name("librlock.so"))


def main() -> None:
    print(module_path())
'''

METADATA = """Metadata-Version: 2.4
Name: rlock-server
Version: {version}
Summary: Distributed locks inside Redis and Valkey: the module for the server, and the command rlock
Author: the rlock authors
License-Expression: MIT
License-File: LICENSE
License-File: THIRD-PARTY
Requires-Python: >=3.10
Classifier: Development Status :: 4 - Beta
Classifier: Operating System :: POSIX :: Linux
Classifier: Topic :: Database
Description-Content-Type: text/markdown

The module rlock for Redis 7.0 and newer and Valkey 8.0 and newer, and the command `rlock`:

    redis-server --loadmodule "$(rlock-module-path)"
    rlock run orders:42 -- echo locked

The client for Python is another package, rlock-client.
"""

# The tag is what its name ends with.
WHEEL = """Wheel-Version: 1.0
Generator: rlock
Root-Is-Purelib: false
Tag: {tag}
"""

SCRIPTS = """[console_scripts]
rlock-module-path = rlock_server:main
"""


def main(stage: Path, wheel: Path) -> None:
    name, version, tag = wheel.stem.split("-", 2)
    about = f"{name}-{version}.dist-info"
    files: dict[str, tuple[bytes, int]] = {
        f"{name}/__init__.py": (PACKAGE.encode(), 0o644),
        # Executable: servers refuse to load what is not, and pip keeps it so.
        f"{name}/librlock.so": ((stage / "librlock.so").read_bytes(), 0o755),
        f"{name}-{version}.data/scripts/rlock": ((stage / "rlock").read_bytes(), 0o755),
        f"{about}/METADATA": (METADATA.format(version=version).encode(), 0o644),
        f"{about}/WHEEL": (WHEEL.format(tag=tag).encode(), 0o644),
        f"{about}/entry_points.txt": (SCRIPTS.encode(), 0o644),
    }
    for text in ("LICENSE", "THIRD-PARTY"):
        files[f"{about}/licenses/{text}"] = ((stage / text).read_bytes(), 0o644)

    record = f"{about}/RECORD"
    lines = [f"{path},sha256={checksum(content)},{len(content)}\n" for path, (content, _) in files.items()]
    files[record] = ("".join([*lines, f"{record},,\n"]).encode(), 0o644)

    then = time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6]
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, (content, mode) in files.items():
            entry = zipfile.ZipInfo(path, then)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100000 | mode) << 16
            archive.writestr(entry, content)


def checksum(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


main(Path(sys.argv[1]), Path(sys.argv[2]))
