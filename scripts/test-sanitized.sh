#!/usr/bin/env bash
# scripts/test-sanitized.sh [NAME...]: the tests with thousands of locks, and with whatever clients may send, on each
# server that was built with the address sanitizer, or on those named.
#
# Servers go wrong silently: one that reads what it has freed may answer rightly for years. So here is one that ends when
# it does, and a run fails when the sanitizer has said anything, whatever the tests make of it. The module itself is the
# one that is shipped: what is watched is all that the server does, and every piece of memory that it has for us.
#
# TESTS: what cargo test is to run instead, such as "--test server waiting". RLOCK_MODULE: the module's file, if not the
# release build.
set -euo pipefail
cd "$(dirname "$0")/.."

# name, Debian suite, kind
readonly servers="
redis-8   trixie  redis
valkey-8  trixie  valkey
"

read -ra tests <<<"${TESTS:---test storms --test wire}"
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
module=${RLOCK_MODULE:-$target/release/librlock.so}
[ -f "$module" ] || { echo "test-sanitized: $module is not there; type: make build" >&2 && exit 1; }
module=$(realpath "$module")

for name in "$@"; do
    grep -q "^$name " <<<"$servers" || { echo "test-sanitized: there is no server named $name: $servers" >&2 && exit 2; }
done

# The reports go to files, as the tests' servers have no output. abort_on_error: to a test, a server that failed must not
# look like one that was told to end. handle_segv: the sanitizer says more about a bad address than the server would.
# RLOCK_SLOWNESS: what storms may take is meant for servers that do not look at each byte they touch.
# RLOCK_LEAKS: leaks are looked for when a server ends in good order, which those of the tests do not do otherwise. It
# takes rights that a machine may withhold.
run_tests() {
    local leaks=(detect_leaks=1 RLOCK_LEAKS=yes)
    if ! ASAN_OPTIONS=detect_leaks=1 "$server" --version >/dev/null 2>&1; then
        leaks=(detect_leaks=0)
        echo "test-sanitized: nothing looks for leaks, as that does not work on this machine" >&2
    fi
    rm -rf "$reports"
    mkdir -p "$reports"
    sync
    env ASAN_OPTIONS="log_path=$reports/report:abort_on_error=1:handle_segv=2:handle_sigbus=2:${leaks[0]}" \
        "${leaks[@]:1}" RLOCK_SLOWNESS=5 RLOCK_SERVER="$server" RLOCK_MODULE="$module" cargo test --workspace --all-features "${tests[@]}"
}

table="" failed=0
while read -r name suite kind <&3; do
    [ -n "$name" ] || continue
    [ $# = 0 ] || [[ " $* " == *" $name "* ]] || continue

    server=$target/sanitized/$name/server reports=$target/sanitized/reports/$name result="FAIL (not there)"
    if scripts/sanitized-server.sh "$suite" "$kind" "$target/sanitized/$name"; then
        echo "== $name"
        result=FAIL
        ! run_tests || result=pass
        found=$(grep -rl "AddressSanitizer" "$reports" || true)
        if [ -n "$found" ]; then
            result="FAIL (reports of the sanitizer: $(wc -l <<<"$found"), in $reports)"
            # The first tells most: its bytes in memory, which come last, tell nothing.
            printf '\n== what the sanitizer found on %s\n' "$name"
            sed '/^Shadow bytes/,$d' "$(head -n 1 <<<"$found")"
        fi
    fi
    [ "$result" = pass ] || failed=1
    table+=$(printf '%-12s %s' "$name" "$result")$'\n'
done 3<<<"$servers"

printf '\n%s' "$table"
exit "$failed"
