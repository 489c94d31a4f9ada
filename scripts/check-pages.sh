#!/usr/bin/env bash
# scripts/check-pages.sh: what the project says of its own files is so. Fails, and lists what is not there:
# - paths in comments, in pages, in scripts and in manifests; links between pages, and their headings;
# - targets of the Makefile, and commands of the module;
# - the versions of rlock and of Rust, where a page has others than Cargo.toml.
set -euo pipefail
cd "$(dirname "$0")/.."

wrong=0
say() {
    echo "check-pages: $1" >&2
    wrong=1
}

# there FILE PATH: whether a path that the file names is one from the top, or from a folder around the file; or is made
# by a command, and left out of the repository.
there() {
    local around=$1
    while [ "$around" != . ]; do
        around=$(dirname "$around")
        [ ! -e "$around/$2" ] || return 0
    done
    git check-ignore --quiet "$2"
}

# Paths in pages, and in all comments: code that names a path fails when it runs.
readonly tops='src|tests|cli|client|clients|core|testing|bench|chaos|docs|scripts|packaging|java'
readonly path="(?<![\w./*{}<>\$~@:-])(?:$tops)/[\w.+-]*[\w+](?:/[\w.+-]*[\w+])*(?![\w*{<\$/-])"
while IFS= read -r line; do
    case $line in
    *:*:) at=${line%:} ;;
    *) there "${at%%:*}" "$line" || say "$at names $line, which is not there" ;;
    esac
done < <(
    {
        git ls-files '*.md' | xargs grep -Hn /
        git ls-files | grep -v '\.md$\|\.lock$\|\.svg$\|\.patch$\|\.json$' | xargs grep -IHnE '^\s*(//|#|\*|/\*|<!--).*/'
    } | grep -oP "^[^:]+:\d+:|$path"
)

# The headings of a page, as links name them.
headings() {
    awk '/^ *```/ { fenced = !fenced } !fenced && sub(/^#+ */, "") { print tolower($0) }' "$1" |
        sed 's/[^[:alnum:] _-]//g; s/ /-/g'
}
while IFS=: read -r page line link; do
    file=$page
    [[ $link == "#"* ]] || file=$(dirname "$page")/${link%%#*}
    [ -e "$file" ] && { [[ $link != *"#"* ]] || headings "$file" | grep -xF -e "${link#*#}" >/dev/null; } ||
        say "$page:$line links to $link, which is not there"
done < <(git ls-files '*.md' | xargs grep -HnoP '\]\(\K(?!https?:)[^)]+')

while IFS=: read -r page line name; do
    grep -q "^$name:" Makefile || say "$page:$line names make $name, which is not there"
done < <(git ls-files | grep -v '\.lock$\|\.svg$\|\.patch$' | xargs grep -IHnoP '(?:`|^# *|: |^)make \K[a-z][a-z-]+(?=`|$| +[#A-Z])')

commands=$(grep -rhoP 'name: "RLOCK\.\K[A-Z]+' core/src/words src | sort -u)
while IFS=: read -r page line name; do
    grep -qxF "$name" <<<"$commands" || say "$page:$line names RLOCK.$name, which is not there"
done < <(git ls-files '*.md' | xargs grep -HnoP '\bRLOCK\.\K[A-Z]+')

# Numbers that the manifest has, where a page repeats them.
manifest() { sed -n "/^\[workspace.package\]/,/^\[/s/^$1 = \"\(.*\)\"/\1/p" Cargo.toml; }
same() {
    local at
    while IFS= read -r at; do
        [ "${at##*:}" = "$2" ] || say "${at%:*} says ${at##*:}, and Cargo.toml $2"
    done < <(git ls-files '*.md' | grep -v CHANGELOG | xargs grep -HnoP "$1")
}
version=$(manifest version)
same '\bRust \K[0-9]+\.[0-9]+' "$(manifest rust-version)"
same '\bVersion \K[0-9]+\.[0-9]+' "${version%.*}"
exit "$wrong"
