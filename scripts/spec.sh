#!/usr/bin/env bash
# scripts/spec.sh: runs docs/spec/lock.qnt by Quint, which npm installs under target/spec. With all rules the promises must hold
# in all histories that are tried; without any one rule a history must break them. Then it replays what the simulation did
# (sim/tests/world/traces.rs) step by step: the specification must allow each history of a protected lock, and refuse one of
# each sort that lacks a rule.
#
# SEED=7: other histories of the specification. SAMPLES=50000: more of them.
set -euo pipefail
cd "$(dirname "$0")/.."
seed=${SEED:-1} samples=${SAMPLES:-3000} steps=40
version=0.33.1 place=$(realpath -m "${CARGO_TARGET_DIR:-target}")/spec
mkdir -p "$place"

# Quint asks for any antlr4ts from 0.5.0-alpha.4 on, and does not start with those after it.
if [ "$(cat "$place/version" 2>/dev/null)" != "$version" ]; then
    echo "{ \"private\": true, \"overrides\": { \"antlr4ts\": \"0.5.0-alpha.4\" } }" >"$place/package.json"
    npm install --prefix "$place" --silent --no-audit --no-fund --save-exact "@informalsystems/quint@$version"
    echo "$version" >"$place/version"
fi
quint() { "$place/node_modules/.bin/quint" "$@"; }

wrong() { echo "spec: $*" >&2 && exit 1; }

# simulated MODULE PROMISE...: what is said of so many histories comes into target/spec/MODULE.log.
simulated() {
    quint run docs/spec/lock.qnt --backend typescript --main "$1" --seed "$seed" --max-samples "$samples" --max-steps "$steps" \
        --invariants "${@:2}" <&- >"$place/$1.log" 2>&1 || true
}

# comes_back MODULE: does the one history that is not random break a promise there?
comes_back() {
    quint test docs/spec/lock.qnt --backend typescript --main "$1" --match aThreadComesBack --max-samples 1 <&- \
        >"$place/comes-back.log" 2>&1 && grep -q "ok .*aThreadComesBack" "$place/comes-back.log"
}

quint typecheck docs/spec/lock.qnt || wrong "docs/spec/lock.qnt has errors"

simulated allRules oneHolder tokensGrow
grep -q '^\[ok\]' "$place/allRules.log" || wrong "with all rules a promise does not hold: $place/allRules.log"
echo "with all rules: holds in $samples histories of $steps steps"

while read -r module promise rule; do
    if [ "$module" = noGraceForTheRecordedHolder ]; then
        comes_back $module || wrong "$module breaks nothing"
        ! comes_back allRules || wrong "with all rules a thread comes back in a grace"
        echo "without \"$rule\": a history that is written there breaks $promise"
        continue
    fi
    simulated "$module" "$promise"
    grep -q "^\[violation\]" "$place/$module.log" || wrong "$module breaks nothing in $samples histories ($place/$module.log). Try more SAMPLES"
    echo "without \"$rule\": a history of $(grep -c '^\[State' "$place/$module.log") states breaks $promise"
done < <(awk '/^module/ { module = $2 } /WITHOUT = "./ {
    split($0, part, "\""); if (part[2] != "") print module, (module == "tokensAreCounted" ? "tokensGrow" : "oneHolder"), part[2] }' docs/spec/lock.qnt)

SPEC_TRACES=$place/traces.qnt cargo test --quiet --release -p rlock-sim --test world -- histories_for_the_specification \
    >"$place/simulation.log" 2>&1 || wrong "the simulation fails: $place/simulation.log"
cp docs/spec/lock.qnt "$place"
quint test "$place/traces.qnt" --backend typescript --main traces --match '^[a-zA-Z]+_[A-Z][a-z]+_[0-9]$' --max-samples 1 \
    <&- >"$place/traces.log" 2>&1 || true
# of RULE passed|failed: how many histories.
of() { grep -cE "(ok|[0-9]+\)) $1_.* $2 after|ok $1_.* $2 " "$place/traces.log" || true; }
[ "$(of allRules failed)" = 0 ] && [ "$(of allRules passed)" -gt 0 ] || wrong "the engine did what it must not: $place/traces.log"
echo "the engine, with all rules: $(of allRules passed) histories are allowed, step by step"
for module in $(sed -n 's/^  run \([a-zA-Z]*\)_.*/\1/p' "$place/traces.qnt" | uniq | grep -v allRules); do
    [ "$(of "$module" failed)" != 0 ] || wrong "$module: all histories are allowed, which must not be: $place/traces.log"
    echo "the engine, $module: $(of "$module" failed) of $(($(of "$module" failed) + $(of "$module" passed))) histories are refused"
done
