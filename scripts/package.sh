#!/usr/bin/env bash
# scripts/package.sh: packs the crates for a registry, and builds them from the packed files. Nothing is uploaded.
#
# cargo packs only committed files, so it works on a clone of the last commit, in the target directory of this checkout,
# where most dependencies are built already.
#
# The command needs crates that no registry has yet. cargo 1.90 and newer builds it with the crates packed before; an
# older one can only list what would be packed.
set -euo pipefail
cd "$(dirname "$0")/.."

CARGO_TARGET_DIR=$(realpath -m "${CARGO_TARGET_DIR:-target}")
export CARGO_TARGET_DIR
packed=$CARGO_TARGET_DIR/package

wrong() {
    echo "package: $1" >&2
    exit 1
}

[ -z "$(git status --porcelain)" ] || echo "package: what is not committed is left out" >&2

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
git clone --quiet . "$place/rlock"
cd "$place/rlock"

crates="rlock-core rlock-sim rlock-client-core rlock-client rlock-cli"
[[ $(cargo --version) =~ ([0-9]+)\.([0-9]+) ]]
if ((BASH_REMATCH[1] * 1000 + BASH_REMATCH[2] < 1090)); then
    crates="rlock-core rlock-sim rlock-client-core rlock-client"
    cargo package --list --package rlock-cli
fi
# What an earlier run has packed is no proof. cargo unpacks the client for the command in a place of a registry without
# a host, and takes what is there for the same when the version is.
rm -rf "$packed"/rlock-* "${CARGO_HOME:-$HOME/.cargo}"/registry/src/-*/rlock-*
# shellcheck disable=SC2046 # a list of words
cargo publish --dry-run --locked $(printf -- '--package %s ' $crates)

# A registry's page has no neighbours to link to.
for crate in $crates; do
    files=("$packed/$crate"-[0-9]*/)
    [ ${#files[@]} = 1 ] && [ -d "${files[0]}" ] || wrong "$crate is not in $packed"
    cmp LICENSE "${files[0]}LICENSE" || wrong "$crate has no license"
    ! grep -nP '\]\((?!https://|#)' "${files[0]}README.md" || wrong "$crate: its page has a link to a file"
done
