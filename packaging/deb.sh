#!/usr/bin/env bash
# packaging/deb.sh: packs what packaging/build.sh has built as Debian packages: rlock-module, for servers, and rlock,
# the command.
#
# Only with dpkg-deb: there is nothing to configure, and no service.
#
# The maintainer is the builder: DEBFULLNAME and DEBEMAIL, as for Debian's own tools, or else git's user.
set -euo pipefail
. "$(dirname "$0")/place.sh"

case $machine in
x86_64) architecture=amd64 ;;
aarch64) architecture=arm64 ;;
*) architecture=$(dpkg --print-architecture) ;;
esac
# A version like 1.0.0-rc.1 comes before 1.0.0.
deb_version=${version/-/\~}-1
maintainer_name=${DEBFULLNAME:-$(git config user.name 2>/dev/null || echo "rlock maintainers")}
maintainer_mail=${DEBEMAIL:-${EMAIL:-$(git config user.email 2>/dev/null || echo "rlock@localhost")}}
maintainer="$maintainer_name <$maintainer_mail>"

place=$packages/deb
rm -rf "$place" "$packages"/rlock{,-module}_*_"$architecture".deb
trap 'rm -rf "$place"' EXIT

# put MODE FILE PATH
put() { install -D -m "$1" "$2" "$root/$3"; }
# put_packed FILE PATH: in Debian's format for documentation. Without the time, which would differ each time.
put_packed() {
    mkdir -p "$(dirname "$root/$2")"
    gzip --no-name -9 --stdout "$1" >"$root/$2.gz"
    chmod 644 "$root/$2.gz"
}

put_documents() {
    local package=$1 entry
    entry=$(mktemp)
    {
        printf '%s (%s) unstable; urgency=medium\n\n' "$package" "$deb_version"
        printf '  * Packed from version %s; what is new is in changelog.gz.\n\n' "$version"
        printf ' -- %s  %s\n' "$maintainer" "$(date --utc --rfc-email --date="@$SOURCE_DATE_EPOCH")"
    } >"$entry"
    put_packed "$entry" "usr/share/doc/$package/changelog.Debian"
    rm "$entry"
    put_packed CHANGELOG.md "usr/share/doc/$package/changelog"
    put_packed "$stage/THIRD-PARTY" "usr/share/doc/$package/THIRD-PARTY"
    copyright >"$root/usr/share/doc/$package/copyright"
    chmod 644 "$root/usr/share/doc/$package/copyright"
}

# LICENSE in the form that Debian's tools can read.
copyright() {
    echo "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/"
    echo "Upstream-Name: rlock"
    echo "Comment: The binaries contain crates of others; THIRD-PARTY.gz, beside this file, has their names and licenses."
    printf '\nFiles: *\n'
    sed -n 's/^Copyright (c) /Copyright: /p' LICENSE
    echo "License: MIT"
    sed '1,/^Copyright/d; s/^$/./; s/^/ /' LICENSE | tail -n +2
}

# pack PACKAGE BINARY: the fields of its file in packaging/debian, and the computed ones.
pack() {
    local package=$1 binary=$2 control=$root/DEBIAN glibc gcc depends=()
    glibc=$(needs GLIBC "$binary") gcc=$(needs GCC "$binary")
    [ -z "$glibc" ] || depends+=("libc6 (>= $glibc)")
    [ -z "$gcc" ] || depends+=("libgcc-s1 (>= $gcc)")
    mkdir -p "$control"
    (cd "$root" && find usr -type f -print0 | sort -z | xargs -0 md5sum) >"$control/md5sums"
    {
        echo "Package: $package"
        echo "Version: $deb_version"
        echo "Architecture: $architecture"
        echo "Maintainer: $maintainer"
        echo "Installed-Size: $(du --summarize --apparent-size --block-size=1024 "$root/usr" | cut -f1)"
        [ ${#depends[@]} = 0 ] || (IFS=, && echo "Depends: ${depends[*]}")
        cat "packaging/debian/$package.control"
    } >"$control/control"
    [ ! -f "packaging/debian/$package.prerm" ] || install -m 755 "packaging/debian/$package.prerm" "$control/prerm"
    find "$root" -type d -exec chmod 755 {} +
    dpkg-deb --root-owner-group -Zxz --build "$root" "$packages/${package}_${deb_version}_$architecture.deb"
}

root=$place/rlock-module
# Executable: servers refuse to load what is not.
put 755 "$stage/librlock.so" usr/lib/redis/modules/librlock.so
put 644 packaging/debian/rlock-module.README usr/share/doc/rlock-module/README.Debian
put 644 redis.conf.example usr/share/doc/rlock-module/examples/redis.conf.example
put_documents rlock-module
pack rlock-module "$stage/librlock.so"

root=$place/rlock
put 755 "$stage/rlock" usr/bin/rlock
for page in "$stage"/man/*.1; do
    put_packed "$page" "usr/share/man/man1/${page##*/}"
done
put 644 "$stage/completions/rlock.bash" usr/share/bash-completion/completions/rlock
put 644 "$stage/completions/_rlock" usr/share/zsh/vendor-completions/_rlock
put 644 "$stage/completions/rlock.fish" usr/share/fish/vendor_completions.d/rlock.fish
put_documents rlock
pack rlock "$stage/rlock"
packaging/sums.sh
