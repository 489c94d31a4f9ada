#!/usr/bin/env bash
# scripts/count-lines.sh [COMMIT...]: the lines of code of each part, with tests, now or at each commit.
#
# Counted are Rust, Go, Java, Python, JavaScript, TypeScript and shell. Not counted are blank lines, lines with only a
# comment, Python's docstrings, and other files, for example patches and manifests.
set -euo pipefail
cd "$(dirname "$0")/.."

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

# files_of TREE: puts what git knows of the tree into the folder of that name.
files_of() {
    mkdir "$place/$1"
    case $1 in
    now) git ls-files -z | while IFS= read -r -d '' file; do [ ! -f "$file" ] || printf '%s\0' "$file"; done |
        tar -c --null -T - ;;
    *) git archive "$1" ;;
    esac | tar -x -C "$place/$1"
}

# counted TREE: "PART COUNT" for each part: a top folder, or one below it where those are separate parts.
counted() {
    cd "$place/$1"
    {
        find . -type f \( -name '*.rs' -o -name '*.go' -o -name '*.java' -o -name '*.py' -o -name '*.pyi' -o -name '*.js' \
            -o -name '*.[cm]js' -o -name '*.ts' -o -name '*.[cm]ts' -o -name '*.sh' \) -print0
        # Scripts without an extension.
        find . -type f ! -name '*.*' -size -100k -exec awk 'FNR == 1 && /^#!.*sh/ { printf "%s%c", FILENAME, 0 } { nextfile }' {} +
    } | xargs -0 awk '
        function part(file, folders) {
            split(substr(file, 3), folders, "/")
            return folders[1] (folders[1] ~ /^(tests|core|client-core|client|clients|chaos|cli|bench|java)$/ ? "/" folders[2] : "")
        }
        FNR == 1 { inside = 0; of = part(FILENAME); shell = FILENAME ~ /\.sh$/ || FILENAME !~ /\.[a-z]+$/; python = FILENAME ~ /\.pyi?$/ }
        { sub(/^[ \t]+/, ""); sub(/[ \t\r]+$/, "") }
        $0 == "" { next }
        shell || python {
            if (inside) { if (/"""/) inside = 0; next }
            if (/^#/) next
            if (python && /^"""/) { inside = !/^""".*"""/; next }
            lines[of]++; next
        }
        inside { if (/\*\//) inside = 0; next }
        /^\/\// { next }
        /^\/\*/ { inside = !/\*\//; next }
        { lines[of]++ }
        END { for (of in lines) print of, lines[of] }'
}

trees=("${@:-now}")
for tree in "${trees[@]}"; do
    files_of "$tree"
    (counted "$tree" | sed "s/^/$tree /")
done | sort -k 2 | awk -v trees="${trees[*]}" '
    { lines[$1, $2] = $3; all[$1] += $3; if (!($2 in seen)) { seen[$2]; parts[++n] = $2 } }
    function row(part, tree, i) {
        printf "%-20s", part
        for (i = 1; i <= t; i++) printf " %10s", part == "all" ? all[tree[i]] : lines[tree[i], part] + 0
        print ""
    }
    END {
        t = split(trees, tree, " ")
        printf "%-20s", "lines of code"
        for (i = 1; i <= t; i++) printf " %10s", substr(tree[i], 1, 10)
        print ""
        for (i = 1; i <= n; i++) row(parts[i], tree)
        row("all", tree)
    }'
