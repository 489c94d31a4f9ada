#!/usr/bin/env bash
# scripts/try-setup.sh: checks that the instructions of setup work for users that may not install. As root, on a
# disposable minimal Debian: make test-bare TARGETS=setup.
set -euo pipefail
cd "$(dirname "$0")/.."

said=$(mktemp)
trap 'rm -f "$said"' EXIT
wrong() {
    cat "$said"
    echo "try-setup: $1" >&2
    exit 1
}
as_nobody() { setpriv --reuid nobody --regid nogroup --clear-groups env HOME=/tmp "$@" >"$said" 2>&1; }
is_said() { grep -F -e "$1" "$said" >/dev/null || wrong "it does not say: $1"; }

# Without a network, in a container that has no lists either.
rm -rf /var/lib/apt/lists/*
! unshare --net scripts/setup.sh run >"$said" 2>&1 || wrong "nothing is missing here"
is_said "no network: "
is_said "Type: scripts/setup.sh install cc libclang rust redis"
[ "$(grep -c . "$said")" -le 2 ] || wrong "it says that in more than a line"

# Without rights and without lists, as in a fresh container: one line, which is correct as it is.
! as_nobody scripts/setup.sh run || wrong "nothing is missing here"
is_said "Type: su -c 'scripts/setup.sh install cc libclang rust redis'"
! as_nobody make run || wrong "make run goes on without what it needs"
is_said "Type: su -c"
line=$(sed -n "s/.*Type: su -c '\(.*\)'.*/\1/p" "$said")
sh -c "$line" || wrong "the line does not install what it names"
as_nobody scripts/setup.sh run || wrong "something is missing still"
! redis-cli -p 6379 ping >"$said" 2>&1 || wrong "the distribution's server was started"
[ ! -e /usr/sbin/policy-rc.d ] || wrong "the policy against services is still there"

# With lists it names the packages as well.
! as_nobody scripts/setup.sh test || wrong "tmux is there"
is_said "Type: su -c 'scripts/setup.sh install tmux'"
is_said "By apt-get: tmux ("

# Debian 12's own Rust, which is too old and in the way of the one that is not.
if grep -q bookworm /etc/os-release; then
    apt-get remove -qq -y rustc-web >"$said" 2>&1
    apt-get install -qq -y --no-install-recommends rustc cargo >"$said" 2>&1 || wrong "Debian's Rust cannot be installed"
    ! scripts/setup.sh run >"$said" 2>&1 || wrong "it takes Debian's Rust"
    is_said "/usr/bin/rustc is 1.63.0, needed is 1.85 or newer"
    line=$(sed -n "s/.*Type: //p" "$said")
    [[ $line == *--replace* ]] || wrong "it does not name what is in the way"
    sh -c "$line" || wrong "the line does not install what it names"
    as_nobody scripts/setup.sh run || wrong "something is missing still"
fi

# What else it says is tried with programs that are made up. Another make than GNU's is a program of Debian's.
apt-get install -qq -y --no-install-recommends bmake tmux >"$said" 2>&1
scripts/test-setup.sh
echo "try-setup: passed"
