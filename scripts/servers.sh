#!/usr/bin/env bash
# scripts/servers.sh: the servers that the module promises to run on, and where each is found. Not run but read by the
# scripts that go through them.
#
# redis-7.0 is what this system has; the others are fetched from Debian's suites.

# name, Debian suite, kind
readonly all_servers="
redis-7.0   -                   redis
redis-8.0   trixie              redis
valkey-8.0  bookworm-backports  valkey
valkey-8.1  trixie              valkey
valkey-9    sid                 valkey
"

# check_names NAME...: all of them are servers that we know.
check_names() {
    local name
    for name in "$@"; do
        grep -q "^$name " <<<"$all_servers" || {
            echo "${0##*/}: there is no server named $name: $all_servers" >&2
            return 2
        }
    done
}

# find_server NAME SUITE KIND: the binary's path, after it was fetched if need be.
find_server() {
    local name=$1 suite=$2 kind=$3 directory=${CARGO_TARGET_DIR:-target}/servers/$1
    if [ "$suite" = - ]; then
        command -v redis-server
    else
        scripts/fetch-server.sh "$suite" "$kind" "$directory" >&2 && realpath --no-symlinks "$directory/server"
    fi
}

# What a server says of itself.
version_of() { "$1" --version | grep -o 'v=[0-9.]*' | cut -c3-; }
