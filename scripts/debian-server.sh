# scripts/debian-server.sh, to be sourced: how a script begins that is called with SUITE redis|valkey DEST, and leaves
# an executable DEST/server, the server of that Debian suite.
. "$(dirname "$0")/private-apt.sh"

[ $# = 3 ] || { echo "usage: scripts/${0##*/} SUITE redis|valkey DEST" >&2 && exit 2; }
suite=$1 kind=$2 dest=$3

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    [ ! -s "$work/log" ] || tail -n 20 "$work/log" >&2
    echo "${0##*/}: no $kind of $suite: $1" >&2
    exit 1
}
