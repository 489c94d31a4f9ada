#!/usr/bin/env bash
# scripts/chaos.sh [--seeds "1 2 3"] [--seconds N | --failovers N] [--worlds "single cluster"] [--clients "python go"] [--other COMMIT] [--keep] [NAME...]:
# histories under faults, on the servers that are named or on the newest, with the clients for these languages among the
# others: see docs/proof.md. What they have come to is in target/chaos, for scripts/chaos-long.sh.
#
# --failovers: failovers alone, until so many in each world had locks that the new master lacked; three worlds at a time.
# --keep: also the histories in which nothing is wrong, for scripts/check-histories.sh.
# --other: every other server has the module of that commit; of an old one with `--other ""`.
#
# A seed decides which clients take part and which faults happen when; the machine's timing differs from run to run. So
# repeat a failed seed several times.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/servers.sh

seeds="" seconds=60 failovers="" worlds="" clients="" place="" keep=""
while [[ ${1:-} == --* ]]; do
    case $1 in
    --seeds) seeds=$2 && shift 2 ;;
    --seconds) seconds=$2 && shift 2 ;;
    --failovers) failovers=$2 && shift 2 ;;
    --worlds) worlds=$2 && shift 2 ;;
    --keep) keep=yes && shift ;;
    --clients) clients=$2 && shift 2 ;;
    --other)
        RLOCK_OTHER_MODULE=$(scripts/other-module.sh ${2:+"$2"})
        RLOCK_OTHER_BUILD=$(basename "$RLOCK_OTHER_MODULE" .so)
        export RLOCK_OTHER_MODULE RLOCK_OTHER_BUILD
        place=/other && shift 2
        ;;
    *) sed -n '2s/^# //p' "$0" >&2 && exit 2 ;;
    esac
done
# Another one each time, and printed, so that it can be had again.
seeds=${seeds:-$RANDOM}
chosen=$(rows_of "${@:-newest}")

find_module

cargo chaos --quiet
# shellcheck disable=SC2086 # a list of words
[ -z "$clients" ] || { RLOCK_ADAPTERS=$(scripts/adapters.sh $clients | paste -sd';') && export RLOCK_ADAPTERS; }
sync

build=$(git rev-parse --short HEAD)
git diff --quiet HEAD -- src core chaos client client-core testing || build+=" and changes"

# run DIRECTORY OPTION...: with the server, module and seed that are set.
run() {
    RLOCK_SERVER=$server RLOCK_MODULE=$module "$target/debug/rlock-chaos" run --build "$build" --seed "$seed" ${keep:+--keep} --directory "$@"
}

play() {
    local world options=()
    for world in $worlds; do options+=(--world "$world"); done
    run "$target/chaos/$name$place" --seconds "$seconds" "${options[@]}"
}

# Each world takes much longer than it works.
play_failovers() {
    local play world directory failed=0 parts
    for play in unprotected protected; do
        parts=()
        for world in replicated sentinel cluster; do
            world=$world-$play directory=$target/chaos/$name$place/$world
            [[ " ${worlds:-$world} " == *" $world "* ]] || continue
            mkdir -p "$directory"
            run "$directory" --failovers "$failovers" --world "$world" >"$directory/log" 2>&1 &
            parts+=("$!=$directory/log")
        done
        for world in ${parts[@]+"${parts[@]}"}; do
            wait "${world%%=*}" || failed=1
            cat "${world#*=}"
        done
    done
    return "$failed"
}

table="" failed=0
while read -r name _ <&3; do
    server=$(scripts/server.sh "$name") || server=""
    for seed in $seeds; do
        result="FAIL (not there)"
        if [ -n "$server" ]; then
            echo "== $name, seed $seed"
            result=FAIL
            if [ -n "$failovers" ]; then ! play_failovers || result=pass; else ! play || result=pass; fi
        fi
        [ "$result" = pass ] || failed=1
        table+=$(printf '%-20s seed %-6s %s' "$name" "$seed" "$result")$'\n'
    done
done 3<<<"$chosen"

printf '\n%s' "$table"
exit "$failed"
