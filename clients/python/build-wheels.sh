#!/usr/bin/env bash
# clients/python/build-wheels.sh [target …]: the wheels for Linux, into target/clients/wheels, and the source package.
#
# One wheel is for Python 3.10 and newer on one kind of machine. zig's linker makes it fit an old glibc (2.17), or musl
# (Alpine), whatever is on this machine. Without arguments: both for x86_64.
set -euo pipefail
cd "$(dirname "$0")/../.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
work=$target/clients
wheels=$work/wheels
[ -x "$work/build/bin/maturin" ] || {
    python3 -m venv "$work/build"
    "$work/build/bin/pip" install --quiet --disable-pip-version-check "maturin[zig]>=1.9,<2"
}
export PATH=$work/build/bin:$PATH

[ $# -gt 0 ] || set -- x86_64-unknown-linux-gnu x86_64-unknown-linux-musl
rm -rf "$wheels" && mkdir -p "$wheels"
for triple in "$@"; do
    case $triple in
    *-musl) compatibility=musllinux_1_2 ;;
    *) compatibility=manylinux_2_17 ;;
    esac
    rustup target add "$triple" >/dev/null
    # What is linked with zig is not what cargo has built for this machine's own libraries.
    CARGO_TARGET_DIR=$work/cross maturin build --locked --profile binding --manifest-path clients/python/Cargo.toml \
        --target "$triple" --zig --compatibility "$compatibility" --out "$wheels"
done
maturin sdist --manifest-path clients/python/Cargo.toml --out "$wheels"
ls -l "$wheels"
