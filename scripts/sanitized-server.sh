#!/usr/bin/env bash
# scripts/sanitized-server.sh SUITE redis|valkey DEST: builds the server of a Debian suite with the address sanitizer, and
# leaves an executable DEST/server that runs it.
#
# A server that goes on after it has read what was freed passes most tests; this one ends there, and says where. It is
# built from Debian's source package as upstream released it: the patches make it use libraries of that suite, which
# this machine may not have, in place of those that upstream's tarball brings. Without TLS and what else has no part in
# locks. Nothing is installed.
set -euo pipefail
. "$(dirname "$0")/debian-server.sh"

done_line() { echo "$("$dest/server" --version | sed 's/ sha=.*//'), with the address sanitizer: $dest/server"; }

# What runs, and is watched: the sanitizer explains itself to who asks.
is_there() { ASAN_OPTIONS=help=1 "$dest/server" --version 2>&1 | grep "AddressSanitizer" >/dev/null; }

if is_there; then
    done_line
    exit
fi

command -v c++ >/dev/null || fail "there is no C++ compiler"
private_apt deb-src "$suite"
(cd "$work/archives" && apt-get "${private[@]}" source -qq --download-only "$kind") >>"$work/log" 2>&1 ||
    fail "apt-get source failed"
mkdir "$work/source"
tar -xf "$work"/archives/*.orig.tar.* -C "$work/source" --strip-components 1

# Optimized as far as the sanitizer's reports can still be read. Valkey leaves out RTLD_DEEPBIND, which the sanitizer does
# not bear, when it is built with it.
make -C "$work/source/src" -j "$(nproc)" SANITIZER=address OPTIMIZATION=-O1 MALLOC=libc BUILD_TLS=no USE_SYSTEMD=no \
    "$kind-server" >"$work/log" 2>&1 || fail "make failed"

rm -rf "$dest"
mkdir -p "$dest"
cp "$work/source/src/$kind-server" "$dest/server"
is_there || fail "it does not run, or without the sanitizer"
done_line
