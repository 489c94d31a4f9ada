#!/usr/bin/env bash
# scripts/dist.sh [TARGET...]: builds and packs everything that is published for these platforms (Rust's names), or for
# all four: an archive, a wheel, and with glibc also Debian packages. They are in target/dist/packages, which it lists
# with their sizes; their content is in target/dist/TARGET.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
began=$SECONDS
mkdir -p "$target/dist/packages"
[ $# != 0 ] || set -- {x86_64,aarch64}-unknown-linux-{gnu,musl}
export PLATFORM
for PLATFORM; do
    packaging/build.sh
    packaging/tarball.sh
    packaging/wheel.sh >/dev/null
    [[ $PLATFORM != *-gnu ]] || packaging/deb.sh
done
(cd "$target/dist/packages" && stat -c '%8s  %n' -- *.tar.gz *.whl *.deb)
echo "dist: $(((SECONDS - began) / 60)) min $(((SECONDS - began) % 60)) s"
