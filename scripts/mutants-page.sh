#!/usr/bin/env bash
# scripts/mutants-page.sh: writes docs/proof/mutants.md. Reads rows of its tables, and lines about missed mutants, from
# the standard input; keeps the page's other rows if their files and patches still exist.
set -euo pipefail
cd "$(dirname "$0")/.."

page=docs/proof/mutants.md
new=$(cat)
old=$(cat "$page" 2>/dev/null || true)

# table PATTERN: the rows with a first cell that matches, new ones first, without duplicates, in order.
table() {
    local row cell
    printf '%s\n%s\n' "$new" "$old" | awk -F' \\| ' -v row="^[|] $1\$" '$1 ~ row && !seen[$1]++' | sort | while IFS= read -r row; do
        cell=${row#| } cell=${cell%% |*}
        [ ! -e "$cell" ] && [ ! -e "chaos/mutants/$cell.patch" ] || echo "$row"
    done
}

# What was missed in a file is as old as the file's row.
missed() {
    local file
    for file in $(table 'core/src/[a-z_/]+[.]rs' | awk '$12 > 0 { print $2 }'); do
        if grep -qF "| $file |" <<<"$new"; then grep "^- \`$file:" <<<"$new"; else grep "^- \`$file:" <<<"$old"; fi || true
    done
}

files=$(table 'core/src/[a-z_/]+[.]rs')
{
    cat <<'END'
# Which defects the tests catch

A test that passes may be one that sees nothing. So defects are put into the code, one at a time, and the tests have to fail.
`make core-mutants`, `make sim-mutants` and `make chaos-mutants` write this page. A row has the commit at which it was tried. The
first line of each patch says what is wrong.

## Core, by its own tests

[cargo-mutants](https://mutants.rs) changes the rules and the queues in every way that it knows, and the tests of `rlock-core`
judge. [core/mutants.toml](../../core/mutants.toml) names mutants that change nothing, each with the reason.

| file | mutants | caught | without an end | not compiled | missed | at commit |
|---|---|---|---|---|---|---|
END
    echo "$files"
    awk -F' \\| ' '{ all += $2; caught += $3; long += $4; none += $5; missed += $6 }
        END { printf "\nTogether: %d mutants in %d files. Caught: %d, without an end: %d, not compiled: %d, missed: %d.\n",
            all, NR, caught, long, none, missed }' <<<"$files"
    if [ -n "$(missed)" ]; then
        printf '\nMissed:\n\n'
        missed
    fi
    cat <<'END'

## The engine and the client's core, by simulation

Each row is a patch of [sim/mutants](../../sim/mutants): most are defects that a build has had, or a rule of the
[grace](failover.md) that is missing. The judge is the [simulation](failover.md). A row names the history that needs the fewest
moves once it is shortened; it fails again each time, by its seed.

| defect | caught by | moves | at commit |
|---|---|---|---|
END
    table 'sim/mutants/[a-z-]+[.]patch'
    cat <<'END'

## The module and the client, by chaos

Each row is a build with a patch of [chaos/mutants](../../chaos/mutants), under the chaos of [proof.md](../proof.md). A defect may
survive a run, so one seed after the other is tried.

| defect | in the | world | caught by | after | at commit |
|---|---|---|---|---|---|
END
    table '[a-z-]+'
    cat <<'END'

## The same histories, by Porcupine

The histories of these builds by the [second checker](../proof.md#a-second-checker). It knows the rules of exclusive locks and
tokens, and accepts a history that breaks another promise, or a lock of another kind.

| defect | by Porcupine | operations judged | at commit |
|---|---|---|---|
END
    table 'chaos/mutants/[a-z-]+[.]patch'
} >"$page.new"
mv "$page.new" "$page"
