#!/usr/bin/env bash
# scripts/snippets.sh [check]: puts the tested snippets into the pages, or checks that they are there.
#
# A program on a page is only right on the day it is written. These are pieces of tests, between a comment `snippet:
# NAME` and a comment `end`; on the page each follows a line that names its file and the snippet.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly documents="docs/fencing.md docs/tutorial.md docs/spring.md docs/testing.md README.md"

# quoted: prints a snippet, without the indentation of its first line and without empty lines at its end.
readonly program='
function quoted(file, name,    line, inside, found, indent, gap) {
    while ((getline line < file) > 0) {
        if (line ~ "(#|//|<!--) snippet: " name "( -->)?$") {
            inside = found = 1
            indent = match(line, /[^ \t]/)
        } else if (line ~ /^[ \t]*(#|\/\/|<!--) end( -->)?$/) {
            inside = 0
        } else if (inside && line ~ /^[ \t]*$/) {
            gap = gap "\n"
        } else if (inside) {
            printf "%s%s\n", gap, substr(line, indent)
            gap = ""
        }
    }
    close(file)
    if (!found) {
        print "snippets: " file " has no snippet " name > "/dev/stderr"
        exit 1
    }
}
/^<!-- snippet: / {
    file = $3
    name = $4
    print
    getline
    print
    quoted(file, name)
    while ($0 != "```" && getline > 0);
}
{ print }
'

fresh=$(mktemp)
trap 'rm -f "$fresh"' EXIT
for document in $documents; do
    awk "$program" "$document" >"$fresh"
    if [ "${1:-}" != check ]; then
        cat "$fresh" >"$document"
    elif ! diff -u "$document" "$fresh"; then
        echo "snippets: $document differs from the tested files; type: make docs" >&2
        exit 1
    fi
done
