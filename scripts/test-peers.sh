#!/usr/bin/env bash
# scripts/test-peers.sh [NAME...]: runs other projects' own lock tests on rlock, each by a script of scripts/peers.
#
# The suites are fetched when this runs and are never committed. A script takes the directory that `peer` prints: a clone of
# the project at one tag, or RLOCK_PEERS/NAME on a machine that cannot clone. docs/peers.md says what passes and why the
# rest does not.
#
# RLOCK_SERVER: the server's binary, if not redis-server. RLOCK_MODULE: the module's file, if not the release build.
set -euo pipefail
cd "$(dirname "$0")/.."

known=$(cd scripts/peers && echo *.sh) && known=${known//.sh/}
for name in "$@"; do
    [[ " $known " == *" $name "* ]] || { echo "test-peers: no suite $name; there are: $known" >&2 && exit 2; }
done

RLOCK_MODULE=$(realpath "${RLOCK_MODULE:-${CARGO_TARGET_DIR:-target}/release/librlock.so}")
RLOCK_SERVER=$(command -v "${RLOCK_SERVER:-redis-server}")
PEERS=$(realpath -m "${CARGO_TARGET_DIR:-target}/peers")
export RLOCK_MODULE RLOCK_SERVER PEERS
[ -f "$RLOCK_MODULE" ] || { echo "test-peers: no module at $RLOCK_MODULE; type: make build" >&2 && exit 1; }
mkdir -p "$PEERS"

# peer NAME ADDRESS TAG: prints the directory with that project's sources.
peer() {
    if [ -d "${RLOCK_PEERS:-}/$1" ]; then
        echo "$RLOCK_PEERS/$1"
    else
        [ -d "$PEERS/$1-$3" ] || git clone --quiet --depth 1 --branch "$3" "$2" "$PEERS/$1-$3" >&2
        echo "$PEERS/$1-$3"
    fi
}

# serve DIR [OPTION...]: starts a server in DIR. Adds its process to $servers, and sets $port.
serve() {
    local process
    mkdir "$1"
    for _ in {1..20}; do
        port=$((10000 + RANDOM % 12000))
        "$RLOCK_SERVER" --bind 127.0.0.1 --port $port --dir "$1" --save "" --loadmodule "$RLOCK_MODULE" "${@:2}" >"$1/log" 2>&1 &
        process=$!
        while kill -0 "$process" 2>/dev/null; do
            ! grep -q "Ready to accept" "$1/log" || { servers+=" $process" && return; }
            sleep 0.05
        done
    done
    cat "$1/log" >&2
    return 1
}
export -f peer serve

failed=0
# shellcheck disable=SC2086 # a list of words
for name in ${*:-$known}; do
    echo "== $name"
    bash "scripts/peers/$name.sh" || failed=1
done
exit "$failed"
