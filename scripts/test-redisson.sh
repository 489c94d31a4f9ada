#!/usr/bin/env bash
# scripts/test-redisson.sh [PROFILE...]: the tests in tests/redisson with each pinned version of Redisson, both plain
# and with the locks of java/, or with those named by their Maven profile; a profile with `-wrapped` uses java/, from
# the very jar that would be published. With `@11` at its end it runs on that Java runtime, from scripts/jre.sh, instead
# of the machine's own. `redisson-4.0` runs only if it is named.
#
# Without a network Maven prints a hundred lines, where a user of `make test-redisson` needs one. So its output goes to
# a file, and only the output of failed tests is printed. Exit code 1: a test failed; 3: the tests could not run.
#
# RLOCK_SERVER: the server's binary, if not redis-server. RLOCK_MODULE: the module's file, if not the release build.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/maven.sh

readonly profiles="redisson-4 redisson-4-wrapped redisson-3 redisson-3-wrapped redisson-3.13"
known "$profiles redisson-4.0-wrapped" "$@"
mkdir -p "$target/redisson"
out=$(realpath "$target/redisson")

# What the server for unit tests is started by.
cargo build --quiet -p rlock-cli
RLOCK_BIN=$(realpath "$target/debug/rlock")
export RLOCK_BIN

# What Maven could not get, if that is why it failed.
fail_if_missing() {
    local artifact
    artifact=$(grep -oE '(not resolve|transfer|find|download) (.*artifacts? )?[[:alnum:]_.-]+:[^ ]+' "$log" |
        grep -oE '[[:alnum:]_.-]+:[[:alnum:]_.:-]+' | head -n 1) || return 0
    fail 3 "Maven cannot get $artifact: it is not in its cache, and no repository answers"
}

# The jar that would be published. scripts/test-spring.sh checks that two builds of it are the same bytes, and that it has
# sources and documentation; scripts/adapters.sh compiles it with the newest Redisson.
jar=""
if [[ " ${*:-$profiles} " == *-wrapped* ]]; then
    log=$out/rlock-redisson.log
    maven -f java/pom.xml -pl redisson "-Dout=$out" -Dmaven.javadoc.skip -Dmaven.source.skip clean package || {
        fail_if_missing
        cat "$log" >&2
        fail 1 "java/ cannot be packed"
    }
    jar=$(find "$out/rlock-redisson" -maxdepth 1 -name '*.jar')
fi

failed=0
for profile in ${*:-$profiles}; do
    log=$out/$profile.log
    reports=$out/$profile/surefire-reports
    rm -rf "$reports"
    began=$SECONDS
    maven_profiles=${profile%@*} maven_profiles=${maven_profiles/%-wrapped/,wrapped} runtime=()
    if [[ $profile == *@* ]]; then
        runtime=("-Djvm=$(scripts/jre.sh "${profile#*@}")")
        [ "${profile#*@}" != 11 ] || maven_profiles+=,java-11
    fi
    status=0
    maven -f tests/redisson/pom.xml "-P$maven_profiles" "${runtime[@]}" "-Drlock.jar=$jar" "-Dout=$out/$profile" test ||
        status=$?
    if [ "$status" != 0 ] && [ "$(in_reports '<testcase')" = 0 ]; then
        fail_if_missing
        cat "$log" >&2
        fail 3 "Maven did not get to the tests of $profile"
    fi
    [ "$status" = 0 ] || { failed=1 && said; }
    failures=$(in_reports '<(failure|error)')
    [ "$status" = 0 ] || [ "$failures" != 0 ] || echo "test-redisson: $profile did not finish" >&2
    printf '%-21s %s: %d tests, %d failed, %d not for this version, %d s\n' "$profile" "$(property redisson.version)" \
        "$(in_reports '<testcase')" "$failures" "$(in_reports '<skipped')" $((SECONDS - began))
done
exit "$failed"
