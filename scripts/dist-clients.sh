#!/usr/bin/env bash
# scripts/dist-clients.sh [TARGET...]: packs the clients for Python and Node.js for these platforms, by the names that Rust has
# for them, or for all four of Linux: wheels and the source package in target/clients/wheels, npm's in target/clients/npm.
#
# One wheel is for Python 3.10 and newer.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
npm=$target/clients/npm wheels=$target/clients/wheels
export CARGO_TARGET_DIR=$target/clients/cross CARGO_ENCODED_RUSTFLAGS
[ $# != 0 ] || set -- {x86_64,aarch64}-unknown-linux-{gnu,musl}
rm -rf "$npm" "$wheels"
for platform; do
    zig=$(scripts/zig.sh "$platform")
    name=${platform/x86_64-unknown-linux/linux-x64} tag=manylinux_2_17
    name=${name/aarch64-unknown-linux/linux-arm64}
    # No path of this machine is in it, as in scripts/build.sh. Python and Node.js load a library, which must share their C library.
    flags=(-Cstrip=symbols "--remap-path-prefix=$HOME=/home" "--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo"
        "--remap-path-prefix=$(rustc --print sysroot)=/rust" "--remap-path-prefix=$PWD=/rlock")
    [[ $platform != *-musl ]] || { flags+=(-Ctarget-feature=-crt-static) && tag=musllinux_1_2; }
    CARGO_ENCODED_RUSTFLAGS=$(IFS=$'\x1f' && echo "${flags[*]}")
    PATH=$zig:$PATH cargo zigbuild --locked --profile binding -p rlock-node --target "${platform/%-gnu/-gnu.2.17}"
    scripts/npm-package.sh "$name" "$CARGO_TARGET_DIR/$platform/binding/librlock_node.so" "$npm"
    PATH=$zig:$PATH maturin build --quiet --locked --profile binding --manifest-path clients/python/Cargo.toml \
        --target "$platform" --zig --compatibility "$tag" --out "$wheels"
done
scripts/npm-package.sh "$npm"
"$zig/maturin" sdist --manifest-path clients/python/Cargo.toml --out "$wheels"
stat -c '%8s  %n' "$npm"/*.tgz "$wheels"/*
