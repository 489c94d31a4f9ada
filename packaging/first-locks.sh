#!/usr/bin/env bash
# packaging/first-locks.sh RLOCK USER SERVER ARGUMENT...: starts that server as that user, takes a lock in it with that
# rlock, sees that a second one does not get it, and stops the server. In a Debian that has only what packages brought.
set -euo pipefail

rlock=$1 user=$2
shift 2
port=7000
log=$(mktemp)
chmod 666 "$log"
# exec: the process that is stopped later is the server.
(cd / && exec setpriv --reuid "$user" --regid "$(id -g "$user")" --init-groups "$@" --port "$port" --daemonize no) >"$log" 2>&1 &
server=$!
trap 'kill "$server" 2>/dev/null || true; wait "$server" 2>/dev/null || true; rm -f "$log"' EXIT

wrong() {
    cat "$log"
    tail -n 20 /var/log/redis/*.log /var/log/valkey/*.log 2>/dev/null || true
    echo "first-locks: $1" >&2
    exit 1
}

export RLOCK_URL=redis://127.0.0.1:$port
deadline=$((SECONDS + 30))
until "$rlock" ls >/dev/null 2>&1; do
    kill -0 "$server" 2>/dev/null || wrong "the server has ended"
    ((SECONDS < deadline)) || { "$rlock" ls || true; wrong "no server with rlock answers"; }
    sleep 0.1
done

# shellcheck disable=SC2016 # it is for the other shell to expand
"$rlock" run orders:42 -- sh -c '
    "$0" run --no-wait orders:42 -- true 2>/dev/null
    [ $? = 75 ] || { echo "the second one is not refused" && exit 1; }
    "$0" inspect orders:42 | grep -q "$RLOCK_HOLDER" || { echo "it is not shown who holds the lock" && exit 1; }
' "$rlock" || wrong "what runs under the lock has failed"
"$rlock" run --no-wait orders:42 -- true || wrong "the lock is not free when what ran under it has ended"

kill "$server"
wait "$server" || wrong "the server has not ended in good order"
