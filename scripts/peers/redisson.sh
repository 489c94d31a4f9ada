#!/usr/bin/env bash
# scripts/peers/redisson.sh: Redisson's tests of its locks, with those of java/ in their place. scripts/test-peers.sh calls it.
set -euo pipefail

readonly version=4.7.0
readonly tests="RedissonLockTest RedissonReadWriteLockTest RedissonMultiLockTest RedissonFencedLockTest RedissonLockExpirationRenewalTest"

# docs/peers.md says why.
readonly left_out="RedissonLockTest#testConcurrencyTryLockUnLock RedissonLockTest#testLockListener
    RedissonLockExpirationRenewalTest#testLockReentrantRenew"

from=$(peer redisson https://github.com/redisson/redisson "redisson-$version")/redisson/src/test/java/org/redisson
suite=$PEERS/redisson-suite out=$PEERS/redisson-out
rm -rf "$suite" "$out"
mkdir -p "$suite"
cp -r tests/redisson/src/peers/java/. "$suite"
for helper in Cluster Fleet Native Node Patience Setting Version; do
    cp "tests/redisson/src/test/java/rlock/$helper.java" "$suite/rlock"
done
# Each client has the locks of java/; the test's classes are unchanged.
for class in $tests BaseConcurrentTest RedissonRunnable; do
    sed 's/\bRedisson\.create(/rlock.Peer.create(/; s/\.threadId()/.getId()/
        s/RedissonMultiLock lock = new RedissonMultiLock(/RLock lock = redisson.getMultiLock(/' \
        "$from/$class.java" >"$suite/org/redisson/$class.java"
done
mvn --batch-mode --quiet -Dstyle.color=never -f java/pom.xml -pl redisson "-Dredisson.version=$version" "-Dout=$out" \
    -Dmaven.javadoc.skip -Dmaven.source.skip package
mvn --batch-mode --quiet -Dstyle.color=never -f tests/redisson/pom.xml -Predisson-4,wrapped,peers "-Dsuite=$suite" \
    "-Drlock.jar=$(echo "$out"/rlock-redisson/rlock-redisson-*.jar)" "-Dout=$out/tests" \
    "-Dtest=${tests// /,}$(printf ',!%s' $left_out)" test
sed -n 's/.*<testsuite .* name="\([^"]*\)".* tests="\([0-9]*\)".*/\1: \2 tests passed/p' "$out"/tests/surefire-reports/TEST-*.xml
