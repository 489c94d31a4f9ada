#!/usr/bin/env bash
# scripts/test-matrix.sh [--sanitized] [NAME...]: the tests that need a server, on each server of scripts/servers.sh, or
# on those named.
#
# One binary has to work with all of them, so it is built once, on the oldest, and loaded by the others. A failure does
# not stop the run: it is important whether one version fails or all do.
#
# The table in docs/servers.md is written when all have passed, with the same module and the same tests, so it is never
# typed by hand. The passed servers are kept in target/matrix. Without names, only servers that have not passed yet run;
# a named server always runs.
#
# --sanitized: on the newest, or on those named, built with the address sanitizer. Memory errors are silent: a server
# that reads freed memory may reply correctly for years. This server ends when it does so, and a run fails on any report
# of the sanitizer, whatever the tests say. It watches everything that the server does, and all memory that it has for
# the module.
#
# TESTS: the arguments for cargo test, for example "--test server waiting". RLOCK_MODULE: the module's file, if not the
# release build.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/servers.sh

page=docs/servers.md variant=()
[ "${1:-}" != --sanitized ] || { shift && variant=(--sanitized) && set -- "${@:-newest}"; }
chosen=$(rows_of "$@")
find_module
read -ra tests <<<"${TESTS:---test server --test storms --test wire}"
[ -z "${TESTS:-}${variant[*]}" ] || page=""

# What passed is for this module and these tests only.
kept=$target/matrix
mkdir -p "$kept"
tested=$({ cat "$module" && find tests/{server,storms,wire} testing/src -name '*.rs' | sort | xargs cat; } | sha256sum)
has_passed() { [ "$(head -n 1 "$kept/$1" 2>/dev/null)" = "$tested" ]; }

# The module says in the log of a newer server up to which one it was tried.
for name in $newest_servers; do
    number=${name#*-} number=${number%%-*} constant=TRIED_${name%%-*}
    grep "${constant^^}: .* = (${number/./, });" src/server/ffi/this_server.rs >/dev/null ||
        { echo "test-matrix: of src/server/ffi/this_server.rs the newest that was tried is not $name" >&2 && exit 1; }
done

# Some tests need what the shipped module has not, and single tests do not build the module.
cargo tests --no-run

log=$(mktemp)
trap 'rm -f "$log"' EXIT

# By the features of `make test`, so that nothing is compiled again after it.
run_tests() {
    local watched=()
    [ ${#variant[@]} = 0 ] || watch
    # What was built and fetched goes to disk first: a replica that stores a snapshot would wait for that too.
    sync
    env "${watched[@]}" RLOCK_SERVER="$server" RLOCK_MODULE="$module" \
        cargo tests --no-fail-fast "${tests[@]}" 2>&1 | tee "$log"
}

# Settings of the sanitizer, in $watched. The reports go to files, as the tests' servers have no output. abort_on_error:
# to a test, a failed server must not look like one that was stopped. handle_segv: the sanitizer says more about a bad
# address than the server would.
# RLOCK_SLOWNESS: the time limits of the storms are for servers that do not check each byte they access.
# RLOCK_LEAKS: leaks are checked when a server ends in good order, which the tests' servers otherwise do not. It needs
# rights that a machine may withhold.
watch() {
    local leaks=0
    if ASAN_OPTIONS=detect_leaks=1 "$server" --version >/dev/null 2>&1; then
        leaks=1 watched=(RLOCK_LEAKS=yes)
    else
        echo "test-matrix: nothing looks for leaks, as that does not work on this machine" >&2
    fi
    rm -rf "$reports"
    mkdir -p "$reports"
    watched+=(RLOCK_SLOWNESS=5
        "ASAN_OPTIONS=log_path=$reports/report:abort_on_error=1:handle_segv=2:handle_sigbus=2:detect_leaks=$leaks")
}

# The beginning says most: the bytes in memory at its end say nothing.
judge_reports() {
    local found
    found=$(grep -rl AddressSanitizer "$reports") || return 0
    result="FAIL (the sanitizer's reports are in $reports)"
    printf '\n== what the sanitizer found on %s\n' "$name"
    sed '/^Shadow bytes/,$d' "${found%%$'\n'*}"
}

# built_by HOW FROM: in words.
built_by() {
    case $1 in
    authors) echo "its authors' Makefile" ;;
    wheel) echo "the Python package ${2%%==*}" ;;
    debian) echo "Debian ($2)" ;;
    esac
}

# What comes after the table stays.
write_page() {
    local rest rows="" name
    while read -r name _; do
        has_passed "$name" || return 0
        rows+=${rows:+$'\n'}$(tail -n 1 "$kept/$name")
    done < <(rows_of)
    rest=$(sed -n '/^## /,$p' "$page")
    cat >"$page" <<END
# The servers it was tested on

The table is written by \`make test-matrix\` when all have passed; not by hand. One binary of rlock $(cargo pkgid | sed 's/.*[#@]//')
ran [tests/server](../tests/server), [tests/storms](../tests/storms) and [tests/wire](../tests/wire) on each.

| server | version | built by | allocator | tests passed |
|---|---|---|---|---|
$rows

$rest
END
}

table="" failed=0
while read -r name how from <&3; do
    [ $# != 0 ] || [ -z "$page" ] || ! has_passed "$name" || continue
    version=- allocator=- reports=$target/sanitized/$name result="FAIL (not there)"
    if server=$(scripts/server.sh "${variant[@]}" "$name"); then
        version=$(version_of "$server") allocator=$(allocator_of "$server")
        echo "== $name: $version"
        result=FAIL
        ! run_tests || result=pass
        [ ${#variant[@]} = 0 ] || judge_reports
    fi
    # Each test binary has a line of its own.
    passed=$(sed -n 's/^test result: .* \([0-9]*\) passed.*/\1/p' "$log" | awk '{ all += $1 } END { print all + 0 }')
    [ "$result" = pass ] || failed=1
    table+=$(printf '%-20s %-8s %s' "$name" "$version" "$result")$'\n'
    [ -n "$page" ] || continue
    kind=${name%%-*}
    rm -f "$kept/$name"
    [ "$result" != pass ] || printf '%s\n' "$tested" \
        "| ${kind^} | $version | $(built_by "$how" "$from") | $allocator | $passed |" >"$kept/$name"
done 3<<<"$chosen"

printf '\n%s' "$table"
[ -z "$page" ] || write_page
exit "$failed"
