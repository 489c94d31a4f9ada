#!/usr/bin/env bash
# scripts/steps.sh [--all] <COMMANDS: runs each line as a command, and prints at the end how long each one took. It
# stops at the first failure; with --all the others run too.
#
# One at a time: when two run, a test may wait for the processor longer than its leases allow.
set -euo pipefail
cd "$(dirname "$0")/.."

table="" failed=0
trap 'printf "\n%s" "$table"' EXIT

while IFS= read -r step <&3; do
    printf '\n== %s\n' "$step"
    began=$SECONDS result=pass
    bash -c "$step" 3<&- </dev/null || result=FAIL failed=1
    took=$((SECONDS - began))
    table+=$(printf '%3d:%02d  %s  %s' $((took / 60)) $((took % 60)) "$result" "$step")$'\n'
    [ "$failed" = 0 ] || [ "${1:-}" = --all ] || break
done 3<<<"$(grep .)"
table+=$(printf '%3d:%02d  in all' $((SECONDS / 60)) $((SECONDS % 60)))$'\n'
exit "$failed"
