# shellcheck shell=bash disable=SC2034 # to be sourced
# packaging/place.sh, to be sourced: what is packed, where it lies, and by which names it goes.
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
# PLATFORM: the machine and C library to pack for, by Rust's name, for example aarch64-unknown-linux-musl; by default
# this machine's. scripts/dist.sh sets it.
platform=${PLATFORM:-}
machine=${platform:-$(uname -m)-unknown-linux-gnu}
libc=${machine##*-} machine=${machine%%-*}
# What goes into all packages, and the packages themselves.
packages=$target/packages stage=$target/packages/stage
[ -z "$platform" ] || packages=$target/dist/packages stage=$target/dist/$platform

version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
# The same commit gives the same bytes: nothing in a package is younger than it. Sources that are no checkout have a
# CHANGELOG that is as old as they are.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md)}
export SOURCE_DATE_EPOCH

wrong() {
    local name=${0##*/}
    echo "${name%.sh}: $1" >&2
    exit 1
}

# needs LIBRARY FILE...: the newest version of GLIBC or GCC that the files ask for; nothing if they ask for none.
needs() {
    local library=$1
    shift
    readelf -VW "$@" | sed -n "s/.* Name: ${library}_\([0-9.]*\) .*/\1/p" | sort -uV | tail -n 1
}
