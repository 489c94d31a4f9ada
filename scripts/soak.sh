#!/usr/bin/env bash
# scripts/soak.sh HOURS [NAME...]: hours of mixed load on each of these servers, or the newest two, at the same time;
# then the page soak.md and its picture in docs/proof. Fails if memory grows or something is left over. An interrupt
# ends the load early; the page shows how long it was.
#
# The samples are written to target/soak during the run: `rlock-bench soak-page target/soak DIRECTORY` makes the page
# from them at any time. The programs are copied there first, so a later build changes nothing.
#
# PAGE: the directory of the page instead of docs/proof. LEAK=yes: with a client that leaks, to see that the check
# fails.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/servers.sh

# A function, as bash reads the lines of a script when it gets there: this file may change meanwhile.
main() {
    local hours=$1 chosen directory row run runs=() servers=()
    shift
    chosen=$(rows_of "$@")
    find_module
    cargo build --quiet --release --package rlock-bench
    while read -r row _ <&3; do servers+=("$row" "$(scripts/server.sh "$row")"); done 3<<<"$chosen"

    directory=$target/soak
    rm -rf "$directory" && mkdir -p "$directory"
    cp "$target/release/rlock-bench" "$module" "$directory"
    export RLOCK_MODULE=$directory/${module##*/}
    # Each in a process group of its own, so that an interrupt reaches only this script, and its end ends all servers.
    TMPDIR=$(mktemp -d)
    export TMPDIR
    trap 'for run in "${runs[@]}"; do kill -KILL -- "-$run" 2>/dev/null || true; done; rm -rf "$TMPDIR"' EXIT
    trap 'touch "$directory/stop"; echo "soak: ends early: the page follows in half a minute" >&2' INT TERM HUP
    set -- "${servers[@]}"
    while [ $# != 0 ]; do
        RLOCK_SERVER=$2 setsid "$directory/rlock-bench" soak "$directory" "$1" "$hours" ${LEAK:+leak} &
        runs+=("$!")
        shift 2
    done
    echo "soak: $hours hours; samples: $directory; to end it early: touch $directory/stop"
    # A signal ends wait, and not the run.
    for run in "${runs[@]}"; do while kill -0 "$run" 2>/dev/null; do wait "$run" || true; done; done
    "$directory/rlock-bench" soak-page "$directory" "${PAGE:-docs/proof}"
    exit
}
main "$@"
