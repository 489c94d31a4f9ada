#!/usr/bin/env bash
# scripts/test-clients.sh [--dev | --fencing] [python] [node] [go] [java]: the tests of these clients, or of all, against real servers; and
# the suite that every client has to pass (clients/conformance), with servers of its own.
#
# The languages are tested at the same time, each on its own server and all on one cluster of three masters. The tests
# find them by RLOCK_URL and RLOCK_CLUSTER_URL, and all servers end with this script, however it ends. What is fetched
# or built for a client stays in target/clients, so that the sources stay clean. Java has only the suite here: java/ has
# tests of its own.
#
# --dev: only the suite, on `rlock dev` instead of servers with the module.
# --fencing: only the storages of docs/fencing.md, with the Python client.
#
# RLOCK_SERVER: the server's binary, if not redis-server. RLOCK_MODULE: the module's file, if not the release build.
set -euo pipefail
cd "$(dirname "$0")/.."

known="python node go java" dev="" fencing=""
case ${1-} in
--dev) dev=yes && shift ;;
--fencing) fencing=yes && set -- python ;;
esac
clients=${*:-$known}
for client in $clients; do
    [[ " $known " == *" $client "* ]] ||
        { echo "test-clients: there are no tests for $client, but for $known" >&2 && exit 2; }
done

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
work=$target/clients
module=${RLOCK_MODULE:-$target/release/librlock.so}
[ -f "$module" ] || { echo "test-clients: $module is not there; type: make build" >&2 && exit 1; }
module=$(realpath "$module")
server=${RLOCK_SERVER:-redis-server}

# What the helpers for users' own tests start.
[ "$fencing" ] || cargo build --quiet -p rlock-cli
export RLOCK_BIN=$target/debug/rlock

# Storages that need nothing else are tested with the client.
python_tests() {
    if [ "$fencing" ]; then
        "$work/python/bin/pip" install --quiet --disable-pip-version-check -r tests/fencing/requirements.txt
        pytest tests/fencing
    else
        pytest clients/python/tests
        pytest tests/fencing/test_redis.py tests/fencing/test_http.py
    fi
}
pytest() { PYTHONDONTWRITEBYTECODE=1 "$work/python/bin/pytest" -p no:cacheprovider -q "$@"; }

# In a copy, since Node looks for packages next to the program.
node_tests() {
    cd "$work/node"
    node --test --test-concurrency=1 --test-reporter=spec --test-timeout=120000 test/*.test.mjs
}

go_tests() {
    (cd clients/go && go vet ./... && go test -race -count=1 -timeout 5m ./...)
    (cd clients/go/rlockotel && go vet ./... && go test -count=1 -timeout 5m ./...)
}

# The suite for all clients, together with Rust's, so that all wait in one queue.
all_tests() {
    RLOCK_DEV=${dev:+$RLOCK_BIN} RLOCK_ADAPTERS="$adapters"$'\n'"rust=$target/debug/rust-adapter" RLOCK_MODULE=$module RLOCK_SERVER=$server \
        cargo tests --test conformance
}

# Servers and tests have their own process groups, so that everything they started ends with them.
set -m
dir=$(mktemp -d)
servers="" tests=""
clean_up() {
    trap '' INT TERM HUP
    for group in $tests $servers; do kill -- "-${group#*=}" 2>/dev/null || true; done
    wait 2>/dev/null
    rm -rf "$dir"
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP

# Sets $port to the port of a new server. If another program takes the port first, the server ends, and another port is
# tried.
start_server() {
    local try answer pid
    for try in {1..20}; do
        port=$((10000 + RANDOM % 12000))
        mkdir "$dir/$port"
        "$server" --bind 127.0.0.1 --port "$port" --dir "$dir/$port" --save "" --loadmodule "$module" "$@" \
            >"$dir/$port/log" 2>&1 </dev/null &
        pid=$!
        servers+=" $pid"
        while kill -0 "$pid" 2>/dev/null; do
            answer=$(redis-cli -p "$port" info server 2>/dev/null) || true
            [[ $answer != *process_id:$pid$'\r'* ]] || return 0
            sleep 0.05
        done
        servers=${servers% *}
        grep -q -i "already in use\|failed listening" "$dir/$port/log" || break
    done
    cat "$dir/$port/log" >&2
    echo "test-clients: the server does not start" >&2
    exit 1
}

start_cluster() {
    local nodes=()
    for _ in 1 2 3; do
        start_server --cluster-enabled yes
        nodes+=("127.0.0.1:$port")
    done
    redis-cli --cluster create "${nodes[@]}" --cluster-yes >"$dir/cluster" 2>&1 || { cat "$dir/cluster" >&2 && exit 1; }
}

# shellcheck disable=SC2086 # a list of words
adapters=$(scripts/adapters.sh $clients)

if [ -z "$dev" ]; then
    start_cluster
    export RLOCK_CLUSTER_URL=redis://127.0.0.1:$port
fi

table="" failed=0
# result NAME PROCESS: waits for it, and notes what came of it.
result() {
    local result=pass
    wait "$2" || result=FAIL failed=1
    table+=$(printf '%-7s %s' "$1" "$result")$'\n'
}

for client in $clients; do
    [ "$client" != java ] && [ -z "$dev" ] || continue
    start_server
    (set +m; RLOCK_URL=redis://127.0.0.1:$port "${client}_tests") >"$dir/$client" 2>&1 </dev/null &
    tests+=" $client=$!"
done
for test in $tests; do
    client=${test%=*}
    result "$client" "${test#*=}"
    echo "== $client" && cat "$dir/$client"
done
tests=""
if [ -z "$fencing" ]; then
    echo "== all"
    (set +m; all_tests) </dev/null &
    tests=all=$!
    result all "${tests#*=}"
    tests=""
fi
printf '\n%s' "$table"
exit "$failed"
