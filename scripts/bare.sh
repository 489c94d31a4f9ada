# scripts/bare.sh, to be sourced: a minimal Debian, and how to run commands in it.
#
# On a developer's machine a missing dependency goes unnoticed. So this is the smallest Debian that exists, in
# target/bare.
#
# Everything runs in its own name spaces for processes and mounts. These end with it, however it ends: nothing is
# mounted on the machine itself, and no process stays. Creating them needs root.
#
# A script that sources this calls in_name_spaces first, and then has $work, a directory, and `fail`, which ends the
# script.
. scripts/private-apt.sh

name=${0##*/} name=${name%.sh}
place=$(realpath -m "${CARGO_TARGET_DIR:-target}")/bare
work=$place/work

fail() {
    [ ! -s "$work/log" ] || tail -n 5 "$work/log" >&2
    echo "$name: $1" >&2
    exit 1
}

# in_name_spaces "$@": continues as the first process of new name spaces. The script restarts there, with its arguments.
in_name_spaces() {
    [ "${RLOCK_BARE:-}" != inside ] || { rm -rf "$work" && mkdir -p "$work" && return; }
    [ "$(id -u)" = 0 ] || { echo "$name: only root may do this: it mounts and changes its root directory" >&2 && exit 1; }
    scripts/setup.sh bare
    # Two of them would take each other's directory away.
    mkdir -p "$place"
    exec 9>"$place/lock"
    flock --nonblock 9 || { echo "$name: something runs already in $place" >&2 && exit 1; }
    space=""
    trap '[ -z "$space" ] || { kill -KILL "$space"; wait "$space"; } 2>/dev/null || true' EXIT
    trap 'exit 130' INT TERM HUP
    # The first process of the name space ends with unshare, unshare with this script, and all others with the first.
    RLOCK_BARE=inside setpriv --pdeathsig KILL \
        unshare --mount --pid --fork --kill-child --mount-proc "$0" "$@" </dev/null &
    space=$!
    local status=0
    wait "$space" || status=$?
    space=""
    exit "$status"
}

# bare_debian SUITE: makes one, and sets $root, where it is. What of it is fetched is kept for the next one.
bare_debian() {
    local suite=$1 mirror made="" config
    root=$place/$suite
    echo "== a Debian with nothing on it: $suite"
    mkdir -p "$place/debs"
    while IFS= read -r mirror && [ -z "$made" ]; do
        rm -rf "$root"
        ! debootstrap --variant=minbase --cache-dir="$place/debs" "$suite" "$root" "$mirror" >"$work/log" 2>&1 ||
            made=$mirror
    done < <(mirrors)
    [ -n "$made" ] || fail "debootstrap could make $suite from no mirror that this machine's apt knows"

    # Its sources as an installation has them, the security updates from where this machine has them.
    {
        echo "deb $made $suite main"
        echo "deb $made $suite-updates main"
        apt-get indextargets --format "deb \$(REPO_URI) $suite-security main" 'Created-By: Packages' \
            'Label: Debian-Security' | sort -u
    } >"$root/etc/apt/sources.list"

    # How this machine reaches the network: names, proxies, and trusted certificates.
    cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
    apt-config dump | grep -E '^Acquire::(https?|Retries|Check-)' >"$root/etc/apt/apt.conf.d/90network" || true
    surroundings=(HOME=/root "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" "TERM=${TERM:-dumb}")
    while IFS= read -r setting; do
        surroundings+=("$setting")
    done < <(env | grep -iE '^((http|https|ftp|all|no)_proxy|CARGO_(HTTP|NET|SOURCE|REGISTR(Y|IES))_[A-Z0-9_]*)=')
    local trusted=/etc/ssl/certs/ca-certificates.crt
    if [ -f "$trusted" ]; then
        cp -L "$trusted" "$root/etc/machine-trusts.crt"
        surroundings+=(CARGO_HTTP_CAINFO=/etc/machine-trusts.crt)
    fi
    for config in "${CARGO_HOME:-$HOME/.cargo}"/config{,.toml}; do
        [ ! -f "$config" ] || install -D "$config" "$root/root/.cargo/$(basename "$config")"
    done

    mount -t proc proc "$root/proc"
    mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts "$root/dev/pts"
    ln -sf pts/ptmx "$root/dev/ptmx"
    mount -t tmpfs tmpfs "$root/dev/shm"
    # From here on, what debootstrap said explains nothing.
    : >"$work/log"
}

# clone_into_bare: the last commit of this checkout, in /srv/rlock there. The checkout may belong to another user than
# root. --no-local: the clone shares no file with it.
clone_into_bare() {
    printf '[safe]\n\tdirectory = *\n' >"$work/gitconfig"
    GIT_CONFIG_GLOBAL=$work/gitconfig git clone --quiet --no-local . "$root/srv/rlock" 2>"$work/log" ||
        fail "this checkout cannot be cloned"
    [ -z "$(GIT_CONFIG_GLOBAL=$work/gitconfig git status --porcelain)" ] ||
        echo "$name: what is not committed is not in the clone" >&2
}

# in_bare COMMAND...: runs it there.
in_bare() { chroot "$root" env -i "${surroundings[@]}" "$@"; }

leave_bare() {
    umount -R "$root/dev/shm" "$root/dev/pts" "$root/proc"
    rm -rf "$root" "$work"
    mkdir -p "$work"
}
