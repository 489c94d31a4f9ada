#!/usr/bin/env bash
# scripts/try-run.sh: starts `make run` as a newcomer does, takes a lock with the commands that it shows, and says how long
# each phase took until then: packages, crates, compiling, the server.
#
# A phase ends where the output of `make run` shows the next one. So what is measured is also what somebody sees who waits.
set -euo pipefail
cd "$(dirname "$0")/.."

output=$(mktemp)
# A process group of its own, so that make and all that it started can be ended together.
set -m
make run >"$output" 2>&1 &
run=$!
set +m
started=$SECONDS phases="" phase="" since=$SECONDS port=""
# As Ctrl-C at a terminal does it.
stop() {
    [ -n "$run" ] || return 0
    kill -INT -- "-$run" 2>/dev/null || true
    wait "$run" 2>/dev/null || true
    run=""
}
trap 'trap "" INT TERM; stop; rm -f "$output"' EXIT
trap 'exit 130' INT TERM HUP

wrong() {
    echo "try-run: $1" >&2
    exit 1
}

enter() {
    [ "$1" != "$phase" ] || return 0
    [ -z "$phase" ] || phases+=$(printf '%s %s s, ' "$phase" $((SECONDS - since)))
    phase=$1 since=$SECONDS
}

# How a line of the output tells what goes on.
look_at() {
    case $1 in
    "setup: "*) enter packages ;;
    *Updating\ *index* | *Download*) enter crates ;;
    *Compiling\ *) enter compiling ;;
    *Finished\ *) enter server ;;
    "A server with rlock listens on 127.0.0.1:"*)
        enter listens
        port=${1#A server with rlock listens on 127.0.0.1:} port=${port%%[!0-9]*}
        ;;
    esac
}

exec 4<"$output"
line=""
while [ -z "$port" ]; do
    if IFS= read -r part <&4; then
        line+=$part
        echo "$line"
        look_at "$line"
        line=""
    else
        # What is not a whole line yet, or nothing.
        line+=$part
        kill -0 "$run" 2>/dev/null || { cat <&4 && wrong "make run ended before a server listened"; }
        sleep 0.1
    fi
done
phases+="in all $((SECONDS - started)) s"

# What it said before it began was true, give or take a fifth.
[[ $(grep -m 1 "^run: " "$output") =~ some\ ([0-9]+)\ MB\ to\ fetch.*fetches\ ([0-9]+)\ crates\ \(([0-9]+)\ MB ]] ||
    wrong "it does not say what it will fetch"
said=("${BASH_REMATCH[@]:1}")
near() { (($2 * 10 >= $1 * 8 && $2 * 10 <= $1 * 12)) || wrong "it says $1 $3, and they are $2"; }
[[ ! $(grep -m 1 "^setup: installing.*libclang.*rustc" "$output") =~ ([0-9]+)\ MB\ to\ fetch ]] ||
    near "${said[0]}" "${BASH_REMATCH[1]}" "MB of packages"
[[ ! $(grep -m 1 "Downloaded .*crates" "$output") =~ Downloaded\ ([0-9]+)\ crates\ \(([0-9]+) ]] || {
    near "${said[1]}" "${BASH_REMATCH[1]}" crates
    near "${said[2]}" "${BASH_REMATCH[2]}" "MB of crates"
}

# What the page shows: granted, taken, released.
answer() { redis-cli -p "$port" "$@"; }
[ "$(answer RLOCK.ACQUIRE orders:42 me 30000)" = "" ] || wrong "the first one does not get the lock"
left=$(answer RLOCK.ACQUIRE orders:42 you 30000)
((left > 0 && left <= 30000)) || wrong "the second one is told: $left"
[ "$(answer RLOCK.RELEASE orders:42 me)" = 1 ] || wrong "the lock is not released"

stop
! answer PING >/dev/null 2>&1 || wrong "the server is still there after make run has ended"
echo "try-run: a lock was taken, refused to a second one, and released; $phases"
