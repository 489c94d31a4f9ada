#!/usr/bin/env bash
# scripts/test-own-suites.sh [NAME...]: the servers' own tests, for the newest Redis and the newest Valkey, or those of
# scripts/servers.sh that are named: first without the module, then with it in every server that they start.
#
# An unused module must not have an effect: not on a key that ends, a script, a transaction, a replica or a file that is
# loaded. The authors' tests know best what has to hold. Tests that also fail without the module say nothing about it;
# what passes without it must pass with it.
#
# UNITS: the test files, instead of those about areas that the module touches. RLOCK_MODULE: the module's file, if not
# the release build.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/servers.sh

read -ra units <<<"${UNITS:-unit/acl-v2 unit/aofrw unit/client-eviction unit/dump unit/expire unit/functions unit/info \
    unit/info-command unit/introspection unit/introspection-2 unit/keyspace unit/latency-monitor unit/lazyfree \
    unit/maxmemory unit/multi unit/obuf-limits unit/other unit/pause unit/pubsub unit/querybuf unit/scan \
    unit/scripting unit/shutdown unit/slowlog unit/tracking unit/wait unit/type/hash unit/type/list \
    unit/type/string integration/aof integration/block-repl integration/failover integration/psync2 integration/rdb \
    integration/replication-3 integration/shutdown}"
logs=$target/own-suites
find_module

chosen=$(rows_of "${@:-newest}")

# run UNIT LOG OPTION...: what passed of one unit, a line each; the names of some have numbers in them that are drawn by
# lot. The servers' files are left where they are.
run() {
    local log=$2
    rm -rf tests/tmp/*
    tclsh tests/test_helper.tcl --single "$1" --clients 1 --timeout 300 --dont-clean "${@:3}" >"$log" 2>&1 || true
    sed -nE 's/\x1b\[[0-9;]*m//g; s/^\[ok\]: (.*) \([0-9]+ ms\)$/\1/p' "$log" | sed -E 's/[0-9]+/N/g' | sort
}

failed=0
while read -r name _ <&3; do
    server=$(scripts/server.sh "$name") || { failed=1 && continue; }
    mkdir -p "$logs/$name"
    cd "$(dirname "$(dirname "$(realpath "$server")")")"
    # The tests' other programs, with the options that the server was built with.
    make -j "$(nproc)" USE_SYSTEMD=no MALLOC=jemalloc BUILD_TLS=yes >"$logs/$name/make.log" 2>&1
    for unit in "${units[@]}"; do
        log=$logs/$name/${unit//\//-}
        run "$unit" "$log-without.log" >"$log-without"
        run "$unit" "$log-with.log" --config loadmodule "$module" >"$log-with"
        loaded=$({ grep -rl "Module 'rlock' loaded" tests/tmp || true; } | wc -l)
        printf '%-20s %-30s without: %4s passed   with: %4s, in %s servers\n' "$name" "$unit" \
            "$(wc -l <"$log-without")" "$(wc -l <"$log-with")" "$loaded"
        lost=$(comm -23 "$log-without" "$log-with" | sed 's/^/    FAIL with the module: /')
        if [ -n "$lost" ] || [ "$loaded" = 0 ] || [ ! -s "$log-without" ]; then
            failed=1
            echo "${lost:-    FAIL: nothing was tried} ($log-with.log)"
        fi
    done
    cd "$OLDPWD"
done 3<<<"$chosen"
exit "$failed"
