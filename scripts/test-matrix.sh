#!/usr/bin/env bash
# scripts/test-matrix.sh [NAME...]: the server tests on each server that the module promises to run on, or on those named.
#
# One binary has to do for all of them, so it is built once, on the oldest, and only loaded by the others. A server that
# fails does not keep the next from its turn: whether one version fails or all do is what one wants to know.
#
# The table in docs/servers.md is what a run of the whole matrix writes, and only one in which all have passed: so that
# nobody has to believe a table that somebody typed.
set -euo pipefail
cd "$(dirname "$0")/.."

. scripts/servers.sh

target=${CARGO_TARGET_DIR:-target}
module=${RLOCK_MODULE:-$target/release/librlock.so}
[ -f "$module" ] || { echo "test-matrix: $module is not there; type: make build" >&2 && exit 1; }
module=$(realpath "$module")

check_names "$@"

system_suite=$(. /etc/os-release 2>/dev/null && echo "${VERSION_CODENAME:-}")
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# By the features of `make test`, so that nothing is compiled again after it.
run_tests() {
    # What was built and fetched goes to disk first: a replica that stores a snapshot would wait for that too.
    sync
    RLOCK_SERVER=$server RLOCK_MODULE=$module cargo test --workspace --all-features --test server --test storms --test wire 2>&1 | tee "$log"
}

# What comes after the table stays.
write_document() {
    local rest
    rest=$(sed -n '/^## /,$p' docs/servers.md)
    cat >docs/servers.md <<END
# The servers it was tested on

The table is written by \`make test-matrix\` when all have passed; not by hand. One binary of rlock $(cargo pkgid | sed 's/.*[#@]//')
ran [tests/server](../tests/server), [tests/storms](../tests/storms) and [tests/wire](../tests/wire) on each.

| server | version | from Debian | tests passed |
|---|---|---|---|
$rows

$rest
END
}

table="" rows="" failed=0
while read -r name suite kind <&3; do
    [ -n "$name" ] || continue
    [ $# = 0 ] || [[ " $* " == *" $name "* ]] || continue

    version=- result="FAIL (not there)"
    server=$(find_server "$name" "$suite" "$kind") || server=""
    if [ -n "$server" ]; then
        version=$(version_of "$server")
        echo "== $name: $version"
        result=FAIL
        ! run_tests || result=pass
    fi
    # Each test binary has a line of its own.
    passed=$(sed -n 's/^test result: .* \([0-9]*\) passed.*/\1/p' "$log" | awk '{ all += $1 } END { print all + 0 }')
    [ "$result" = pass ] || failed=1
    table+=$(printf '%-12s %-8s %s' "$name" "$version" "$result")$'\n'
    rows+="${rows:+$'\n'}| ${kind^} | $version | ${suite/#-/$system_suite} | $passed |"
done 3<<<"$all_servers"

printf '\n%s' "$table"
[ $# != 0 ] || [ "$failed" != 0 ] || write_document
exit "$failed"
