#!/usr/bin/env bash
# scripts/release-check.sh TAG [DIRECTORY]: is this checkout, or that one, the version that the tag says? Prints what
# CHANGELOG.md says of it, as the text of the release. Cargo.toml has the version; all other places must have the same.
# scripts/release-check.sh --set VERSION [DIRECTORY]: writes the version to all of these places but Cargo.lock.
#
# A release that has gone out under a wrong number cannot be taken back: a registry gives each number once.
set -euo pipefail
(($# > 0 && $# < 4)) || { sed -n '2,4s/^# //p' "$0" >&2 && exit 2; }

wrong() {
    echo "release-check: $1" >&2
    exit 1
}

# FILE|BEFORE|AFTER: each line with the version, and what is around it. Wheels, the packages of npm for one platform and
# binaries take it from these.
places='Cargo.toml|^version = "|"
cli/Cargo.toml|^rlock-[a-z-]+ = .*version = "|"
client/Cargo.toml|^rlock-[a-z-]+ = .*version = "|"
client-core/Cargo.toml|^rlock-core = .*version = "|"
sim/Cargo.toml|^rlock-[a-z-]+ = .*version = "|"
clients/node/package.json|^  "version": "|"
clients/node/package-lock.json|^ +"version": "|"
clients/go/rlockotel/go.mod|^.github.com/rlock/rlock/clients/go v|$
clients/go/go.work|^replace github.com/rlock/rlock/clients/go v| =>
java/pom.xml|^  <version>|<
java/redisson/pom.xml|^    <version>|<
java/shedlock/pom.xml|^    <version>|<
java/spring/pom.xml|^    <version>|<
java/README.md|^  <version>|<
tests/spring/pom.xml|^      <version>|</version>'
number='[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?'

# values FILE BEFORE AFTER: the versions that the file has, in the lines that are about rlock.
values() {
    sed -nE "$(ours "$1")s~$2($number)$3.*~\1~p" "$1" 2>/dev/null
}
ours() {
    case $1 in
    */package-lock.json) printf '1,10' ;;
    java/pom.xml | Cargo.toml) printf '1,20' ;;
    *pom.xml | java/README.md) printf '/<groupId>io.rlock</,/<\/version>/' ;;
    esac
}

if [ "$1" = --set ]; then
    [[ ${2:-} =~ ^$number$ ]] || wrong "${2:-nothing} is no version such as 1.2.3 or 1.2.3-rc.1"
    cd "${3:-$(dirname "$0")/..}"
    while IFS='|' read -r file before after; do
        sed -Ei "$(ours "$file")s~($before)$number($after)~\1$2\3~" "$file"
    done <<<"$places"
    exit
fi
tag=$1
cd "${2:-$(dirname "$0")/..}"

[[ $tag =~ ^v$number$ ]] || wrong "$tag is no tag such as v1.2.3 or v1.2.3-rc.1"
version=${tag#v}

while IFS='|' read -r file before after; do
    found=$(values "$file" "$before" "$after")
    [ -n "$found" ] || wrong "$file has no version"
    for one in $found; do
        [ "$one" = "$version" ] || wrong "the tag is $tag, but $file has version $one; type: scripts/release-check.sh --set $version"
    done
done <<<"$places"
! grep '^replace' clients/go/go.mod clients/go/rlockotel/go.mod || wrong "a Go module is replaced: users would not get that"

for crate in rlock rlock-core rlock-sim rlock-client-core rlock-client rlock-cli; do
    locked=$(awk -v name="name = \"$crate\"" '$0 == name { getline; gsub(/version = |"/, ""); print }' Cargo.lock)
    [ "$locked" = "$version" ] || wrong "Cargo.lock has $crate $locked, not $version; type: cargo update --workspace"
done

heading=$(grep -m 1 '^## ' CHANGELOG.md) || wrong "CHANGELOG.md has no heading"
[[ $heading =~ ^"## $version "\([0-9]{4}-[0-9]{2}-[0-9]{2}\)$ ]] ||
    wrong "the first heading of CHANGELOG.md is \"$heading\", not \"## $version (YEAR-MONTH-DAY)\""
text=$(awk '/^## / { seen++; next } seen == 1' CHANGELOG.md)
[ -n "${text//[[:space:]]/}" ] || wrong "CHANGELOG.md says nothing of $version"
echo "$text"
