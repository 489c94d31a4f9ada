#!/usr/bin/env bash
# scripts/peers/spring-integration.sh: RedisLockRegistryTests, with rlock's registry in place of RedisLockRegistry.
# scripts/test-peers.sh calls it.
set -euo pipefail

readonly tag=v6.5.3
readonly test=org/springframework/integration/redis/util/RedisLockRegistryTests.java

# A lease that ends while the lock is held: rlock renews it.
readonly left_out='testUnlockAfterLockStatusHasBeenExpired,testExpireTwoRegistries,testExceptionOnExpire'

from=$(peer spring-integration https://github.com/spring-projects/spring-integration "$tag")
suite=$PEERS/spring-integration-suite
mkdir -p "$suite/${test%/*}"
# The exceptions are the same, the words are rlock's.
sed 's/You do not own lock at/does not hold the lock/' "$from/spring-integration-redis/src/test/java/$test" >"$suite/$test"
scripts/peers/maven "RedisLockRegistryTests$(printf ',!RedisLockRegistryTests#%s*' ${left_out//,/ })" "-Dsuite=$suite"
