#!/usr/bin/env bash
# scripts/zig.sh TARGET: brings zig, which links for other machines and for C libraries that are not this machine's, and
# Rust's own libraries for TARGET. Prints the directory of cargo-zigbuild, and of maturin, which packs wheels.
set -euo pipefail

# The binaries depend on these versions, so they only change on purpose.
packages="cargo-zigbuild==0.24.1 ziglang==0.17.1 maturin==1.16.0"
place=${XDG_CACHE_HOME:-$HOME/.cache}/rlock/zig

[[ " $(rustup target list --installed | xargs) " == *" $1 "* ]] || rustup target add "$1" >&2
mkdir -p "$place"
exec 9>"$place.lock"
flock 9
if [ "$(cat "$place/brought" 2>/dev/null)" != "$packages" ]; then
    python3 -m venv "$place"
    # shellcheck disable=SC2086 # a list of words
    "$place/bin/pip" install --quiet --disable-pip-version-check $packages >&2
    echo "$packages" >"$place/brought"
fi
echo "$place/bin"
