#!/usr/bin/env bash
# scripts/test-spring.sh [spring-3] [spring-4]: builds java/ as it would be published, and runs tests/spring with these
# versions of Spring Boot, or with both. The jars are built once for each, and must be the same bytes.
#
# Exit code 1: a test failed, or the jars are not as they should be; 3: the tests could not be run.
#
# RLOCK_SERVER: the server's binary, if not redis-server. RLOCK_MODULE: the module's file, if not the release build.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly profiles="spring-3 spring-4"
readonly artifacts="rlock-redisson rlock-redisson-shedlock rlock-redisson-spring-boot-starter"

fail() { echo "test-spring: $2" >&2 && exit "$1"; }

for profile in "$@"; do
    [[ " $profiles " == *" $profile "* ]] || fail 2 "no $profile, but $profiles"
done
for tool in javac mvn "${RLOCK_SERVER:-redis-server}"; do
    command -v "$tool" >/dev/null || fail 3 "$tool is not there; type: scripts/setup.sh clients java"
done
target=${CARGO_TARGET_DIR:-target}
module=${RLOCK_MODULE:-$target/release/librlock.so}
[ -f "$module" ] || fail 3 "$module is not there; type: make build"
# The server changes its directory before it loads modules, and Maven's tests run in another one.
RLOCK_MODULE=$(realpath "$module")
RLOCK_SERVER=$(realpath --no-symlinks "$(command -v "${RLOCK_SERVER:-redis-server}")")
export RLOCK_MODULE RLOCK_SERVER
mkdir -p "$target/spring"
out=$(realpath "$target/spring")

# The servers end with the JVM of the tests, and that one with Maven.
maven=""
trap '[ -z "$maven" ] || kill "$maven" 2>/dev/null || true' EXIT
trap 'exit 130' INT TERM

in_reports() { cat "$reports"/TEST-*.xml 2>/dev/null | grep -cE "$1" || true; }

first=""
for profile in ${*:-$profiles}; do
    log=$out/$profile.log
    reports=$out/$profile/spring-tests/surefire-reports
    rm -rf "${out:?}/$profile"
    began=$SECONDS
    # Sources and documentation are the same for both.
    skip=${first:+-Dmaven.javadoc.skip -Dmaven.source.skip}
    # shellcheck disable=SC2086 # no words, or two
    mvn --batch-mode --quiet -Dstyle.color=never -f java/pom.xml "-Ptests,$profile" "-Dout=$out/$profile" $skip verify \
        >"$log" 2>&1 &
    maven=$! status=0
    wait "$maven" || status=$?
    maven=""
    if [ "$status" != 0 ]; then
        grep -vE '^\[ERROR\] *($|\[Help|To see|Re-run|For more|See |-> )' "$log" >&2
        [ "$(in_reports '<testcase')" != 0 ] || fail 3 "Maven did not get to the tests of $profile"
    fi
    printf '%-8s %s: %d tests, %d failed, %d s\n' "$profile" \
        "$(sed -n 's/.*name="boot.version" value="\([^"]*\)".*/Spring Boot \1/p' "$reports"/TEST-*.xml | head -n 1)" \
        "$(in_reports '<testcase')" "$(in_reports '<(failure|error)')" $((SECONDS - began))
    [ "$status" = 0 ] || exit 1
    for artifact in $artifacts; do
        jar=$(find "$out/$profile/$artifact" -maxdepth 1 -name '*.jar' ! -name '*-sources.jar' ! -name '*-javadoc.jar')
        if [ -n "$first" ]; then
            cmp "$jar" "$out/$first/$artifact/${jar##*/}" >&2 || fail 1 "two builds of $artifact differ"
        else
            for kind in sources javadoc; do
                [ -f "${jar%.jar}-$kind.jar" ] || fail 1 "$artifact has no $kind"
            done
        fi
    done
    first=${first:-$profile}
done
