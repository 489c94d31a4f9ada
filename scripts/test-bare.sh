#!/usr/bin/env bash
# scripts/test-bare.sh [SUITE [TARGET...]]: builds and tests this checkout from a Debian with nothing on it: bookworm and
# `make test`, or what is named.
#
# On a machine that is worked on, nobody notices that a program is needed which nothing installs. So: the smallest Debian
# that there is, in target/bare, a clone of what is committed, `make`, and then the make targets, which have to do with
# what they install themselves.
#
# All runs in name spaces of its own for processes and mounts. These end with it, however it ends: nothing is ever
# mounted on the machine itself, and nothing goes on. Making them takes root.
set -euo pipefail
cd "$(dirname "$0")/.."

suite=${1:-bookworm}
place=$(realpath -m "${CARGO_TARGET_DIR:-target}")/bare
root=$place/$suite
work=$place/work

fail() {
    [ ! -s "$work/log" ] || tail -n 5 "$work/log" >&2
    echo "test-bare: $1" >&2
    exit 1
}

if [ "${RLOCK_BARE:-}" != inside ]; then
    [ "$(id -u)" = 0 ] || { echo "test-bare: only root may do this: it mounts and changes its root directory" >&2 && exit 1; }
    scripts/setup.sh bare
    # Two of them would take each other's directory away.
    mkdir -p "$place"
    exec 9>"$place/lock"
    flock --nonblock 9 || fail "it is running already, in $place"
    space=""
    trap '[ -z "$space" ] || { kill -KILL "$space"; wait "$space"; } 2>/dev/null || true' EXIT
    trap 'exit 130' INT TERM HUP
    # The first process of the name space ends with unshare, that with this script, and all others with the first.
    RLOCK_BARE=inside setpriv --pdeathsig KILL \
        unshare --mount --pid --fork --kill-child --mount-proc "$0" "$@" </dev/null &
    space=$! status=0
    wait "$space" || status=$?
    space=""
    exit "$status"
fi

. scripts/private-apt.sh
shift $(($# > 0))
targets=("${@:-test}")

rm -rf "$root" "$work"
mkdir -p "$work"

echo "== a Debian with nothing on it: $suite"
made=""
while IFS= read -r mirror && [ -z "$made" ]; do
    rm -rf "$root"
    ! debootstrap --variant=minbase "$suite" "$root" "$mirror" >"$work/log" 2>&1 || made=$mirror
done < <(mirrors)
[ -n "$made" ] || fail "debootstrap could make $suite from no mirror that this machine's apt knows"

# Its sources as an installation has them, the security updates from where this machine has them.
{
    echo "deb $made $suite main"
    echo "deb $made $suite-updates main"
    apt-get indextargets --format "deb \$(REPO_URI) $suite-security main" 'Created-By: Packages' 'Label: Debian-Security' |
        sort -u
} >"$root/etc/apt/sources.list"

# How this machine gets at the network: names, proxies, and whom it trusts.
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
apt-config dump | grep -E '^Acquire::(https?|Retries|Check-)' >"$root/etc/apt/apt.conf.d/90network" || true
surroundings=(HOME=/root "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" "TERM=${TERM:-dumb}")
while IFS= read -r setting; do
    surroundings+=("$setting")
done < <(env | grep -iE '^((http|https|ftp|all|no)_proxy|CARGO_(HTTP|NET|SOURCE|REGISTR(Y|IES))_[A-Z0-9_]*)=')
trusted=/etc/ssl/certs/ca-certificates.crt
if [ -f "$trusted" ]; then
    cp -L "$trusted" "$root/etc/machine-trusts.crt"
    surroundings+=(CARGO_HTTP_CAINFO=/etc/machine-trusts.crt)
fi
for config in "${CARGO_HOME:-$HOME/.cargo}"/config{,.toml}; do
    [ ! -f "$config" ] || install -D "$config" "$root/root/.cargo/$(basename "$config")"
done

# A checkout may belong to another user than root. --no-local: what is cloned shares no file with it.
printf '[safe]\n\tdirectory = *\n' >"$work/gitconfig"
GIT_CONFIG_GLOBAL=$work/gitconfig git clone --quiet --no-local . "$root/srv/rlock" 2>"$work/log" ||
    fail "this checkout cannot be cloned"
[ -z "$(GIT_CONFIG_GLOBAL=$work/gitconfig git status --porcelain)" ] ||
    echo "test-bare: what is not committed is not in the clone" >&2

mount -t proc proc "$root/proc"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts "$root/dev/pts"
ln -sf pts/ptmx "$root/dev/ptmx"
mount -t tmpfs tmpfs "$root/dev/shm"

inside='
set -eu
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -qq -y --no-install-recommends make git ca-certificates >/var/log/first 2>&1 || { cat /var/log/first && exit 1; }
unset DEBIAN_FRONTEND
cd /srv/rlock
for target; do
    echo "== make $target"
    make "$target"
done
'
chroot "$root" env -i "${surroundings[@]}" sh -c "$inside" sh "${targets[@]}" ||
    fail "it fails on a bare $suite, which is in $root as it was then"
umount -R "$root/dev/shm" "$root/dev/pts" "$root/proc"
rm -rf "$root" "$work"
echo "== on a bare $suite: passed: make ${targets[*]}"
