#!/usr/bin/env bash
# scripts/sim-mutants.sh [NAME...]: runs the simulation against clients and engines with one defect each (sim/mutants):
# all, or those named. Most of them are defects of earlier builds.
#
# A patch says in its first lines what is wrong, and which tests of sim/tests/world have to fail with it: parts of their
# names. The same tests must first pass without it. The results are then in docs/proof/mutants.md, if the tree is
# committed; the output of each run is in target/sim-mutants/logs.
set -euo pipefail
cd "$(dirname "$0")/.."
patches=sim/mutants
place=$(realpath -m "${CARGO_TARGET_DIR:-target}")/sim-mutants
sources=$place/source logs=$place/logs limit=300
. scripts/mutants.sh

mapfile -t names < <(named "$@")
for name in "${names[@]}"; do check_said "$name" "what is wrong" tests; done

# world NAME TEST...: builds it and runs these tests. Sets $outcome: passed, caught, or what went wrong. Warnings would
# be about what a defect has left without use.
world() {
    local log=$logs/$1.log status=0
    (
        # Incremental builds take seconds, but do not link with the optimization across codegen units.
        export CARGO_TARGET_DIR=$place/build CARGO_INCREMENTAL=1 CARGO_PROFILE_RELEASE_LTO=off
        export RUSTFLAGS="${RUSTFLAGS:-} --cap-lints allow"
        cd "$sources"
        timeout --kill-after=10 "$limit" cargo test --quiet --release -p rlock-sim --test world -- "${@:2}"
    ) >"$log" 2>&1 || status=$?
    if [ "$status" = 0 ]; then
        outcome=passed
    elif grep -q '^test result: FAILED' "$log"; then
        outcome=caught
    else
        outcome="FAIL, with the exit code $status: ${log#"$PWD/"}"
    fi
}

# found NAME: the failed random history with the fewest moves, or else the fixed example: "TITLE | MOVES".
found() {
    local pattern history
    for pattern in 's/^\(.*\): fails by \([0-9]*\) moves$/\2 \1/p' 's/^\(.*\), after \([0-9]*\) moves and .*/\2 \1/p'; do
        history=$(sed -n "$pattern" "$logs/$1.log" | sort -n | sed -n '1s/^\([0-9]*\) \(.*\)$/\2 | \1/p')
        [ -z "$history" ] || break
    done
    echo "$history"
}

try_mutant() {
    local tests
    read -ra tests <<<"$(said "$1" tests)"
    apply "$1" || wrong "$patches/$1.patch does not apply"
    world "$1" "${tests[@]}"
    apply "$1" --reverse
}

rm -rf "$logs" && mkdir -p "$logs"
copy_sources
mapfile -t tests < <(for name in "${names[@]}"; do said "$name" tests | tr ' ' '\n'; done | sort -u)
world sound "${tests[@]}"
[ "$outcome" = passed ] || wrong "nothing is broken, and the tests do not pass: $logs/sound.log"

rows="" caught=0 commit=$(git log -1 --format=%h -- core/src client-core/src sim/src sim/tests)
for name in "${names[@]}"; do
    try_mutant "$name"
    history=$(found "$name")
    echo "$name: $outcome${history:+, $history moves}"
    if [ "$outcome" = caught ] && [ -n "$history" ]; then
        caught=$((caught + 1))
        rows+="| $patches/$name.patch | $history | $commit |"$'\n'
    fi
done

printf '\n%s' "$rows"
if git diff --quiet HEAD -- core/src client-core/src sim; then
    scripts/mutants-page.sh <<<"$rows"
else
    echo "sim-mutants: there are changes without a commit, so the page does not tell of this run" >&2
fi
echo "caught: $caught of ${#names[@]}, in $((SECONDS / 60)) min $((SECONDS % 60)) s"
[ "$caught" = "${#names[@]}" ]
