#!/usr/bin/env bash
# scripts/run.sh: a server with the built module, to try things out on; Ctrl-C ends it and leaves nothing behind.
#
# It runs with redis.conf.example, so that the file that operators copy is one that has been started. Only what must
# differ between a trial and production is overridden on the command line.
#
# RLOCK_SERVER: the server's binary, if not redis-server. RLOCK_MODULE: the module's file, if not the release build.
set -euo pipefail
cd "$(dirname "$0")/.."

server=${RLOCK_SERVER:-redis-server}
module=${RLOCK_MODULE:-${CARGO_TARGET_DIR:-target}/release/librlock.so}
[ -f "$module" ] || { echo "run: $module is not there; type: make run" >&2 && exit 1; }
# The server changes its directory before it loads modules.
module=$(realpath "$module")

port=6379
while (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do port=$((port + 1)); done

dir=$(mktemp -d)
pid=""
clean_up() {
    trap '' INT TERM
    if [ -n "$pid" ]; then
        kill "$pid" 2>/dev/null || true
        wait "$pid" 2>/dev/null || true
    fi
    rm -rf "$dir"
}
trap clean_up EXIT
trap 'exit 0' INT TERM

replaced=0
while IFS= read -r line; do
    if [[ $line == loadmodule\ * ]]; then
        line="loadmodule \"$module\""
        replaced=$((replaced + 1))
    fi
    printf '%s\n' "$line"
done <redis.conf.example >"$dir/redis.conf"
[ "$replaced" = 1 ] || { echo "run: redis.conf.example must have one line that starts with loadmodule" >&2 && exit 1; }

"$server" "$dir/redis.conf" --port "$port" --bind 127.0.0.1 --dir "$dir" --logfile "$dir/log" --daemonize no \
    >"$dir/output" 2>&1 &
pid=$!

failed() {
    cat "$dir/output" >&2
    [ ! -f "$dir/log" ] || cat "$dir/log" >&2
    echo "run: $1" >&2
    exit 1
}

deadline=$((SECONDS + 15))
until [ "$(redis-cli -p "$port" ping 2>/dev/null)" = PONG ]; do
    kill -0 "$pid" 2>/dev/null || failed "the server ended while starting"
    ((SECONDS < deadline)) || failed "the server does not answer"
    sleep 0.05
done

cat <<END
A server with rlock listens on 127.0.0.1:$port. In another terminal, type redis-cli -p $port and then:
    RLOCK.ACQUIRE orders:42 me 30000     (nil): it is yours, for 30 s
    RLOCK.ACQUIRE orders:42 you 30000    a number: the ms that it is still taken for
    RLOCK.RELEASE orders:42 me
Ctrl-C here stops the server and throws its data away.
END

# A signal ends this through its trap; so what comes after it is a server that ended otherwise.
status=0
wait "$pid" || status=$?
[ "$status" = 0 ] || failed "the server ended with status $status"
