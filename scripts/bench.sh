#!/usr/bin/env bash
# scripts/bench.sh whole|quick [PART...]: builds what measures, and measures these parts or all.
#
# RLOCK_SERVER: the server's binary, if not redis-server. RLOCK_MODULE: the module's file, if not the release build.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
mode=${1:-}
case $mode in
whole) results=docs/bench ;;
quick) results=$target/bench ;;
*) echo "usage: scripts/bench.sh whole|quick [PART...]" >&2 && exit 2 ;;
esac
export RLOCK_MODULE=${RLOCK_MODULE:-$target/release/librlock.so}

# Without valgrind only the clock measures.
scripts/setup.sh bench || true
echo "bench: 1 of 2: builds what measures"
cargo build --release --package rlock-bench

# Ten thousand clients need as many files.
ulimit -S -n "$(ulimit -H -n)"
echo "bench: 2 of 2: measures ($mode) on ${RLOCK_SERVER:-redis-server}; the results go to $results"
# In its own process group, so that the end of this script ends all servers, and none of their files are left.
TMPDIR=$(mktemp -d)
export TMPDIR
setsid "$target/release/rlock-bench" "$mode" "$results" "${@:2}" &
trap 'kill -KILL -- "-$!" 2>/dev/null || true; wait; rm -rf "$TMPDIR"' EXIT
trap 'echo "bench: interrupted: nothing is written" >&2; exit 130' INT TERM HUP
wait "$!"
