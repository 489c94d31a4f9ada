#!/usr/bin/env bash
# scripts/check-words.sh [--list WORD | --sample SEED]: counts words that readers stumble over, in comments and in pages, and fails if there
# are more of one than scripts/words.txt allows. An allowance may only fall: lower it when a count has fallen.
#
# --list WORD: where a word of scripts/words.txt is, instead. --sample SEED: twenty lines chosen by the seed, to be read.
set -euo pipefail
cd "$(dirname "$0")/.."

# prose comments|pages: "FILE:LINE:TEXT" for each line that has any.
prose() {
    if [ "$1" = pages ]; then
        # Code on a page is code; the changelog and generated pages say what was.
        git ls-files '*.md' | grep -v -e '^CHANGELOG' -e '^docs/proof/\(figures\|mutants\|soak\)' -e '^docs/bench/' | xargs awk '
            FNR == 1 { code = 0 }
            /^ *```/ { code = !code; next }
            !code { print FILENAME ":" FNR ":" $0 }'
    else
        git ls-files | grep -v '^scripts/check-words' |
            grep -E '\.(rs|go|java|pyi?|[cm]?js|[cm]?ts|sh|toml|ya?ml|patch)$|(^|/)(Makefile|Containerfile[^/]*|run)$' | xargs awk '
            FNR == 1 { inside = 0; hashes = FILENAME ~ /\.(pyi?|sh|toml|ya?ml)$|Makefile$|Containerfile[^\/]*$|run$/ }
            # Docstrings, and comments over several lines.
            hashes && /"""/ { if (!(/""".*"""/)) inside = !inside; print FILENAME ":" FNR ":" $0; next }
            inside && /\*\// { inside = 0; print FILENAME ":" FNR ":" $0; next }
            inside { print FILENAME ":" FNR ":" $0; next }
            !hashes && /\/\*/ { inside = !/\*\//; sub(/^.*\/\*/, ""); print FILENAME ":" FNR ":" $0; next }
            hashes && match($0, /(^|[ \t])#/) { print FILENAME ":" FNR ":" substr($0, RSTART); next }
            !hashes && match($0, /(^|[^:"])\/\//) { print FILENAME ":" FNR ":" substr($0, RSTART) }'
    fi
}

# found WHERE PATTERN: each occurrence, on a line of its own.
found() {
    grep -iowE "$2" "$place/$1" || true
}

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
for where in comments pages; do prose $where | sed 's/^[^:]*:[0-9]*:/&\t/' >"$place/$where.lines"; done
for where in comments pages; do cut -f 2- "$place/$where.lines" >"$place/$where"; done

if [ "${1:-}" = --list ]; then
    pattern=$(awk -F'\t' -v name="$2" '$1 == name { print $4 }' scripts/words.txt)
    grep -hiwE "${pattern:-$2}" "$place/comments.lines" "$place/pages.lines"
    exit
fi

if [ "${1:-}" = --sample ]; then
    for where in comments pages; do
        grep -E '([a-z]+ ){7}' "$place/$where.lines" | shuf -n 10 --random-source=<(yes "$2")
    done
    exit
fi

wrong=0
while IFS=$'\t' read -r name comments pages pattern; do
    [[ $name != "#"* ]] || continue
    for where in comments pages; do
        count=$(found $where "$pattern" | wc -l)
        [ "${SHOW:-}" = "" ] || printf '%-28s %-9s %6d of %6d\n' "$name" $where "$count" "${!where}"
        [ "$count" -le "${!where}" ] || {
            echo "check-words: \"$name\" is $count times in $where, $((count - ${!where})) more than scripts/words.txt allows" >&2
            wrong=1
        }
    done
done <scripts/words.txt
exit $wrong
