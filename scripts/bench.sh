#!/usr/bin/env bash
# scripts/bench.sh whole|quick|redisson: builds what measures, and measures.
#
# RLOCK_SERVER: the server's binary, if not redis-server. RLOCK_MODULE: the module's file, if not the release build.
set -euo pipefail
cd "$(dirname "$0")/.."

mode=${1:-}
case $mode in
whole | redisson) results=docs/bench ;;
quick) results=${CARGO_TARGET_DIR:-target}/bench ;;
*) echo "usage: scripts/bench.sh whole|quick|redisson" >&2 && exit 2 ;;
esac
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
program=$target/release/rlock-bench

command=("$program" "$mode" "$results")
if [ "$mode" = redisson ]; then
    scripts/setup.sh clients java
    classes=$target/bench/redisson
    quietly=(mvn --batch-mode --no-transfer-progress --quiet -Dstyle.color=never)
    "${quietly[@]}" --file java/pom.xml -pl redisson -Dmaven.javadoc.skip "-Dout=$classes" package
    jar=$classes/rlock-redisson/rlock-redisson-0.1.0.jar
    "${quietly[@]}" --file bench/redisson "-Doutput=$classes" "-Drlock.jar=$jar" compile
    command+=(java -cp "$classes/classes:$classes/libraries/*" Compare)
else
    # Without valgrind there is still the clock.
    scripts/setup.sh bench || true
fi

# Beside the module, and as it is built.
echo "bench: 1 of 2: builds what measures"
cargo build --profile module --package rlock-bench-noop
cargo build --release --package rlock-bench

# Ten thousand clients need as many files.
ulimit -S -n "$(ulimit -H -n)"
echo "bench: 2 of 2: measures ($mode) on ${RLOCK_SERVER:-redis-server}; the results go to $results"
exec "${command[@]}"
