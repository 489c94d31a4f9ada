#!/usr/bin/env bash
# scripts/dist-clients.sh [TARGET...]: packs the clients for Python and Node.js for these platforms, by the names that Rust has
# for them, or for all four of Linux: wheels and the source package in target/clients/wheels, npm's in target/clients/npm.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
npm=$target/clients/npm
[ $# != 0 ] || set -- {x86_64,aarch64}-unknown-linux-{gnu,musl}
rm -rf "$npm"
for platform; do
    PATH=$(scripts/zig.sh "$platform"):$PATH
    name=${platform/x86_64-unknown-linux/linux-x64}
    name=${name/aarch64-unknown-linux/linux-arm64}
    # No path of this machine is in it, as in scripts/build.sh. Node.js loads a library, which must share its C library.
    flags=(-Cstrip=symbols "--remap-path-prefix=$HOME=/home" "--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo"
        "--remap-path-prefix=$(rustc --print sysroot)=/rust" "--remap-path-prefix=$PWD=/rlock")
    [[ $platform != *-musl ]] || flags+=(-Ctarget-feature=-crt-static)
    CARGO_ENCODED_RUSTFLAGS=$(IFS=$'\x1f' && echo "${flags[*]}") CARGO_TARGET_DIR=$target/clients/cross cargo zigbuild --locked --profile binding -p rlock-node \
        --target "${platform/%-gnu/-gnu.2.17}"
    scripts/npm-package.sh "$name" "$target/clients/cross/$platform/binding/librlock_node.so" "$npm"
done
scripts/npm-package.sh "$npm"
clients/python/build-wheels.sh "$@" >/dev/null
stat -c '%8s  %n' "$npm"/*.tgz "$target"/clients/wheels/*
