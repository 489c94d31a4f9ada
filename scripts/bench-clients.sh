#!/usr/bin/env bash
# scripts/bench-clients.sh [python] [node] [go]: what a lock costs with these clients, or with all, beside what is used in
# their languages today: alone, and with 1,000 tasks that wait for 50 locks. A minute each; prints tables.
#
# RLOCK_SERVER: the server's binary, if not redis-server. RLOCK_MODULE: the module's file, if not the release build.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
module=$(realpath "${RLOCK_MODULE:-$target/release/librlock.so}")
clients=${*:-python node go}
# shellcheck disable=SC2086 # a list of words
scripts/adapters.sh $clients >/dev/null

dir=$(mktemp -d)
port=$((10000 + RANDOM % 12000))
"${RLOCK_SERVER:-redis-server}" --bind 127.0.0.1 --port "$port" --dir "$dir" --save "" --loadmodule "$module" \
    >"$dir/log" 2>&1 </dev/null &
server=$!
trap 'kill "$server" 2>/dev/null; wait "$server" 2>/dev/null; rm -rf "$dir"' EXIT
trap 'exit 130' INT TERM HUP
until redis-cli -p "$port" ping >/dev/null 2>&1; do
    kill -0 "$server" 2>/dev/null || { cat "$dir/log" >&2 && exit 1; }
    sleep 0.05
done
export RLOCK_URL=redis://127.0.0.1:$port

for client in $clients; do
    printf '\n## %s\n\n' "$client"
    case $client in
    python) "$target/clients/python/bin/python" clients/python/bench.py ;;
    node) (cd "$target/clients/node" && node bench.mjs) ;;
    go) (cd clients/go/bench && go run .) ;;
    esac
done
