#!/usr/bin/env bash
# scripts/adapters.sh [--deploys] [python] [node] [go] [java]: builds these clients, or all, in target/clients, and
# prints for each the line with which the suite in clients/conformance finds its adapter: name=command. With --deploys,
# it also builds Rust's client, and the lines are for the programs of its test `deploys`.
#
# So RLOCK_ADAPTERS=$(scripts/adapters.sh) is enough for `cargo test -p rlock-conformance` and for chaos.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
work=$target/clients
mkdir -p "$work"

python_adapter() {
    local bin=$work/python/bin needed=clients/python/tests/requirements.txt
    cmp -s "$needed" "$work/python/installed" || {
        rm -rf "$work/python"
        python3 -m venv "$work/python"
        "$bin/pip" install --quiet --disable-pip-version-check -r "$needed"
        cp "$needed" "$work/python/installed"
    }
    rm -rf "$work/wheel"
    "$bin/maturin" build --quiet --manifest-path clients/python/Cargo.toml --interpreter "$bin/python" --profile binding \
        --compatibility linux --out "$work/wheel" >&2
    "$bin/pip" install --quiet --disable-pip-version-check --force-reinstall --no-deps "$work"/wheel/*.whl
    commands "$bin/python clients/python/tests/adapter.py" "$bin/python clients/python/examples/deploy.py"
}

# In a copy, since Node looks for packages next to the program.
node_adapter() {
    cargo build --quiet --profile binding -p rlock-node
    mkdir -p "$work/node"
    find "$work/node" -mindepth 1 -maxdepth 1 ! -name node_modules -exec rm -rf {} +
    cp -r clients/node/. "$work/node"
    rm -rf "$work/node/src" "$work/node/Cargo.toml" "$work/node/build.rs"
    cp "$target/binding/librlock_node.so" "$work/node/rlock.linux-$(node -p process.arch)-gnu.node"
    cmp -s clients/node/package-lock.json "$work/node/node_modules/installed" || {
        (cd "$work/node" && npm ci --silent --no-audit --no-fund >&2)
        cp clients/node/package-lock.json "$work/node/node_modules/installed"
    }
    commands "node $work/node/test/adapter.mjs" "node $work/node/examples/deploy.mjs"
}

go_adapter() {
    (cd clients/go && go build -o "$work/go-adapter" ./adapter && go build -o "$work/go-deploy" ./examples/deploy)
    commands "$work/go-adapter" "$work/go-deploy"
}

java_adapter() {
    local out=$work/java
    mvn --batch-mode --quiet -Dstyle.color=never -f java/pom.xml -pl redisson -Dredisson.version=4.7.0 "-Dout=$out" \
        -Dmaven.javadoc.skip=true -Dmaven.source.skip=true package >&2
    mvn --batch-mode --quiet -Dstyle.color=never -f tests/redisson/pom.xml -Predisson-4,wrapped "-Dout=$out/tests" \
        "-Drlock.jar=$(echo "$out"/rlock-redisson/rlock-redisson-*.jar)" test-compile dependency:build-classpath \
        -Dmdep.includeScope=test "-Dmdep.outputFile=$out/classpath" >&2
    # It is to begin soon, and lives for a minute.
    local java="java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto -cp $out/tests/test-classes:$(<"$out/classpath")"
    commands "$java rlock.WrappedAdapter" "$java rlock.WrappedDeploy"
}

# The suite has an adapter of its own.
rust_adapter() {
    cargo build --quiet -p rlock-client --example deploy
    commands "$target/debug/rust-adapter" "$target/debug/examples/deploy"
}

# commands ADAPTER DEPLOY: prints the one that is wanted.
commands() { if [ "$deploys" ]; then echo "$one=$2"; else echo "$one=$1"; fi; }

deploys="" all="python node go java"
[ "${1-}" != --deploys ] || { deploys=yes all="rust $all" && shift; }
for client in "${@:-$all}"; do
    for one in $client; do "${one}_adapter" </dev/null; done
done
