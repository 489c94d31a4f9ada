#!/usr/bin/env bash
# scripts/chaos-long.sh: ten seeds of chaos on each of five servers, an hour; then failovers alone on the newest Valkey, which
# knows all planned ones, an hour and a half. Writes docs/proof/figures.jsonl and figures.md of it, if no promise was broken.
#
# Smaller ones: SEEDS="1 2" SECONDS_EACH=30 FAILOVERS=3 FAILOVERS_OF_TWO_BUILDS=1 SERVERS=redis-7.0-authors.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
read -ra servers <<<"${SERVERS:-redis-7.0-authors redis-8.0 valkey-8.1-authors newest}"
failovers_on=${FAILOVERS_ON:-valkey-9.1-authors}
seeds=${SEEDS:-1 2 3 4 5 6 7 8 9 10}

find_figures() { find "$target/chaos" -name figures.jsonl "$@" 2>/dev/null || true; }
find_figures -delete
scripts/chaos.sh --seeds "$seeds" --seconds "${SECONDS_EACH:-60}" "${servers[@]}"
scripts/chaos.sh --seeds 1 --failovers "${FAILOVERS:-60}" $failovers_on
scripts/chaos.sh --seeds 1 --failovers "${FAILOVERS_OF_TWO_BUILDS:-10}" --other "" $failovers_on

mapfile -t figures < <(find_figures | sort)
"$target/debug/rlock-chaos" join "${figures[@]}" >docs/proof/figures.jsonl
"$target/debug/rlock-chaos" figures docs/proof/figures.jsonl >docs/proof/figures.md
