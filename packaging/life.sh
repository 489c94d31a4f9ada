#!/usr/bin/env bash
# packaging/life.sh DIRECTORY SERVER...: the life of the packages in DIRECTORY on this Debian, which is thrown away
# afterwards: install, load into each of its servers, lock, remove, purge; then the tarball and the wheel.
# scripts/test-packages.sh calls it.
set -euo pipefail

directory=$1 here=$(dirname "$(realpath "$0")")
shift
servers=("$@")

# It removes files of servers and shells, which on another machine belong to a user.
[ "${RLOCK_THROWN_AWAY:-}" = yes ] || { echo "life: only for a Debian that is thrown away: make test-packages" >&2 && exit 1; }

step() { echo "-- $*"; }
wrong() {
    echo "life: $1" >&2
    exit 1
}

install() {
    apt-get install -qq -y --no-install-recommends "$@" >/var/log/life 2>&1 || { cat /var/log/life && wrong "apt install $*"; }
}

# Everything that a package may leave behind, except apt's and dpkg's own files.
files() {
    find / -xdev \( -path /var/lib/apt -o -path /var/lib/dpkg -o -path /var/cache -o -path /var/log -o -path /tmp \
        -o -path /srv -o -path /run \) -prune -o -print | sort
}

export DEBIAN_FRONTEND=noninteractive
# What starts no service here would start one on a Debian that is booted.
printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
chmod 755 /usr/sbin/policy-rc.d
apt-get update -qq
step "the distribution's servers: ${servers[*]}"
install "${servers[@]}" man-db zsh fish
files >/srv/before

step "apt install ./rlock-module.deb ./rlock.deb"
install "$directory"/rlock-module_*.deb "$directory"/rlock_*.deb
module=/usr/lib/redis/modules/librlock.so
[ "$(stat -c '%a %U' $module)" = "755 root" ] || wrong "$module: $(stat -c '%a %U' $module)"
rlock --version
dpkg --verify rlock rlock-module
for package in rlock rlock-module; do
    for document in copyright changelog.gz changelog.Debian.gz; do
        [ -s "/usr/share/doc/$package/$document" ] || wrong "$package has no $document"
    done
done
[ -s /usr/share/doc/rlock-module/examples/redis.conf.example ] || wrong "there is no redis.conf.example"

for server in "${servers[@]}"; do
    step "a lock in $server, with its own configuration and the line of README.Debian"
    kind=${server%-server}
    line=$(sed -n 's/^ *loadmodule/loadmodule/p' /usr/share/doc/rlock-module/README.Debian)
    mkdir -p "/run/$kind"
    chown "$kind:$kind" "/run/$kind"
    echo "$line" >>"/etc/$kind/$kind.conf"
    "$here/first-locks.sh" rlock "$kind" "$server" "/etc/$kind/$kind.conf" --supervised no
done

step "manual pages and completions"
mapfile -t pages < <(echo rlock && rlock --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/rlock-\1/p')
((${#pages[@]} > 5)) || wrong "rlock --help does not list its commands"
for page in "${pages[@]}"; do
    # groff warns of what it does not understand.
    warnings=$(man --warnings -E UTF-8 -P cat "$page" 2>&1 >/srv/page) || wrong "man $page: $warnings"
    [ -z "$warnings" ] || wrong "man $page: $warnings"
    grep -q "^EXAMPLES" /srv/page || wrong "man $page has no examples"
done
man -P cat rlock-run | grep -e "--no-wait" >/dev/null || wrong "man rlock-run does not tell of --no-wait"
whatis rlock | grep "rlock (1)" >/dev/null || wrong "whatis does not know rlock"
bash -c '. "$1" && complete -p rlock' bash /usr/share/bash-completion/completions/rlock >/dev/null || wrong "bash"
zsh -n /usr/share/zsh/vendor-completions/_rlock || wrong "zsh"
[ "$(zsh -fc 'autoload -U compinit && compinit -D && print $_comps[rlock]')" = _rlock ] || wrong "zsh does not find _rlock"
fish --no-execute /usr/share/fish/vendor_completions.d/rlock.fish || wrong "fish"
fish -c 'complete -C "rlock ins"' | grep inspect >/dev/null || wrong "fish does not complete rlock ins"

# gone HOW: removes the packages by apt-get HOW, and sees that nothing of them is left.
gone() {
    apt-get "$1" -qq -y rlock-module rlock >/srv/gone 2>&1 || { cat /srv/gone && wrong "apt $1"; }
    # What ran here has left files of its own.
    rm -rf "$HOME"/.config "$HOME"/.local "$HOME"/.cache "$HOME"/.zcompdump
    files >/srv/after
    diff /srv/before /srv/after || wrong "apt $1 leaves something of the packages"
}

step "apt remove, while the servers' configurations name the module"
for server in "${servers[@]}"; do
    kind=${server%-server}
    # Written by the servers that ran here.
    rm -rf "/run/$kind" "/var/lib/$kind"/*
done
gone remove
for server in "${servers[@]}"; do
    kind=${server%-server}
    grep "/etc/$kind/$kind.conf still has loadmodule" /srv/gone >/dev/null || wrong "nothing warns that $kind loads it"
    sed -i '$d' "/etc/$kind/$kind.conf"
done

step "apt install and apt purge"
install "$directory"/rlock-module_*.deb "$directory"/rlock_*.deb
gone purge
! grep "still has loadmodule" /srv/gone || wrong "it warns of a server that does not load the module"

step "the tarball"
mkdir /srv/tarball
tar -xzf "$directory"/rlock-*.tar.gz -C /srv/tarball --strip-components 1
(cd /srv/tarball && sha256sum --check --quiet SHA256SUMS)
"$here/first-locks.sh" /srv/tarball/rlock nobody "${servers[0]}" --loadmodule /srv/tarball/librlock.so --dir /tmp

step "the wheel, by pip and without an index, in an environment of its own"
install python3-venv
python3 -m venv /srv/wheel
pip() { /srv/wheel/bin/pip --disable-pip-version-check "$@" >/var/log/life 2>&1 || { cat /var/log/life && wrong "pip $*"; }; }
find /srv/wheel | sort >/srv/before
pip install --no-index "$directory"/rlock_server-*.whl
pip check
module=$(/srv/wheel/bin/rlock-module-path)
"$here/first-locks.sh" /srv/wheel/bin/rlock nobody "${servers[0]}" --loadmodule "$module" --dir /tmp
pip uninstall --yes rlock-server
find /srv/wheel | sort | diff /srv/before - || wrong "pip uninstall leaves something of the wheel"
