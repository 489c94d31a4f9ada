#!/usr/bin/env bash
# scripts/try-setup.sh: what set-up says to those who may not install, and whether it is true. As root, on a Debian with
# nothing on it that is thrown away afterwards: make test-bare TARGETS=setup.
set -euo pipefail
cd "$(dirname "$0")/.."

said=$(mktemp)
tools=$(mktemp -d)
chmod 755 "$tools"
trap 'rm -rf "$said" "$tools"' EXIT
wrong() {
    cat "$said"
    echo "try-setup: $1" >&2
    exit 1
}
as_nobody() { setpriv --reuid nobody --regid nogroup --clear-groups env HOME=/tmp "$@" >"$said" 2>&1; }
is_said() { grep -F -e "$1" "$said" >/dev/null || wrong "it does not say: $1"; }

# Without rights and without lists, as in a fresh container: one line, and it is true as it is.
rm -rf /var/lib/apt/lists/*
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
is_said "apt-get install of tmux"

# A system without bash, and systems with other package managers.
for tool in make sh uname sed id env; do ln -s "$(command -v $tool)" "$tools"; done
! PATH=$tools make run >"$said" 2>&1 || wrong "make run goes on without bash"
is_said "the scripts of rlock need bash"
ln -s "$(command -v bash)" "$tools"
while read -r manager line; do
    printf '#!/bin/sh\n' >"$tools/$manager"
    chmod 755 "$tools/$manager"
    ! PATH=$tools scripts/setup.sh test >"$said" 2>&1 || wrong "nothing is missing without a path"
    is_said "$line"
    rm "$tools/$manager"
done <<'END'
dnf sudo dnf install make gcc rust cargo redis tmux
apk apk add build-base rust cargo redis tmux
brew brew install gcc make rust redis tmux
END
! PATH=$tools scripts/setup.sh test >"$said" 2>&1 || wrong "nothing is missing without a path"
is_said "Install what of these is not there: a C compiler"
echo "try-setup: passed"
