#!/usr/bin/env bash
# packaging/image-forms.sh KIND ROOT IMAGE: runs the image with its files in ROOT as `docker run` does, with every form
# of command line on the official pages. IMAGE sets entry, command and directory, as the image has them. KIND is redis
# or valkey. scripts/test-images.sh calls it, in a network of its own.
set -euo pipefail

kind=$1 root=$2
entry=() command=() directory=/
# shellcheck source=/dev/null
. "$3"
ip link set lo up
log=$root/log etc=/usr/local/etc/$kind
for module in /usr/local/lib/redis/modules/librlock.so /usr/lib/redis/modules/librlock.so; do
    [ ! -f "$root$module" ] || break
done
pid="" form=""
trap '[ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null || true' EXIT
wrong() {
    tail -n 20 "$log" >&2
    echo "image-forms: $kind: $form: $1" >&2
    exit 1
}

# container USER SETTING COMMAND...: docker run --user USER -e SETTING IMAGE COMMAND..., in the background.
container() {
    local user=$1 setting=$2
    shift 2
    form="docker run ${user:+--user $user }${setting:+-e "$setting" }IMAGE $*"
    [ $# != 0 ] || set -- "${command[@]}"
    # shellcheck disable=SC2016 # the other shell expands it
    env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin ${setting:+"$setting"} \
        chroot --userspec="${user:-0:0}" --groups= "$root" sh -c 'cd "$0" && exec "$@"' "$directory" "${entry[@]}" "$@" \
        <"${input:-/dev/null}" >"$log" 2>&1 &
    pid=$!
}

# ask PORT COMMAND...: the server's replies, as they are on the wire.
ask() {
    local port=$1
    shift
    { exec 3<>"/dev/tcp/127.0.0.1/$port"; } 2>/dev/null || return 1
    printf '%s\r\n' "$@" QUIT >&3
    tr -d '\r' <&3
    exec 3>&-
}

# serves PORT UID: the server has the module once, runs as that user, grants a lock, and ends in good order.
serves() {
    local deadline=$((SECONDS + 20)) count uid
    until [[ $(ask "$1" PING) == *PONG* ]]; do
        kill -0 "$pid" 2>/dev/null || wrong "the server has ended"
        ((SECONDS < deadline)) || wrong "no server answers"
        sleep 0.1
    done
    count=$(ask "$1" "MODULE LIST" | grep -cx rlock) || true
    [ "$count" = 1 ] || wrong "the server has the module $count times"
    uid=$(awk '/^Uid:/ { print $2 }' "/proc/$pid/status")
    [ "$uid" = "$2" ] || wrong "the server runs as user $uid"
    RLOCK_URL=redis://127.0.0.1:$1 "$root/usr/local/bin/rlock" run --no-wait orders:42 -- true || wrong "no lock"
    save=$(ask "$1" "CONFIG GET save" | sed -n 5p)
    [ -z "${rewrite:-}" ] || [[ $(ask "$1" "CONFIG REWRITE") == +OK* ]] || wrong "CONFIG REWRITE"
    kill "$pid"
    wait "$pid" || wrong "the server has not ended in good order"
    pid=""
    echo "   $form"
}

# says WORDS: it is no server, ends with 0, and prints that.
says() {
    wait "$pid" || wrong "it fails"
    pid=""
    grep -qe "$1" "$log" || wrong "it does not say $1"
    ! grep -q "rlock" "$log" || wrong "it loads the module"
    echo "   $form"
}

mkdir -p "$root$etc" "$root/data"
echo "port 7001" >"$root$etc/$kind.conf"
printf 'port 7001\nloadmodule %s\n' "$module" >"$root$etc/loads.conf"
printf 'port 7001\n  INCLUDE "%s/l*s.conf"\n' "$etc" >"$root$etc/includes.conf"
cp "$root$etc/$kind.conf" "$root/data/rewritten.conf"
server=$kind-server

container "" ""
serves 6379 999
[ "$save" = "3600 1 300 100 60 10000" ] || wrong "the server's own settings are others: save $save"
container "" "" "$server" --save 60 1 --loglevel warning
serves 6379 999
container "" "" "$server" "$etc/$kind.conf"
serves 7001 999
container "" "" "$etc/$kind.conf"
serves 7001 999
container "" "" "$etc/$kind.conf" --appendonly yes --rlock.grace 0
serves 7001 999
container "" "" --port 7002 --maxmemory-policy noeviction
serves 7002 999
container 1234:1234 "" --dir /tmp
serves 6379 1234
input=$root$etc/$kind.conf
container "" "" "$server" - --loglevel notice
serves 7001 999
if [ "$kind" = valkey ]; then
    # Redis's own entrypoint puts its modules behind it.
    container "" "" "$server" --loglevel notice -
    serves 7001 999
fi
input=""
container "" "" "$server" --version
says "v="
container "" "" sh -c "echo a shell"
says "^a shell$"
container "" "" "$kind-cli" --version
says "cli"

# What loads the module already: in the first case its own line, of CONFIG REWRITE.
rewrite=yes
container "" "" "$server" /data/rewritten.conf
serves 7001 999
rewrite=""
grep -q "^loadmodule $module" "$root/data/rewritten.conf" || wrong "CONFIG REWRITE writes no loadmodule"
if [ "$kind" = redis ]; then
    # Redis's own entrypoint does not look into the file; the module says what to do.
    container "" "" "$server" /data/rewritten.conf
    ! wait "$pid" || wrong "it starts"
    grep -q "rlock is loaded already: " "$log" || wrong "it does not say why"
    pid=""
    echo "   $form: refused, with \"rlock is loaded already\""
    exit
fi
container "" "" "$server" /data/rewritten.conf
serves 7001 999
container "" "" "$etc/loads.conf"
serves 7001 999
container "" "" "$etc/includes.conf"
serves 7001 999
container "" "" "$server" --loadmodule "$module" notify off
serves 6379 999
container "" "VALKEY_EXTRA_FLAGS=--port 7003 --save 60 1"
serves 7003 999
container "" "VALKEY_EXTRA_FLAGS=--port 7003 --loadmodule $module"
serves 7003 999
