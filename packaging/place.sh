# shellcheck shell=bash disable=SC2034 # to be sourced
# packaging/place.sh, to be sourced: what is packed, where it lies, and by which names it goes.
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
# What goes into all packages, and the packages themselves.
stage=$target/packages/stage
packages=$target/packages

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

# Nothing that is shipped needs a newer glibc than docs/servers.md promises.
newest_glibc=$(sed -n 's/^| C library | glibc \([0-9.]*[0-9]\) or newer.*/\1/p' docs/servers.md)
[ -n "$newest_glibc" ] || wrong "docs/servers.md has no row \"| C library | glibc VERSION or newer\""

# needs LIBRARY FILE...: the newest version of GLIBC or GCC that the files ask for.
needs() {
    local library=$1
    shift
    objdump -T "$@" | grep -o "(${library}_[0-9.]*)" | tr -d '()' | cut -d_ -f2 | sort -uV | tail -n 1
}
