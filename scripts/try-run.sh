#!/usr/bin/env bash
# scripts/try-run.sh: starts `make run` as a newcomer does, takes a lock with the commands that it shows, and ends it.
set -euo pipefail
cd "$(dirname "$0")/.."

output=$(mktemp)
# In its own process group, so that make and everything it started can be ended together.
set -m
make run >"$output" 2>&1 &
run=$!
set +m
# As Ctrl-C at a terminal does it.
stop() {
    [ -n "$run" ] || return 0
    kill -INT -- "-$run" 2>/dev/null || true
    wait "$run" 2>/dev/null || true
    run=""
}
trap 'trap "" INT TERM; stop; rm -f "$output"' EXIT
trap 'exit 130' INT TERM HUP

wrong() {
    cat "$output"
    echo "try-run: $1" >&2
    exit 1
}

until grep -q "^A server with rlock listens on " "$output"; do
    kill -0 "$run" 2>/dev/null || wrong "make run ended before a server listened"
    sleep 0.1
done
port=$(sed -n 's/^A server with rlock listens on 127.0.0.1:\([0-9]*\).*/\1/p' "$output")

# What the page shows: granted, taken, released.
answer() { redis-cli -p "$port" "$@"; }
[ "$(answer RLOCK.ACQUIRE orders:42 me 30000)" = "" ] || wrong "the first one does not get the lock"
left=$(answer RLOCK.ACQUIRE orders:42 you 30000)
((left > 0 && left <= 30000)) || wrong "the second one is told: $left"
[ "$(answer RLOCK.RELEASE orders:42 me)" = 1 ] || wrong "the lock is not released"

stop
! answer PING >/dev/null 2>&1 || wrong "the server is still there after make run has ended"
echo "try-run: a lock was taken, refused to a second one, and released"
