#!/usr/bin/env bash
# packaging/tarball.sh: packs what packaging/build.sh has built as target/packages/rlock-VERSION-linux-MACHINE.tar.gz,
# or with -musl behind the machine.
set -euo pipefail
. "$(dirname "$0")/place.sh"

name=rlock-$version-linux-$machine
[ "$libc" != musl ] || name+=-musl
place=$packages/tarball
rm -rf "$place" "$packages"/rlock-*-"${name#*-*-}".tar.gz
mkdir -p "$place/$name"
cp -a "$stage/." "$place/$name"
(cd "$place/$name" && find . -type f ! -name SHA256SUMS -printf '%P\0' | sort -z | xargs -0 sha256sum >SHA256SUMS)

# The same content gives the same bytes, on every machine and at any time.
tar --create --format=ustar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
    --mode=u=rwX,go=rX --directory "$place" "$name" | gzip --no-name -9 >"$packages/$name.tar.gz"
rm -rf "$place"
packaging/sums.sh
echo "$packages/$name.tar.gz"
