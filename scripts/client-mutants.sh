#!/usr/bin/env bash
# scripts/client-mutants.sh [NAME...]: checks that the suite for clients (clients/conformance) catches each Go client
# with one defect (clients/go/mutants), or those named; and prints which scenarios did.
#
# The defects of the Rust client, on which those for Python and Node.js are built, are in chaos/mutants.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
work=$target/clients/mutants
mutants=${*:-$(basename -s .patch clients/go/mutants/*.patch)}
escaped=""
for mutant in $mutants; do
    rm -rf "$work" && mkdir -p "$work"
    cp -r clients "$work"
    # As if there were no repository around it: of that, git would change nothing here, and say nothing.
    GIT_CEILING_DIRECTORIES=$(dirname "$work") git -C "$work" apply "$PWD/clients/go/mutants/$mutant.patch"
    (cd "$work/clients/go" && go build -o "$work/adapter" ./adapter)
    if RLOCK_ADAPTERS="go=$work/adapter" cargo tests --test conformance >"$work/log" 2>&1; then
        escaped+=" $mutant"
        echo "$mutant: NOT caught"
    else
        grep -q "^test result: FAILED" "$work/log" || { cat "$work/log" >&2 && exit 1; }
        echo "$mutant: caught by$(sed -n 's/^test .*go::\([a-z_:]*\) .*FAILED.*/ \1/p' "$work/log" | paste -sd,)"
    fi
done
[ -z "$escaped" ] || { echo "client-mutants: not caught:$escaped" >&2 && exit 1; }
