#!/usr/bin/env bash
# scripts/test-redisson.sh [PROFILE...]: the tests in tests/redisson with each pinned version of Redisson, as it is and
# with the locks of java/, or with those named by their Maven profile; `-wrapped` behind it is the one with java/. What is tested
# then is the very jar that would be published, with its sources and documentation beside it.
#
# Maven says in a hundred lines that it has no network; what somebody who types `make test-redisson` needs is one. So
# its output goes to a file, and from there comes only what a failed test said. Exit code 1: a test failed; 3: the tests
# could not be run.
#
# RLOCK_SERVER: the server's binary, if not redis-server. RLOCK_MODULE: the module's file, if not the release build.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly profiles="redisson-4 redisson-4-wrapped redisson-3 redisson-3-wrapped redisson-3.13"

cannot() { echo "test-redisson: $1" >&2 && exit 3; }

for profile in "$@"; do
    [[ " $profiles " == *" $profile "* ]] || { echo "test-redisson: no $profile, but $profiles" >&2 && exit 2; }
done
for tool in javac mvn "${RLOCK_SERVER:-redis-server}"; do
    command -v "$tool" >/dev/null || cannot "$tool is not there; type: scripts/setup.sh clients java"
done
target=${CARGO_TARGET_DIR:-target}
module=${RLOCK_MODULE:-$target/release/librlock.so}
[ -f "$module" ] || cannot "$module is not there; type: make build"
# The server changes its directory before it loads modules, and Maven's tests run in another one.
RLOCK_MODULE=$(realpath "$module")
RLOCK_SERVER=$(realpath --no-symlinks "$(command -v "${RLOCK_SERVER:-redis-server}")")
export RLOCK_MODULE RLOCK_SERVER
mkdir -p "$target/redisson"
out=$(realpath "$target/redisson")

# The servers end with the JVM of the tests, and that one with Maven.
maven=""
trap '[ -z "$maven" ] || kill "$maven" 2>/dev/null || true' EXIT
trap 'exit 130' INT TERM

in_reports() { cat "$reports"/TEST-*.xml 2>/dev/null | grep -cE "$1" || true; }

# What Maven could not get, if that is why it failed.
missing() {
    grep -oE '(not resolve|transfer|find|download) (.*artifacts? )?[[:alnum:]_.-]+:[^ ]+' "$log" |
        grep -oE '[[:alnum:]_.-]+:[[:alnum:]_.:-]+' | head -n 1
}

cannot_get() { cannot "Maven cannot get $1: it is not in its cache, and no repository answers"; }

# build PLACE VERSION MAVEN-ARGUMENT...: java/redisson, compiled with that version of Redisson.
build() {
    local place=$1 version=$2
    shift 2
    log=$out/rlock-redisson.log
    mvn --batch-mode --quiet -Dstyle.color=never -f java/pom.xml -pl redisson "-Dredisson.version=$version" \
        "-Dout=$place" clean "$@" >"$log" 2>&1 &
    maven=$!
    wait "$maven" || {
        ! artifact=$(missing) || cannot_get "$artifact"
        cat "$log" >&2
        echo "test-redisson: java/ cannot be packed with Redisson $version" >&2 && exit 1
    }
    maven=""
}

# With each version that it is for, and packed as it would be published: twice the same bytes.
pack() {
    build "$out" 4.7.0 package -Dmaven.javadoc.skip -Dmaven.source.skip
    build "$out/again" 3.52.0 package -Dmaven.javadoc.skip -Dmaven.source.skip
    build "$out" 3.52.0 verify
    jar=$(find "$out/rlock-redisson" -maxdepth 1 -name '*.jar' ! -name '*-sources.jar' ! -name '*-javadoc.jar')
    for kind in sources javadoc; do
        [ -f "${jar%.jar}-$kind.jar" ] || { echo "test-redisson: java/ has no $kind" >&2 && exit 1; }
    done
    cmp "$jar" "$out/again/rlock-redisson/${jar##*/}" >&2 ||
        { echo "test-redisson: two builds of java/ differ" >&2 && exit 1; }
}
jar=""
case " ${*:-$profiles} " in *-wrapped*) pack ;; esac

failed=0
for profile in ${*:-$profiles}; do
    log=$out/$profile.log
    reports=$out/$profile/surefire-reports
    rm -rf "$reports"
    began=$SECONDS
    wrapped=${profile#"${profile%-wrapped}"}
    mvn --batch-mode --quiet -Dstyle.color=never -f tests/redisson/pom.xml "-P${profile%-wrapped}${wrapped:+,wrapped}" \
        "-Drlock.jar=$jar" "-Dout=$out/$profile" test >"$log" 2>&1 &
    maven=$! status=0
    wait "$maven" || status=$?
    maven=""
    if [ "$status" != 0 ] && [ "$(in_reports '<testcase')" = 0 ]; then
        ! artifact=$(missing) || cannot_get "$artifact"
        cat "$log" >&2
        cannot "Maven did not get to the tests of $profile"
    fi
    [ "$status" = 0 ] || { failed=1 && grep -vE '^\[ERROR\] *($|\[Help|To see|Re-run|For more|See |-> )' "$log"; }
    failures=$(in_reports '<(failure|error)')
    [ "$status" = 0 ] || [ "$failures" != 0 ] || echo "test-redisson: $profile did not finish" >&2
    printf '%-18s %s: %d tests, %d failed, %d not for this version, %d s\n' "$profile" \
        "$(sed -n 's/.*name="redisson.version" value="\([^"]*\)".*/\1/p' "$reports"/TEST-*.xml | head -n 1)" \
        "$(in_reports '<testcase')" "$failures" "$(in_reports '<skipped')" $((SECONDS - began))
done
exit "$failed"
