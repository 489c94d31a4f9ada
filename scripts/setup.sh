#!/usr/bin/env bash
# scripts/setup.sh PURPOSE, or: scripts/setup.sh install THING...: makes sure that what is needed is there, and installs
# what is missing.
#
# Every make target calls it first, so that one command is enough on a fresh machine; so it must cost next to nothing
# when all is there, and it must never ask. What it may not or cannot install, it names in one line: what was found, what
# is needed, and at its end what to type. That line calls this script again, as root, since it does more than apt-get: it
# reads the package lists first, and keeps the distribution's server from being started. scripts/test-setup.sh types it.
set -euo pipefail

usage="usage: scripts/setup.sh build|run|test|lint|package|dist|platforms|images|bench|mutants|servers|tcl|bare|fencing|clients [python] [node] [go] [java]
       scripts/setup.sh install [--replace] THING..., where the things are:
cc c++ openssl libclang rust rustup lint redis tmux tcl valgrind debootstrap qemu musl buildah git python postgresql node go java"

say() { echo "setup: $*" >&2; }

languages="" wanted="" no_remove=--no-remove
purpose=${1:-build}
case $purpose in
build | run | test | lint | package | dist | platforms | images | bench | mutants | servers | tcl | bare | fencing) ;;
clients)
    shift
    languages=${*:-python node go java}
    for language in $languages; do
        [[ " python node go java " == *" $language "* ]] || { echo "$usage" >&2 && exit 2; }
    done
    ;;
install)
    shift
    # What is in the way of these is removed.
    [ "${1:-}" != --replace ] || { no_remove="" && shift; }
    wanted=$*
    for thing in $wanted; do
        [[ " ${usage##*$'\n'} " == *" $thing "* ]] || { echo "$usage" >&2 && exit 2; }
    done
    ;;
# After a failed build: are crates missing? cargo has printed the reason.
crates)
    cargo tree --offline -p "${2:-rlock}" >/dev/null 2>&1 ||
        say "no network for cargo, which says why above. Needed are the crates of Cargo.lock. With a network (behind a" \
            "proxy: export HTTPS_PROXY=http://HOST:PORT), type the same again: it goes on from there"
    exit 1
    ;;
*) echo "$usage" >&2 && exit 2 ;;
esac

# As in the Makefile: rustup's tools come first, and only login shells of some users know where they are. Another Rust in
# that place comes last, as nothing there would make it newer. Root's own places, which `su` leaves out.
cargo_bin=${CARGO_HOME:-~/.cargo}/bin
[ -e "$cargo_bin/rustup" ] && PATH=$cargo_bin:$PATH || PATH=$PATH:$cargo_bin
PATH=$PATH:/usr/sbin:/sbin

has() { command -v "$1" >/dev/null; }

# version_from 1085 "rustc 1.95.0 (…)": is the first version in the text 1.85 or newer?
version_from() {
    [[ $2 =~ ([0-9]+)(\.([0-9]+))? ]] && ((10#${BASH_REMATCH[1]} * 1000 + 10#${BASH_REMATCH[3]:-0} >= $1))
}

# not_enough WHAT IS NEEDED: comes into $too_old, once.
not_enough() {
    local words="$1 is $2, needed is $3 or newer"
    [[ $too_old == *"$words"* ]] || too_old+="${too_old:+, }$words"
}

# is_new 1085 1.85 rustc --version: is that program there, and new enough?
is_new() {
    local least=$1 needed=$2 said
    shift 2
    has "$1" || return 1
    said=$("$@" 2>/dev/null) || said=""
    ! version_from "$least" "$said" || return 0
    [[ $said =~ [0-9]+(\.[0-9]+)* ]] || BASH_REMATCH=("of no version")
    not_enough "$(command -v "$1")" "${BASH_REMATCH[0]}" "$needed"
    return 1
}

# bindgen opens libclang itself at build time, and libclang reads clang's own headers, which on Debian are in a package
# of their own.
has_libclang() {
    local place
    [ -z "${LIBCLANG_PATH:-}" ] || return 0
    for place in /usr/lib/llvm-*/lib; do
        { compgen -G "$place/libclang.so*" || compgen -G "$place/libclang-[0-9]*.so*"; } >/dev/null || continue
        ! compgen -G "$place/clang/*/include/stddef.h" >/dev/null || return 0
    done
    for place in "/usr/lib64/libclang.so*" "/usr/lib/libclang.so*" "/usr/local/opt/llvm/lib/libclang.dylib" \
        "/opt/homebrew/opt/llvm/lib/libclang.dylib" "/Library/Developer/CommandLineTools/usr/lib/libclang.dylib"; do
        ! compgen -G "$place" >/dev/null || return 0
    done
    return 1
}

has_c() { has cc && has make && { ! has apt-get || [ -e /usr/include/stdio.h ]; }; }

has_openssl() { ! has apt-get || [ -e /usr/include/openssl/ssl.h ]; }

# What the clients' tests need of each language.
has_python() { python3 -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; }
has_node() { is_new 20000 20 node --version && has npm; }
has_go() { is_new 1024 1.24 go version; }
has_java() { is_new 17000 17 javac -version && has mvn; }

# check THING COMMAND...: THING is missing if COMMAND fails.
check() {
    local thing=$1
    shift
    "$@" || missing+=" $thing"
}

has_rust() { is_new 1085 1.85 rustc --version && has cargo; }
has_server() { is_new 7000 7.0 "${RLOCK_SERVER:-redis-server}" --version; }
# Debian's programs are not on the PATH.
has_postgresql() { has initdb || compgen -G "/usr/lib/postgresql/*/bin/initdb" >/dev/null; }
has_redis() { has_server && has redis-cli; }
# rustup has both files even when the component is missing.
has_lint() { cargo-fmt --version >/dev/null 2>&1 && cargo-clippy --version >/dev/null 2>&1; }

# What each purpose needs. Dependencies of the bare system come from test-bare.
survey() {
    missing="" too_old=""
    case $purpose in
    install) missing=${wanted:+ $wanted} && return ;;
    clients)
        for language in $languages; do check "$language" "has_$language"; done
        return
        ;;
    bare) check debootstrap has debootstrap && check git has git && return ;;
    # Servers for other machines run under qemu, and servers for musl are built here.
    platforms)
        check debootstrap has debootstrap
        check qemu has qemu-aarch64-static
        check musl has musl-gcc
        return
        ;;
    images) check debootstrap has debootstrap && check git has git && check buildah has buildah && return ;;
    # To build servers, and for the tests that servers have of their own.
    servers) check cc has_c && check c++ has c++ && check openssl has_openssl && return ;;
    tcl) check tcl has tclsh && return ;;
    fencing) check python has_python && check postgresql has_postgresql && return ;;
    # Core needs no libclang.
    mutants) check cc has_c && check rust has_rust && return ;;
    esac
    check cc has_c
    check libclang has_libclang
    check rust has_rust
    case $purpose in
    run) check redis has_redis ;;
    # The screen of `rlock top` is tested in tmux.
    test) check redis has_redis && check tmux has tmux ;;
    bench) check redis has_redis && check valgrind has valgrind ;;
    lint) check lint has_lint && check git has git ;;
    package) check git has git ;;
    # zig comes as a package of Python's, Rust's libraries for other machines by rustup.
    dist) check git has git && check python has_python && check rustup has rustup ;;
    esac
}

is_missing() { [[ "$missing " == *" $1 "* ]]; }

# Debian's Rust packages that are new enough: in Debian 12 their names end in -web, next to an older Rust without.
rust_packages() {
    local web lint=""
    for web in -web ""; do
        if version_from 1085 "$(apt-cache policy "rustc$web" | sed -n 's/^ *Candidate: //p')"; then
            ! is_missing lint || lint=" rustfmt$web rust$web-clippy"
            echo "cargo$web rustc$web$lint"
            return
        fi
    done
    return 1
}

# candidate_from 20000 nodejs: would apt install at least that version? An epoch is not part of it.
candidate_from() {
    version_from "$1" "$(apt-cache policy "$2" | sed -n 's/^ *Candidate: \([0-9]*:\)\?//p')"
}

# libclang alone and clang's headers: with the package that brings all of clang's libraries too, it is 200 MB more.
libclang_packages() {
    local number
    number=$(apt-cache depends libclang1 2>/dev/null | sed -n 's/.*Depends: libclang1-\([0-9]*\).*/\1/p' | head -n 1)
    [ -n "$number" ] && echo "libclang1-$number libclang-common-$number-dev" || echo libclang-dev
}

# offer THING PACKAGES BY-HAND: apt-get installs these packages; without packages, the user has to install the thing. If
# apt-get has no lists yet, the lists will show.
offer() {
    is_missing "$1" || return 0
    if [ -n "$2$are_lists_empty" ]; then things+=" $1" packages+=${2:+ $2}; else by_hand+=", $3"; fi
}

# What apt-get has to do, in $things and $packages, and what it removes for that, in $removed; the user's steps
# afterwards, in $steps; and what only the user can do, in $by_hand.
plan() {
    packages="" things="" by_hand="" steps=() removed=""
    offer cc "make gcc libc6-dev"
    offer c++ g++
    offer openssl libssl-dev
    ! is_missing libclang || offer libclang "$(libclang_packages)"
    offer tmux tmux
    offer tcl tcl
    offer valgrind valgrind
    offer debootstrap debootstrap
    offer qemu qemu-user-static
    offer buildah buildah
    offer musl "musl-tools linux-libc-dev"
    offer git git
    offer rustup rustup
    ! { is_missing rust || is_missing lint; } || plan_rust
    ! is_missing redis || plan_redis
    offer python "python3 python3-venv"
    offer postgresql postgresql
    offer java "default-jdk-headless maven"
    offer node "$(! candidate_from 20000 nodejs || echo nodejs npm)" "Node.js 20 or newer with npm"
    offer go "$(! candidate_from 1024 golang-go || echo golang-go)" "Go 1.24 or newer"
    packages=${packages# } by_hand=${by_hand#, }
    [ -z "$are_lists_empty" ] || packages=""
    # shellcheck disable=SC2086 # a list of words
    [ -z "$packages" ] || [ -z "$no_remove" ] || removed=$(apt-get install -s -qq --no-install-recommends $packages 2>/dev/null |
        sed -n 's/^Remv \([^ ]*\).*/\1/p' | tr '\n' ' ') || true
}

plan_redis() {
    if [ "$purpose" != install ] && [ -n "${RLOCK_SERVER:-}" ] && ! has_server; then
        not_enough RLOCK_SERVER "$RLOCK_SERVER" "a Redis 7.0"
        steps+=("unset RLOCK_SERVER")
        ! { has redis-cli && is_new 7000 7.0 redis-server --version; } || return 0
    fi
    offer redis "$(! candidate_from 7000 redis-server || echo redis-server redis-tools)" "Redis 7.0 or newer"
}

plan_rust() {
    # What apt-get installs comes to where apt-get is.
    local place rustup rust="" now="" thing
    place=$(dirname "$(command -v apt-get)")
    ! is_missing rust || now=$(command -v rustc) || true
    if [ "$purpose" != install ] && has rustup; then
        # By its path, as the shell that it is typed in may not know where rustup is.
        rustup=$(command -v rustup) && place=${rustup%/*}
        if is_missing rust; then plan_rustup "$rustup"; else steps+=("$rustup component add rustfmt clippy"); fi
    elif [ "$purpose" != install ] && [ -n "$now" ] && version_from 1085 "$("$place/rustc" --version 2>/dev/null)"; then
        : # It is there, and only hidden.
    elif rust=$(rust_packages) || [ -n "$are_lists_empty" ]; then
        for thing in rust lint; do ! is_missing $thing || things+=" $thing"; done
        packages+=${rust:+ $rust}
    elif candidate_from 1000 rustup; then
        things+=" rustup" packages+=" rustup"
        plan_rustup rustup
    else
        by_hand+=", Rust 1.85 or newer with rustfmt and clippy (https://rustup.rs)"
    fi
    [ -z "$now" ] || [ "$now" = "$place/rustc" ] || ! is_hidden "$place" "${now%/*}" || steps+=("export PATH=$place:\$PATH")
}

# is_hidden PLACE BY: does BY come before PLACE on the PATH?
is_hidden() {
    local before=":$PATH:"
    before="${before%%":$1:"*}:"
    [[ $before == *":$2:"* ]]
}

# plan_rustup RUSTUP: the newest Rust, and what makes it the one that is taken here, by why another one is now.
plan_rustup() {
    steps+=("$1 update stable")
    case $("$1" show active-toolchain 2>/dev/null) in
    *RUSTUP_TOOLCHAIN*) steps=("unset RUSTUP_TOOLCHAIN" "${steps[@]}" "$1 default stable") ;;
    *override* | *overridden*) steps+=("$1 override set stable") ;;
    *) steps+=("$1 default stable") ;;
    esac
}

# Runs as root, in any of the ways. The packages of redis-server and postgresql start a service, which would then occupy
# its port: a policy during the installation prevents it, and nothing enables it for the next boot. dpkg first has to
# complete an interrupted installation.
# The arguments begin with --no-remove, unless --replace was given: a build must not remove another Rust that was
# installed with apt.
# shellcheck disable=SC2016 # it is for the other shell to expand
readonly install_as_root='
set -eu
export DEBIAN_FRONTEND=noninteractive
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
    trap "rm -f $policy" EXIT
    trap "exit 1" HUP INT TERM
    printf "#!/bin/sh\nexit 101\n" >$policy
    chmod 755 $policy
fi
dpkg --configure -a 1>&2
apt-get install -qq -y --no-install-recommends -o APT::Status-Fd=3 "$@" </dev/null 3>&1 1>&2
for service in redis-server postgresql; do
    case " $* " in *" $service "*) update-rc.d $service disable 1>&2 ;; esac
done
'

# What apt-get writes to its Status-Fd, as a line that changes at a terminal, and elsewhere a line for each quarter.
show_progress() {
    local kind percent text quarter last="" doing
    while IFS=: read -r kind _ percent text; do
        case $kind in
        dlstatus) doing=fetched ;;
        pmstatus) doing=installed ;;
        *) continue ;;
        esac
        percent=${percent%%.*} quarter="$doing $((${percent%%.*} / 25 * 25)) %"
        if [ -t 2 ]; then
            printf '\r\033[Ksetup: %s %s %%: %.60s' "$doing" "$percent" "$text" >&2
        elif [ "$quarter" != "$last" ]; then
            say "$quarter"
        fi
        last=$quarter
    done
    [ -z "$last" ] || [ ! -t 2 ] || printf '\r\033[K' >&2
}

readonly needs="a C compiler, make, libclang with clang's headers, Rust 1.85 or newer with rustfmt and clippy, redis-server \
7.0 or newer with redis-cli, tmux; to measure, valgrind; for the clients Python 3.10, Node.js 20 with npm, Go 1.24, a \
JDK 17 with Maven, or newer"

without_apt() {
    say "missing:$missing${too_old:+ ($too_old)}. Install what of these is not there: $needs."
    exit 1
}

# The lists of a fresh container are empty, and say nothing about what there is.
lists_are_empty() { [ -z "$(apt-cache policy libc6-dev 2>/dev/null | sed -n 's/^ *Candidate: [0-9]/&/p')" ]; }

size() {
    # shellcheck disable=SC2086 # a list of words
    apt-get install --print-uris -qq --no-install-recommends $packages 2>/dev/null |
        awk '{ bytes += $3 } END { printf "%d package%s, %.0f MB to fetch", NR, NR == 1 ? "" : "s", bytes / 1e6 }'
}

# Why apt-get failed, of the many lines that it has for that, in $trouble.
look_for_trouble() {
    local no_network='(Temporary failure resolving|Could not (resolve|connect)|Unable to connect|Cannot initiate|Connection (failed|timed out|refused)).*'
    if trouble=$(grep -m 1 -oE "$no_network" "$log"); then
        trouble="no network: $trouble"
    else
        trouble=$(sed -n 's/^E: /apt-get: /p; s/^dpkg: error/dpkg: error/p' "$log" | head -n 1)
    fi
    # What it said is not kept for nothing.
    if [ -n "$trouble" ]; then trap - EXIT && trouble+=" (all of it: $log)"; fi
}

# Says what is missing, and what to type: this script as root, for what apt can install.
give_up() {
    local step line=""
    [ -z "$things" ] || line=${as_root_line/COMMAND/scripts\/setup.sh install${removed:+ --replace}$things}
    for step in "${steps[@]}"; do line+="${line:+ && }$step"; done
    say "missing:$missing${too_old:+ ($too_old)}.${trouble:+ $trouble.}${by_hand:+ Install by hand: $by_hand.}$(
    )${packages:+ By apt-get: $packages ($(size)${removed:+; removes ${removed% }}).}${line:+ Type: $line}"
    exit 1
}

# All is there. cargo-mutants, which is no package of Debian's, needs a newer Rust than rlock does, and says so itself.
ready() {
    local version=27.1.0 tools=${CARGO_TARGET_DIR:-target}/tools
    [ "$purpose" = mutants ] || exit 0
    [[ "$("$tools/bin/cargo-mutants" mutants --version 2>/dev/null)" = *" $version" ]] ||
        cargo install --quiet --locked --root "$tools" "cargo-mutants@$version"
    exit
}

survey
[ -n "$missing" ] || ready
has apt-get || without_apt

as_root_line="sudo COMMAND"
has sudo || as_root_line="su -c 'COMMAND'"
are_lists_empty="" trouble=""
! lists_are_empty || are_lists_empty=yes
plan
if [ "$(id -u)" = 0 ]; then
    as_root_line="COMMAND" as_root=""
elif has sudo && sudo -n true 2>/dev/null; then
    as_root="sudo -n"
elif [ -n "$things$by_hand" ]; then
    give_up
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
trap 'say "stopped; the same command goes on from there" && exit 130' INT TERM HUP

if [ -n "$things$by_hand" ]; then
    # The lists decide which Rust there is.
    say "reading the lists of packages: apt-get update"
    $as_root apt-get update -qq >"$log" 2>&1 || true
    are_lists_empty=""
    ! lists_are_empty || are_lists_empty=yes
    plan
fi
done=yes
if [ -n "$packages" ] && [ -z "$removed" ]; then
    say "installing $packages ($(size))"
    # shellcheck disable=SC2086 # a list of words
    $as_root sh -c "$install_as_root" sh $no_remove $packages 2>>"$log" | show_progress || done=""
elif [ -n "$things" ]; then
    done=""
fi
if [[ ${#steps[@]} = 1 && ${steps[*]} == *" component add "* ]]; then
    say "${steps[*]}"
    ${steps[*]} >>"$log" 2>&1 || done=""
fi
[ "$purpose" != install ] || [ -z "$done" ] || { [ -z "$by_hand" ] || say "by hand: $by_hand"; exit 0; }
survey
[ -n "$missing" ] || ready
plan
[ -n "$done" ] || look_for_trouble
give_up
