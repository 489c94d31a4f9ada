#!/usr/bin/env bash
# scripts/steps.sh [--all] <COMMANDS: runs each line as a command, and prints at the end how long each one took. It
# stops at the first failure; with --all the others run too.
#
# Parts of a line between & run at the same time, with their outputs one after the other: for steps that mostly wait.
set -euo pipefail
cd "$(dirname "$0")/.."

table="" failed=0 outputs=$(mktemp -d)
trap 'rm -rf "$outputs"; printf "\n%s" "$table"' EXIT

# finished BEGAN RESULT COMMAND: notes it in the table.
finished() {
    local took=$((SECONDS - $1))
    [ "$2" = pass ] || failed=1
    table+=$(printf '%3d:%02d  %s  %s' $((took / 60)) $((took % 60)) "$2" "$3")$'\n'
}

while IFS= read -r line <&3; do
    mapfile -t together <<<"${line// & /$'\n'}"
    began=$SECONDS behind=()
    for number in "${!together[@]}"; do
        [ "$number" != 0 ] || continue
        { result=pass && bash -c "${together[number]}" || result=FAIL; echo "$SECONDS $result" >"$outputs/$number"; } \
            3<&- </dev/null >"$outputs/$number.log" 2>&1 &
        behind+=("$number")
    done
    printf '\n== %s\n' "${together[0]}"
    result=pass
    bash -c "${together[0]}" 3<&- </dev/null || result=FAIL
    finished "$began" "$result" "${together[0]}"
    wait
    for number in "${behind[@]}"; do
        printf '\n== %s\n' "${together[number]}"
        cat "$outputs/$number.log"
        read -r ended result <"$outputs/$number"
        finished $((SECONDS - ended + began)) "$result" "${together[number]}"
    done
    [ "$failed" = 0 ] || [ "${1:-}" = --all ] || break
done 3<<<"$(grep .)"
table+=$(printf '%3d:%02d  in all' $((SECONDS / 60)) $((SECONDS % 60)))$'\n'
exit "$failed"
