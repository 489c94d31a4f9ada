#!/usr/bin/env bash
# scripts/soak.sh HOURS [NAME...]: hours of mixed load on each of these servers, or the newest two, side by side; then its page
# and picture in docs/proof. An interrupt ends the load early; the page then says how long it was.
#
# The samples are in target/soak as they come. The programs are copied there first, so that a later build changes nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/servers.sh

hours=$1
chosen=$(rows_of "${@:2}")
find_module
cargo build --quiet --release --package rlock-bench
directory=$target/soak
rm -rf "$directory" && mkdir -p "$directory"
cp "$target/release/rlock-bench" "$module" "$directory"
export RLOCK_MODULE=$directory/${module##*/}

# To build a server takes minutes, so all are there before any run begins.
while read -r name _ <&3; do scripts/server.sh "$name" >/dev/null; done 3<<<"$chosen"
runs=""
trap 'touch "$directory/stop"' INT TERM HUP
while read -r name _ <&3; do
    RLOCK_SERVER=$(scripts/server.sh "$name") setsid "$directory/rlock-bench" soak "$directory" "$name" "$hours" &
    runs+=" $!"
done 3<<<"$chosen"
echo "soak: $hours hours; samples: $directory; to end it early: touch $directory/stop"
# A signal ends wait; the runs end by themselves then.
for run in $runs; do while kill -0 "$run" 2>/dev/null; do wait "$run" || true; done; done
"$directory/rlock-bench" soak-page "$directory" docs/proof
