#!/usr/bin/env bash
# scripts/chaos.sh [--seeds "1 2 3"] [--seconds N] [--worlds "single cluster"] [--clients "python go"] [--page] [NAME...]:
# histories under faults, on the servers that are named or on the newest, with the clients for these languages among the
# others: see docs/proof.md.
#
# A seed decides who takes part and what goes wrong when; what the machine makes of it differs from run to run. So a seed
# that failed is tried again more than once. --page: writes docs/proof/figures.md of it, if nothing was violated.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/servers.sh

seeds="" seconds=60 worlds=() clients="" page=false
while [[ ${1:-} == --* ]]; do
    case $1 in
    --seeds) seeds=$2 && shift 2 ;;
    --seconds) seconds=$2 && shift 2 ;;
    --worlds) for world in $2; do worlds+=(--world "$world"); done && shift 2 ;;
    --clients) clients=$2 && shift 2 ;;
    --page) page=true && shift ;;
    *) sed -n '2s/^# //p' "$0" >&2 && exit 2 ;;
    esac
done
# Another one each time, and said, so that it can be had again.
seeds=${seeds:-$RANDOM}
chosen=$(rows_of "${@:-newest}")

find_module

cargo chaos --quiet
# shellcheck disable=SC2086 # a list of words
[ -z "$clients" ] || { RLOCK_ADAPTERS=$(scripts/adapters.sh $clients | paste -sd';') && export RLOCK_ADAPTERS; }
sync

table="" failed=0
$page && rm -f "$target"/chaos/*/figures.jsonl
while read -r name _ <&3; do
    server=$(scripts/server.sh "$name") || server=""
    for seed in $seeds; do
        result="FAIL (not there)"
        if [ -n "$server" ]; then
            echo "== $name, seed $seed"
            result=FAIL
            ! RLOCK_SERVER=$server RLOCK_MODULE=$module "$target/debug/rlock-chaos" run \
                --seed "$seed" --seconds "$seconds" --directory "$target/chaos/$name" "${worlds[@]}" || result=pass
        fi
        [ "$result" = pass ] || failed=1
        table+=$(printf '%-20s seed %-6s %s' "$name" "$seed" "$result")$'\n'
    done
done 3<<<"$chosen"

printf '\n%s' "$table"
if $page && [ "$failed" = 0 ]; then
    mkdir -p docs/proof
    {
        echo "# Figures of the last long run"
        echo
        echo "Written by \`make chaos-long\` when no promise was broken; not by hand. At commit $(git rev-parse --short HEAD)."
        echo
        "$target/debug/rlock-chaos" figures "$target"/chaos/*/figures.jsonl
    } >docs/proof/figures.md
fi
exit "$failed"
