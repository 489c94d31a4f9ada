#!/usr/bin/env bash
# scripts/test-images.sh: builds the images of packaging with buildah, without a registry, for amd64 and arm64, from the
# output of `make dist`; and runs those for amd64 as a container engine would, as root. A server's error for a module of
# another C library or processor must be in docs/deploy.md.
#
# No registry: the base images are made here. A Debian 13 with its servers replaces images based on Debian. musl,
# busybox and a Valkey built for musl, from scripts/server.sh or the file in RLOCK_MUSL_SERVER, replace Alpine. Their
# entrypoint does what the sources of the official ones do: server options and files go to the server, root's rights are
# dropped, and Redis's loads its modules.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/bare.sh

[ "${RLOCK_BARE:-}" = inside ] || scripts/setup.sh images
in_name_spaces "$@"
dist=$(realpath -m "${CARGO_TARGET_DIR:-target}")/dist
context=$work/context
mkdir -p "$context/packaging"
cp .dockerignore "$context"
cp packaging/entrypoint.sh "$context/packaging"
for machine in {x86_64,aarch64}-unknown-linux-{gnu,musl}; do
    [ -f "$dist/$machine/librlock.so" ] || fail "$dist/$machine/librlock.so is not there; type: make dist"
    mkdir -p "$context/target/dist/$machine"
    cp "$dist/$machine/librlock.so" "$dist/$machine/rlock" "$context/target/dist/$machine"
done
build() { buildah --storage-driver vfs --root "$work/images" --runroot "$work/run" "$@" 2>"$work/log"; }

# entrypoint KIND DROP: a replacement of the official entrypoint, with the program that drops root's rights.
entrypoint() {
    local modules=""
    # shellcheck disable=SC2016 # it is for the other shell to expand
    [ "$1" = valkey ] || modules='[ "$1" != redis-server ] || for module in /usr/local/lib/redis/modules/*.so; do
    [ ! -x "$module" ] || set -- "$@" --loadmodule "$module"
done'
    cat <<END
#!/bin/sh
set -e
case \$1 in -* | *.conf) set -- $1-server "\$@" ;; esac
if [ "\$1" = $1-server ] && [ "\$(id -u)" = 0 ]; then
    chown -R $1 .
    exec $2 "\$0" "\$@"
fi
umask 0077
$modules
exec "\$@" \$VALKEY_EXTRA_FLAGS
END
}

# base NAME ROOT KIND DROP: an image of what is in ROOT, as the official one is made.
base() {
    local container
    entrypoint "$3" "$4" >"$2/usr/local/bin/docker-entrypoint.sh"
    chmod 755 "$2/usr/local/bin/docker-entrypoint.sh"
    container=$(build from scratch)
    build add --quiet "$container" "$2" / >/dev/null
    build config --workingdir /data --entrypoint '["docker-entrypoint.sh"]' --cmd "$3-server" "$container"
    build commit --quiet --rm "$container" "$1" >/dev/null || fail "no image $1 can be made"
}

# image FILE NAME [ARG=VALUE...]: builds that container file; unpacks the image into $unpacked, what it starts into $work/image.
image() {
    local file=$1 name=$2 container argument arguments=()
    shift 2
    for argument; do arguments+=(--build-arg "$argument"); done
    build bud --isolation chroot --pull-never --platform linux/amd64 --build-arg VERSION=0.0 "${arguments[@]}" \
        -f "packaging/$file" -t "$name" "$context" >"$work/log" || fail "packaging/$file cannot be built"
    container=$(build from --pull-never "$name")
    unpacked=$(build mount "$container")
    local words='{{range .}}{{printf "%q " .}}{{end}}'
    {
        echo "entry=($(build inspect --format "{{with .OCIv1.Config.Entrypoint}}$words{{end}}" "$container"))"
        echo "command=($(build inspect --format "{{with .OCIv1.Config.Cmd}}$words{{end}}" "$container"))"
        echo "directory=$(build inspect --format '{{.OCIv1.Config.WorkingDir}}' "$container")"
    } >"$work/image"
    [ "$(build inspect --format '{{index .OCIv1.Config.Labels "org.opencontainers.image.version"}}' "$container")" = 0.0 ] ||
        fail "$name does not have the labels"

    # The same for arm64, with nothing below it, as nothing of arm64 can run here.
    build bud --isolation chroot --platform linux/arm64 "${arguments[@]}" --build-arg BASE=scratch -f "packaging/$file" \
        -t "$name:arm64" "$context" >"$work/log" || fail "packaging/$file cannot be built for arm64"
    container=$(build from --arch arm64 --pull-never "$name:arm64")
    local other
    other=$(build mount "$container")
    # shellcheck disable=SC2044 # names of ours
    for file in $(find "$other" -name librlock.so -o -name rlock -type f); do
        [ "$(od -An -tu2 -j18 -N2 "$file" | tr -d ' ')" = 183 ] || fail "$file is not for arm64"
        [ "$(stat -c %a "$file")" = 755 ] || fail "$file is not executable"
    done
    echo "-- $name: built for amd64 and arm64"
}

forms() { unshare --net packaging/image-forms.sh "$1" "$unpacked" "$work/image" || fail "an image does not behave"; }

# refuses SERVER TARGET WORDS: the server of the image that is unpacked cannot load that module, and says why as the page does.
refuses() {
    cp "$dist/$2/librlock.so" "$unpacked/tmp/librlock.so"
    ! unshare --net chroot "$unpacked" "$1" --loadmodule /tmp/librlock.so >"$work/log" 2>&1 || fail "$1 starts with $2"
    grep -qF "$3" "$work/log" || fail "$1 does not say \"$3\" of $2"
    sed -n '/^## It does not load/,$p' docs/deploy.md | grep -F "| \`" | grep -qF "$3" || fail "docs/deploy.md lacks \"$3\""
    echo "   $1 with $2: $3"
}

bare_debian trixie
# As in the official images.
in_bare groupadd --system --gid 999 valkey
in_bare useradd --system --uid 999 --gid 999 valkey
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
in_bare apt-get update -qq >"$work/log" 2>&1 || fail "apt-get update"
in_bare env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends valkey-server valkey-tools redis-server \
    redis-tools musl busybox-static >"$work/log" 2>&1 || fail "apt-get install"
in_bare usermod --non-unique --uid 999 redis >"$work/log" 2>&1
for kind in valkey redis; do
    ln -s /usr/bin/$kind-server "$root/usr/local/bin/$kind-server"
done
umount -R "$root/dev/shm" "$root/dev/pts" "$root/proc"
rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*

alpine=$work/alpine
mkdir -p "$alpine"/{bin,lib,tmp,data,etc,usr/local/bin}
chmod 1777 "$alpine/tmp"
cp "$root"/usr/bin/busybox "$alpine/bin/busybox"
for applet in $("$alpine/bin/busybox" --list); do [ "$applet" = busybox ] || ln -s busybox "$alpine/bin/$applet"; done

for kind in valkey redis; do
    base "docker.io/$kind/$kind:trixie" "$root" $kind "setpriv --reuid=$kind --regid=$kind --clear-groups --"
    image Containerfile.$kind $kind-rlock "BASE=docker.io/$kind/$kind:trixie"
    forms $kind
done
refuses valkey-server x86_64-unknown-linux-musl "libc.so: cannot open shared object file"
refuses valkey-server aarch64-unknown-linux-gnu "cannot open shared object file: No such file or directory"

base docker.io/library/busybox:1.37-musl "$alpine" valkey ""
image Containerfile.module rlock-module
mkdir -m 777 "$unpacked/modules"
for libc in gnu musl; do
    # The command of the manifests, as their user.
    chroot --userspec=999:999 --groups= "$unpacked" \
        cp /rlock/$libc/librlock.so /modules/librlock.so || fail "an init container cannot copy the module"
    cmp "$unpacked/modules/librlock.so" "$dist/x86_64-unknown-linux-$libc/librlock.so" || fail "it is another module"
    [ "$(stat -c %a "$unpacked/modules/librlock.so")" = 755 ] || fail "the copy is not executable"
done
chroot "$unpacked" rlock --version

musl=${RLOCK_MUSL_SERVER:-$(dirname "$(scripts/server.sh valkey-9.1-x86-musl)")/root/usr/bin/valkey-server} || true
if [ -f "$musl" ]; then
    cp "$musl" "$alpine/usr/local/bin/valkey-server"
    printf '#!/bin/sh\necho valkey-cli\n' >"$alpine/usr/local/bin/valkey-cli"
    chmod 755 "$alpine/usr/local/bin/valkey-cli"
    cp -L "$root/lib/ld-musl-x86_64.so.1" "$alpine/lib"
    echo "valkey:x:999:1000::/:/bin/sh" >"$alpine/etc/passwd"
    base docker.io/valkey/valkey:alpine "$alpine" valkey "su -s /bin/sh -c 'exec \"\$0\" \"\$@\"' -- valkey"
    image Containerfile.valkey valkey-rlock-alpine BASE=docker.io/valkey/valkey:alpine LIBC=musl
    forms valkey
    refuses valkey-server x86_64-unknown-linux-gnu "Error loading shared library ld-linux-x86-64.so.2"
    refuses valkey-server aarch64-unknown-linux-musl "unsupported relocation type"
else
    echo "-- not tried: the image with Alpine, as there is no Valkey built for musl"
fi
rm -rf "$root" "$work"
echo "== passed: the images"
