#!/usr/bin/env bash
# scripts/peers/redis-py.sh: redis-py's own lock tests, for threads and for asyncio, from its source package on PyPI, with the
# locks of rlock_client.redis_lock in place of its own. scripts/test-peers.sh calls it.
set -euo pipefail

version=8.1.0
work=$PEERS/redis-py-$version
bin=$work/venv/bin
[ -d "$work/redis-$version" ] || {
    mkdir -p "$work"
    python3 -m venv "$work/venv"
    "$bin/pip" install --quiet --disable-pip-version-check redis==$version packaging pytest pytest-asyncio
    "$bin/pip" download --quiet --disable-pip-version-check --no-deps --no-binary :all: --dest "$work" redis==$version
    tar -xzf "$work/redis-$version.tar.gz" -C "$work"
}
scripts/adapters.sh python >/dev/null
"$bin/pip" install --quiet --disable-pip-version-check --force-reinstall --no-deps "${CARGO_TARGET_DIR:-target}"/clients/wheel/*.whl

dir=$(mktemp -d) servers=""
# shellcheck disable=SC2086 # a list of processes
trap '[ -z "$servers" ] || kill $servers; wait; rm -rf "$dir"' EXIT
serve "$dir/single"

export PYTHONPATH=$PWD/scripts/peers PYTHONDONTWRITEBYTECODE=1
cd "$work/redis-$version"
"$bin/pytest" -p redis_py -p no:cacheprovider -q --redis-url "redis://127.0.0.1:$port/0" tests/test_lock.py tests/test_asyncio/test_lock.py
