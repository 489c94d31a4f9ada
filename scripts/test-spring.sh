#!/usr/bin/env bash
# scripts/test-spring.sh [spring-3] [spring-4]: builds java/ as it would be published, and runs tests/spring with these
# versions of Spring Boot, or with both. The jars are built once for each, and must be the same bytes.
#
# Exit code 1: a test failed, or the jars are not as they should be; 3: the tests could not be run.
#
# RLOCK_SERVER: the server's binary, if not redis-server. RLOCK_MODULE: the module's file, if not the release build.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/maven.sh

readonly profiles="spring-3 spring-4"
readonly artifacts="rlock-redisson rlock-redisson-shedlock rlock-redisson-spring-boot-starter"
known "$profiles" "$@"
mkdir -p "$target/spring"
out=$(realpath "$target/spring")

first=""
for profile in ${*:-$profiles}; do
    log=$out/$profile.log
    reports=$out/$profile/spring-tests/surefire-reports
    rm -rf "${out:?}/$profile"
    began=$SECONDS
    # Sources and documentation are the same for both.
    skip=${first:+-Dmaven.javadoc.skip -Dmaven.source.skip}
    status=0
    # shellcheck disable=SC2086 # no words, or two
    maven -f java/pom.xml "-Ptests,$profile" "-Dout=$out/$profile" $skip verify || status=$?
    if [ "$status" != 0 ]; then
        said
        [ "$(in_reports '<testcase')" != 0 ] || fail 3 "Maven did not get to the tests of $profile"
    fi
    printf '%-8s Spring Boot %s: %d tests, %d failed, %d s\n' "$profile" "$(property boot.version)" \
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
