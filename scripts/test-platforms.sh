#!/usr/bin/env bash
# scripts/test-platforms.sh [--smoke] [PLATFORM...]: tests of tests/server and tests/wire on the servers of other
# platforms of scripts/servers.sh, or of those named: arm64, arm64-musl, x86-musl, glibc-2.31.
#
# The tests run on this machine; the server and its module are for the platform. arm64 is emulated, so only tests run
# that do not depend on a few milliseconds.
#
# The table in docs/servers.md is written when all have passed, with the same sources and tests. The passed platforms
# are kept in target/platforms.
#
# --smoke: only a few tests, with a build of the module that compiles quickly, and no table.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/servers.sh

smoke="" page=docs/servers.md
[ "${1:-}" != --smoke ] || { shift && smoke=yes; }
[ $# != 0 ] || set -- arm64 arm64-musl x86-musl glibc-2.31

wire=(RLOCK_WIRE_SECONDS=60)
tests=(panics loading permits several_locks tokens sessions::tickets sessions::delivery sessions::taking_back an_aof restart
    served_in_order handing_over)
# Under qemu these, which are about time, fail on a busy machine.
slow=(--skip three_thousand_that_end --skip past_many_that_have_ended --skip told_at_once_or_waits)
if [ -n "$smoke" ]; then
    wire=(RLOCK_WIRE_SEED=7)
    tests=(panics load_arguments permits::as_many all_are_granted_or_none sessions::tickets an_aof_restart served_in_order
        lease_and_token)
fi

target_of() {
    case $1 in
    arm64) echo aarch64-unknown-linux-gnu ;;
    arm64-musl) echo aarch64-unknown-linux-musl ;;
    x86-musl) echo x86_64-unknown-linux-musl ;;
    glibc-*) echo x86_64-unknown-linux-gnu ;;
    *) echo "test-platforms: there is no platform named $1" >&2 && return 2 ;;
    esac
}

# Sets $module and $probes, which is the module with commands for tests.
build() {
    local for
    for=$(target_of "$1")
    scripts/build.sh --for "$for" probes
    probes=$target/$for/trial/librlock.so
    if [ -n "$smoke" ]; then
        module=$probes
    else
        scripts/build.sh --for "$for" module
        module=$target/$for/module/librlock.so
    fi
}

# built_by HOW FROM: in words.
built_by() {
    case $1 in
    debian) echo "Debian ($2)" ;;
    wheel) echo "the Python package ${2%%==*}" ;;
    musl) [[ $platform = arm64* ]] && echo "zig, with musl of Debian (trixie)" || echo "musl-gcc, with musl of Debian (trixie)" ;;
    glibc) echo "zig for glibc 2.17, with glibc of Debian (bullseye)" ;;
    esac
}

kept=$target/platforms log=$(mktemp)
trap 'rm -f "$log"' EXIT
mkdir -p "$kept"

run_tests() {
    local environment=("${wire[@]}" RLOCK_SERVER="$server" RLOCK_MODULE="$module" RLOCK_PROBES="$probes")
    local skipped=()
    [[ $platform != arm64* ]] || skipped=("${slow[@]}")
    env "${environment[@]}" cargo tests --test server -- "${tests[@]}" "${skipped[@]}" && env "${environment[@]}" cargo tests --test wire
}

tested=$(find src core/src testing/src tests/{server,wire} Cargo.lock scripts/test-platforms.sh -type f -not -name '*.txt' |
    sort | xargs cat | sha256sum)

write_page() {
    local rows="" name
    while read -r name _; do
        [ "$(head -n 1 "$kept/$name" 2>/dev/null)" = "$tested" ] || return 0
        rows+=$(tail -n 1 "$kept/$name")'\n'
    done < <(grep . <<<"$platform_servers")
    awk -v rows="$rows" '
        /^## / { here = $0 == "## Other platforms" }
        here && /^\| / && !/^\| platform / { next }
        { print }
        here && /^\|-/ { printf "%s", rows }
    ' "$page" >"$log"
    cat "$log" >"$page"
}

table="" failed=0
for platform; do
    build "$platform"
    while read -r name how from <&3; do
        kind=${name%%-*}
        version=- result="FAIL (not there)"
        if server=$(scripts/server.sh "$name"); then
            version=$(version_of "$server") result=FAIL
            echo "== $name: $version"
            ! run_tests 2>&1 | tee "$log" || result=pass
        fi
        passed=$(sed -n 's/^test result: .* \([0-9]*\) passed.*/\1/p' "$log" | awk '{ all += $1 } END { print all + 0 }')
        [ "$result" = pass ] || failed=1
        table+=$(printf '%-22s %-8s %s tests, %s' "$name" "$version" "$passed" "$result")$'\n'
        [ -z "$smoke" ] || continue
        rm -f "$kept/$name"
        [ "$result" != pass ] || printf '%s\n' "$tested" \
            "| $platform | ${kind^} $version | $(built_by "$how" "$from") | $passed |" >"$kept/$name"
    done 3< <(grep -e "-$platform " <<<"$platform_servers")
done

printf '\n%s' "$table"
[ -n "$smoke" ] || write_page
exit "$failed"
