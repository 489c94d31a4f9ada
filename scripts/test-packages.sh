#!/usr/bin/env bash
# scripts/test-packages.sh [SUITE...]: the output of `make deb tarball wheel`, in a minimal Debian: bookworm and trixie,
# or those named. packaging/life.sh has the steps.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/bare.sh

in_name_spaces "$@"
packages=$(realpath -m "${CARGO_TARGET_DIR:-target}")/packages
for file in "$packages"/rlock_*.deb "$packages"/rlock-module_*.deb "$packages"/rlock-*.tar.gz \
    "$packages"/rlock_server-*.whl; do
    [ -f "$file" ] || fail "$file is not there; type: make deb tarball wheel"
done
(cd "$packages" && sha256sum --check --quiet SHA256SUMS) || fail "SHA256SUMS is not of the packages that are there"

# Packed again at another time, they are the same, byte for byte.
sums=$(cat "$packages/SHA256SUMS")
{ packaging/deb.sh && packaging/tarball.sh && packaging/wheel.sh; } >"$work/log" 2>&1 || fail "they cannot be packed again"
[ "$sums" = "$(cat "$packages/SHA256SUMS")" ] || fail "packed again, they are others: $sums; $(cat "$packages/SHA256SUMS")"

# with_packages SUITE: a new Debian with the packages, and with what tries them, in /srv.
with_packages() {
    bare_debian "$1"
    mkdir -p "$root/srv/packages"
    cp "$packages"/*.deb "$packages"/*.tar.gz "$packages"/*.whl "$root/srv/packages"
    cp -r packaging "$root/srv/packaging"
}

suites=("$@")
[ $# != 0 ] || suites=(bookworm trixie)
for suite in "${suites[@]}"; do
    servers=(redis-server)
    [ "$suite" = bookworm ] || servers+=(valkey-server)
    with_packages "$suite"
    in_bare RLOCK_THROWN_AWAY=yes /srv/packaging/life.sh /srv/packages "${servers[@]}" ||
        fail "the packages fail on $suite, which is in $root as it was then"
    leave_bare
    echo "== on a bare $suite: passed: the life of the packages"
done
