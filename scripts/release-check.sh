#!/usr/bin/env bash
# scripts/release-check.sh TAG [DIRECTORY]: is this checkout, or that one, the version that the tag says? Prints what
# CHANGELOG.md says of it, as the text of the release.
#
# A release that has gone out under a wrong number cannot be taken back: a registry gives each number once.
set -euo pipefail
[ $# = 1 ] || [ $# = 2 ] || { echo "usage: scripts/release-check.sh TAG [DIRECTORY]" >&2 && exit 2; }
tag=$1
cd "${2:-$(dirname "$0")/..}"

wrong() {
    echo "release-check: $1" >&2
    exit 1
}

[[ $tag =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$ ]] || wrong "$tag is no tag such as v1.2.3 or v1.2.3-rc.1"
version=${tag#v}

# The value of a line such as: version = "1.2.3"
in_workspace=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
[ "$in_workspace" = "$version" ] || wrong "the tag is $tag, but Cargo.toml has version $in_workspace"

for crate in rlock rlock-client rlock-cli; do
    locked=$(awk -v name="name = \"$crate\"" '$0 == name { getline; gsub(/version = |"/, ""); print }' Cargo.lock)
    [ "$locked" = "$version" ] || wrong "Cargo.lock has $crate $locked, not $version; type: cargo update --workspace"
done
asked=$(sed -n 's/^rlock-client = .*version = "\([^"]*\)".*/\1/p' cli/Cargo.toml)
[ "$asked" = "$version" ] || wrong "cli/Cargo.toml asks for rlock-client $asked, not $version"

heading=$(grep -m 1 '^## ' CHANGELOG.md) || wrong "CHANGELOG.md has no heading"
[[ $heading =~ ^"## $version "\([0-9]{4}-[0-9]{2}-[0-9]{2}\)$ ]] ||
    wrong "the first heading of CHANGELOG.md is \"$heading\", not \"## $version (YEAR-MONTH-DAY)\""
text=$(awk '/^## / { seen++; next } seen == 1' CHANGELOG.md)
[ -n "${text//[[:space:]]/}" ] || wrong "CHANGELOG.md says nothing of $version"
echo "$text"
