#!/usr/bin/env bash
# scripts/setup.sh PURPOSE, or: scripts/setup.sh install THING...: makes sure that what is needed is there, and installs
# what is missing.
#
# Every make target calls it first, so that one command is enough on a fresh machine; so it must cost next to nothing
# when all is there, and it must never ask: what it may not install, it names in one line that can be typed as it is.
# That line calls this script again, as root, since it does more than apt-get: it reads the package lists first, and
# keeps the distribution's server from being started.
set -euo pipefail

usage="usage: scripts/setup.sh build|run|test|lint|bench|servers|tcl|bare|clients [python] [node] [go] [java]
       scripts/setup.sh install cc|c++|openssl|libclang|rust|lint|redis|tmux|tcl|valgrind|debootstrap|git|python|node|go|java..."
languages="" wanted=""
purpose=${1:-build}
case $purpose in
build | run | test | lint | bench | servers | tcl | bare) ;;
clients)
    shift
    languages=${*:-python node go java}
    for language in $languages; do
        [[ " python node go java " == *" $language "* ]] || { echo "$usage" >&2 && exit 2; }
    done
    ;;
install)
    shift
    wanted=$*
    for thing in $wanted; do
        [[ " cc c++ openssl libclang rust lint redis tmux tcl valgrind debootstrap git python node go java " == *" $thing "* ]] ||
            { echo "$usage" >&2 && exit 2; }
    done
    ;;
*) echo "$usage" >&2 && exit 2 ;;
esac

# rustup puts its tools there, and only login shells of some users know. Root's own, which `su` leaves out.
PATH=${CARGO_HOME:-~/.cargo}/bin:$PATH:/usr/sbin:/sbin

has() { command -v "$1" >/dev/null; }

# version_from 1085 "rustc 1.95.0 (…)": is the first version in the text 1.85 or newer?
version_from() {
    [[ $2 =~ ([0-9]+)\.([0-9]+) ]] && ((BASH_REMATCH[1] * 1000 + BASH_REMATCH[2] >= $1))
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
has_node() { has npm && version_from 20000 "$(node --version 2>/dev/null)"; }
has_go() { version_from 1024 "$(go version 2>/dev/null)"; }
has_java() { has mvn && version_from 17000 "$(javac -version 2>/dev/null).0"; }

# check THING COMMAND...: THING is missing if COMMAND fails.
check() {
    local thing=$1
    shift
    "$@" || missing+=" $thing"
}

has_rust() { has cargo && version_from 1085 "$(rustc --version 2>/dev/null)"; }
has_redis() { version_from 7000 "$("${RLOCK_SERVER:-redis-server}" --version 2>/dev/null)" && has redis-cli; }
# rustup has a file of either name even when the component behind it is not there.
has_lint() { cargo-fmt --version >/dev/null 2>&1 && cargo-clippy --version >/dev/null 2>&1; }

# What each purpose needs. All that a bare system needs is to come from where it is bare.
survey() {
    missing=""
    case $purpose in
    install) missing=${wanted:+ $wanted} && return ;;
    clients)
        for language in $languages; do check "$language" "has_$language"; done
        return
        ;;
    bare) check debootstrap has debootstrap && check git has git && return ;;
    # To build servers, and for the tests that servers have of their own.
    servers) check cc has_c && check c++ has c++ && check openssl has_openssl && return ;;
    tcl) check tcl has tclsh && return ;;
    esac
    check cc has_c
    check libclang has_libclang
    check rust has_rust
    case $purpose in
    run) check redis has_redis ;;
    # The screen of `rlock top` is tested in tmux.
    test) check redis has_redis && check tmux has tmux ;;
    bench) check redis has_redis && check valgrind has valgrind ;;
    lint) check lint has_lint ;;
    esac
}

is_missing() { [[ "$missing " == *" $1 "* ]]; }

# Rust's packages that are new enough: Debian 12 has them under names with -web, beside an older Rust without.
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

plan_clients() {
    ! is_missing python || packages+=" python3 python3-venv"
    ! is_missing java || packages+=" default-jdk-headless maven"
    if is_missing node; then
        candidate_from 20000 nodejs && packages+=" nodejs npm" || by_hand+=", Node.js 20 or newer with npm"
    fi
    if is_missing go; then
        candidate_from 1024 golang-go && packages+=" golang-go" || by_hand+=", Go 1.24 or newer"
    fi
    by_hand=${by_hand#, }
}

# libclang alone and clang's headers: with the package that brings all of clang's libraries too, it is 200 MB more.
libclang_packages() {
    local number
    number=$(apt-cache depends libclang1 2>/dev/null | sed -n 's/.*Depends: libclang1-\([0-9]*\).*/\1/p' | head -n 1)
    [ -n "$number" ] && echo "libclang1-$number libclang-common-$number-dev" || echo libclang-dev
}

# What apt-get, rustup and the user have to do, in $packages, $rustup and $by_hand.
plan() {
    packages="" rustup="" by_hand=""
    ! is_missing cc || packages+=" make gcc libc6-dev"
    ! is_missing c++ || packages+=" g++"
    ! is_missing openssl || packages+=" libssl-dev"
    ! is_missing libclang || packages+=" $(libclang_packages)"
    ! is_missing redis || packages+=" redis-server redis-tools"
    ! is_missing tmux || packages+=" tmux"
    ! is_missing tcl || packages+=" tcl"
    ! is_missing valgrind || packages+=" valgrind"
    ! is_missing debootstrap || packages+=" debootstrap"
    ! is_missing git || packages+=" git"
    if has rustup; then
        ! is_missing lint || rustup="rustup component add rustfmt clippy"
        ! is_missing rust || rustup="rustup update stable && rustup default stable"
    elif is_missing rust || is_missing lint; then
        local rust
        if rust=$(rust_packages); then
            packages+=" $rust"
        else
            by_hand="Rust 1.85 or newer with rustfmt and clippy, which rustup installs"
        fi
    fi
    plan_clients
    packages=${packages# }
}

# Runs as root, by whichever way. The package of redis-server starts a service, which would sit on port 6379 from then
# on: a policy for the time of the installation prevents it, and nothing enables it for the next boot either.
# --no-remove: another Rust that somebody installed by apt is not thrown out by a build.
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
apt-get install -qq -y --no-install-recommends --no-remove -o APT::Status-Fd=3 "$@" </dev/null 3>&1 1>&2
case " $* " in *" redis-server "*) update-rc.d redis-server disable 1>&2 ;; esac
'

say() { echo "setup: $*" >&2; }

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

# The lines for systems without apt. Nobody has tried them there.
other_line() {
    local manager=$1 thing names=""
    for thing in $missing; do
        case $manager:$thing in
        dnf:cc) names+=" make gcc" ;;
        dnf:c++) names+=" gcc-c++" ;;
        dnf:libclang) names+=" clang-devel" ;;
        dnf:lint) names+=" rustfmt clippy" ;;
        dnf:python) names+=" python3" ;;
        dnf:node) names+=" nodejs npm" ;;
        dnf:java) names+=" java-devel maven" ;;
        apk:cc) names+=" build-base" ;;
        apk:c++) names+=" g++" ;;
        apk:libclang) names+=" clang-dev" ;;
        apk:lint) names+=" rustfmt rust-clippy" ;;
        apk:python) names+=" python3" ;;
        apk:node) names+=" nodejs npm" ;;
        apk:java) names+=" openjdk21 maven" ;;
        brew:cc | brew:c++) names+=" gcc make" ;;
        brew:libclang) names+=" llvm" ;;
        brew:lint) names+=" rust" ;;
        brew:java) names+=" openjdk maven" ;;
        brew:debootstrap) ;;
        dnf:rust | apk:rust) names+=" rust cargo" ;;
        *) names+=" $thing" ;;
        esac
    done
    case $manager in
    dnf) echo "sudo dnf install$names" ;;
    apk) echo "apk add$names" ;;
    brew) echo "brew install$names" ;;
    esac
}

readonly needs="a C compiler, make, libclang with clang's headers, Rust 1.85 or newer with rustfmt and clippy, redis-server \
7.0 or newer with redis-cli, tmux; to measure, valgrind; for the clients Python 3.10, Node.js 20 with npm, Go 1.24, a \
JDK 17 with Maven, or newer"

without_apt() {
    local manager
    for manager in dnf apk brew; do
        ! has "$manager" ||
            { say "missing:$missing. Type, untried: $(other_line "$manager")   (Rust must be 1.85 or newer)" && exit 1; }
    done
    say "missing:$missing. Install what of these is not there: $needs."
    exit 1
}

# Says what is missing, and what to type: this script as root, for what apt can install.
give_up() {
    local thing things="" command=""
    for thing in $missing; do
        # What rustup has to do is the user's own, and what apt is too old for is for nobody's apt.
        [[ -n $rustup && " rust lint " == *" $thing "* ]] || things+=" $thing"
    done
    [ -n "$packages" ] || [ -n "$are_lists_empty" ] || things=""
    [ -z "$things" ] || command=${as_root_line/COMMAND/scripts\/setup.sh install$things}
    [ -z "$rustup" ] || command+="${command:+ && }$rustup"
    say "missing:$missing.${command:+ Type: $command}${by_hand:+ Install by hand: $by_hand.}"
    [ -z "$things" ] || say "(${packages:+apt-get install of $packages, }after apt-get update, without starting a server)"
    exit 1
}

# The lists of a fresh container are empty, and say nothing about what there is.
lists_are_empty() { [ -z "$(apt-cache policy libc6-dev 2>/dev/null | sed -n 's/^ *Candidate: [0-9]/&/p')" ]; }

survey
[ -n "$missing" ] || exit 0
has apt-get || without_apt

as_root_line="sudo COMMAND"
has sudo || as_root_line="su -c 'COMMAND'"
are_lists_empty=""
! lists_are_empty || are_lists_empty=yes
plan
if [ "$(id -u)" = 0 ]; then
    as_root_line="COMMAND" as_root=""
elif has sudo && sudo -n true 2>/dev/null; then
    as_root="sudo -n"
elif [ -n "$packages$by_hand" ]; then
    [ -z "$are_lists_empty" ] || packages="" by_hand=""
    give_up
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed() {
    cat "$log" >&2
    give_up
}

if [ -n "$packages$by_hand" ]; then
    # The lists decide which Rust there is.
    say "reading the lists of packages: apt-get update"
    $as_root apt-get update -qq >"$log" 2>&1 || cat "$log" >&2
    are_lists_empty=""
    plan
fi
if [ -n "$packages" ]; then
    # shellcheck disable=SC2086 # a list of words
    size=$(apt-get install --print-uris -qq --no-install-recommends $packages 2>/dev/null |
        awk '{ bytes += $3 } END { printf "%d packages, %.0f MB to fetch", NR, bytes / 1e6 }') || size="apt-get"
    say "installing $packages ($size)"
    # shellcheck disable=SC2086 # a list of words
    $as_root sh -c "$install_as_root" sh $packages 2>"$log" | show_progress || failed
fi
if [ "$rustup" = "rustup component add rustfmt clippy" ]; then
    say "$rustup"
    $rustup >"$log" 2>&1 || failed
fi
[ "$purpose" != install ] || { [ -z "$by_hand" ] || say "by hand: $by_hand"; exit 0; }
survey
[ -z "$missing" ] || { plan && give_up; }
