#!/usr/bin/env bash
# scripts/test-dist.sh: installs what `make dist` has packed for arm64 in a Debian for arm64 that has only Python and Redis,
# under qemu: the wheel by pip, and what is in the Debian packages; and unpacks the wheel for musl. With each it starts a server
# and takes a lock.
#
# Nothing there can start another program of arm64: that would need the kernel of this machine to know qemu. So the Debian is
# unpacked and not configured, and the server is started by this script.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/bare.sh

in_name_spaces "$@"
scripts/setup.sh platforms
packages=$(realpath -m "${CARGO_TARGET_DIR:-target}")/dist/packages
for file in "$packages"/rlock_server-*manylinux*_aarch64.whl "$packages"/rlock_server-*musllinux*_x86_64.whl "$packages"/rlock{,-module}_*_arm64.deb; do
    [ -f "$file" ] || fail "$file is not there; type: make dist"
done

root=$place/arm64
mirror=$(mirrors | head -n 1)
rm -rf "$root"
mkdir -p "$place/debs"
debootstrap --foreign --arch=arm64 --variant=minbase --cache-dir="$place/debs" --include=python3,python3-pip,redis-server \
    bookworm "$root" "$mirror" >"$work/log" 2>&1 || fail "debootstrap could not make a Debian for arm64"
for file in "$root"/var/cache/apt/archives/*.deb; do dpkg-deb -x "$file" "$root"; done
mkdir -p "$root"/{srv,proc,usr/local/bin}
mount -t proc proc "$root/proc"
cp "$(command -v qemu-aarch64-static)" "$root/usr/bin/qemu"
wheel=$(echo "$packages"/rlock_server-*manylinux*_aarch64.whl)
cp "$wheel" "$root/srv"
: >"$work/log"

port=7001

# try MODULE RLOCK: a server with this module grants a lock to this command. What runs under the lock is the command itself.
# Programs are started in $root by ${by[@]}.
try() {
    local process
    chroot "$root" "${by[@]}" "${server[@]}" --port "$port" --save "" --loadmodule "$1" >"$work/log" 2>&1 &
    process=$!
    # The server listens when it has loaded the module.
    until (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; do
        kill -0 "$process" 2>/dev/null || fail "the server has ended"
    done
    [ "$(chroot "$root" "${by[@]}" "$2" --url "redis://127.0.0.1:$port" run orders:42 -- "${by[@]}" "$2" --version)" = \
        "$(chroot "$root" "${by[@]}" "$2" --version)" ] || fail "rlock run does not run its command"
    kill "$process"
    wait "$process" || fail "the server has not ended in good order"
    echo "== $where: passed: $1"
}

where="on an arm64 Debian without a compiler" by=(/usr/bin/qemu)
# The option after the name: under qemu Redis cannot check for the bug that it warns about, and would end.
server=(/usr/bin/redis-server --ignore-warnings ARM64-COW-BUG)
on_arm64() { chroot "$root" "${by[@]}" "$@"; }
on_arm64 /usr/bin/python3 -m pip install --quiet --no-index --break-system-packages --root-user-action=ignore \
    "/srv/${wheel##*/}" >"$work/log" 2>&1 || fail "pip does not install the wheel"
try "$(on_arm64 /usr/bin/python3 /usr/local/bin/rlock-module-path)" /usr/local/bin/rlock
for file in "$packages"/rlock{,-module}_*_arm64.deb; do dpkg-deb -x "$file" "$root"; done
try /usr/lib/redis/modules/librlock.so /usr/bin/rlock
umount "$root/proc"
rm -rf "$root"

# No Python for musl can be had from a registry, so the wheel is unpacked.
root=$place/musl
rm -rf "$root"
where="where there is nothing but musl and a Valkey built for it" by=() server=(/usr/bin/valkey-server)
cp -r "$(dirname "$(scripts/server.sh valkey-9.1-x86-musl)")/root" "$root"
ln -s usr/lib "$root/lib"
python3 -m zipfile -e "$packages"/rlock_server-*musllinux*_x86_64.whl "$root/srv"
# As pip does it.
mv "$root"/srv/rlock_server-*.data/scripts/rlock "$root/usr/bin/rlock"
chmod +x "$root/usr/bin/rlock" "$root/srv/rlock_server/librlock.so"
try /srv/rlock_server/librlock.so /usr/bin/rlock
rm -rf "$root" "$work"
