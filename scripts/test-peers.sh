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
export -f peer

failed=0
# shellcheck disable=SC2086 # a list of words
for name in ${*:-$known}; do
    echo "== $name"
    bash "scripts/peers/$name.sh" || failed=1
done
exit "$failed"
