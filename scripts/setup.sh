#!/usr/bin/env bash
# scripts/setup.sh [build|test|lint|bench|bare|clients [python] [node] [go] [java]]: makes sure that what is needed is
# there, and installs what is missing.
#
# Every make target calls it first, so that one command is enough on a fresh machine; so it must cost next to nothing
# when all is there, and it must never ask: what it may not install, it names in one line that can be typed as it is.
set -euo pipefail

usage="usage: scripts/setup.sh [build|test|lint|bench|bare|clients [python] [node] [go] [java]]"
purpose=${1:-build}
case $purpose in
build | test | lint | bench | bare) ;;
clients)
    shift
    languages=${*:-python node go java}
    for language in $languages; do
        [[ " python node go java " == *" $language "* ]] || { echo "$usage" >&2 && exit 2; }
    done
    ;;
*) echo "$usage" >&2 && exit 2 ;;
esac

# rustup puts its tools there, and only login shells of some users know.
PATH=${CARGO_HOME:-~/.cargo}/bin:$PATH

has() { command -v "$1" >/dev/null; }

# version_from 1085 "rustc 1.95.0 (…)": is the first version in the text 1.85 or newer?
version_from() {
    [[ $2 =~ ([0-9]+)\.([0-9]+) ]] && ((BASH_REMATCH[1] * 1000 + BASH_REMATCH[2] >= $1))
}

# bindgen opens libclang itself at build time. On Debian only the -dev package brings clang's own headers too, and only
# that one has the file without a number at its end.
has_libclang() {
    local place
    [ -z "${LIBCLANG_PATH:-}" ] || return 0
    for place in "/usr/lib/llvm-*/lib/libclang.so" "/usr/lib64/libclang.so*" "/usr/lib/libclang.so*" \
        "/usr/local/opt/llvm/lib/libclang.dylib" "/opt/homebrew/opt/llvm/lib/libclang.dylib" \
        "/Library/Developer/CommandLineTools/usr/lib/libclang.dylib"; do
        ! compgen -G "$place" >/dev/null || return 0
    done
    return 1
}

# What the clients' tests need of each language.
has_python() { python3 -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; }
has_node() { has npm && version_from 20000 "$(node --version 2>/dev/null)"; }
has_go() { version_from 1024 "$(go version 2>/dev/null)"; }
has_java() { has mvn && version_from 17000 "$(javac -version 2>/dev/null).0"; }

survey_clients() {
    local language
    missing=""
    for language in $languages; do
        "has_$language" || missing+=" $language"
    done
}

survey() {
    [ "$purpose" != clients ] || { survey_clients && return; }
    missing=""
    if [ "$purpose" = bare ]; then
        # All else is to come from where it is bare.
        has debootstrap || missing+=" debootstrap"
        has git || missing+=" git"
        return
    fi
    has cc && has make || missing+=" cc"
    has_libclang || missing+=" libclang"
    has cargo && version_from 1085 "$(rustc --version 2>/dev/null)" || missing+=" rust"
    if [ "$purpose" = test ] || [ "$purpose" = bench ]; then
        version_from 7000 "$("${RLOCK_SERVER:-redis-server}" --version 2>/dev/null)" && has redis-cli ||
            missing+=" redis"
        [ "$purpose" = test ] || has valgrind || missing+=" valgrind"
        # The screen of `rlock top` is tested in it.
        [ "$purpose" = bench ] || has tmux || missing+=" tmux"
    elif [ "$purpose" = lint ]; then
        # rustup has a file of either name even when the component behind it is not there.
        cargo-fmt --version >/dev/null 2>&1 && cargo-clippy --version >/dev/null 2>&1 || missing+=" lint"
    fi
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

# What apt-get, rustup and the user have to do, in $packages, $rustup and $by_hand.
plan() {
    packages="" rustup="" by_hand=""
    ! is_missing cc || packages+=" build-essential"
    ! is_missing libclang || packages+=" libclang-dev"
    ! is_missing redis || packages+=" redis-server redis-tools"
    ! is_missing tmux || packages+=" tmux"
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
    [ "$purpose" != clients ] || plan_clients
    packages=${packages# }
}

# Runs as root, by whichever way. The package of redis-server starts a service, which would sit on port 6379 from then
# on: a policy for the time of the installation prevents it, and nothing enables it for the next boot either.
# --no-remove: another Rust that somebody installed by apt is not thrown out by a build.
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
apt-get install -qq -y --no-install-recommends --no-remove "$@" </dev/null
case " $* " in *" redis-server "*) update-rc.d redis-server disable ;; esac
'

give_up() {
    local command=""
    [ -z "$packages" ] || command="$root_shell 'apt-get update && apt-get install --no-install-recommends $packages'"
    [ -z "$rustup" ] || command+="${command:+ && }$rustup"
    echo "setup: missing:$missing. ${command:+Type: $command}${by_hand:+ Install by hand: $by_hand.}" >&2
    exit 1
}

survey
[ -n "$missing" ] || exit 0

if ! has apt-get; then
    echo "setup: missing:$missing. Install with this system's package manager what of these is not there:" \
        "a C compiler, make, libclang with its headers, Rust 1.85 or newer with rustfmt and clippy," \
        "redis-server 7.0 or newer, redis-cli, tmux; to measure, valgrind; for the clients Python 3.10, Node.js 20 with npm," \
        "Go 1.24, a JDK 17 with Maven, or newer." >&2
    exit 1
fi

root_shell="sudo sh -c"
has sudo || root_shell="su -c"
if [ "$(id -u)" = 0 ]; then
    root_shell="sh -c" as_root=""
elif has sudo && sudo -n true 2>/dev/null; then
    as_root="sudo -n"
else
    plan
    give_up
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
plan
if [ -n "$packages$by_hand" ]; then
    # The lists decide which Rust there is; those of a fresh container are empty.
    $as_root apt-get update -qq >"$log" 2>&1 || cat "$log" >&2
    plan
fi
if [ -n "$packages" ]; then
    echo "setup: installing $packages" >&2
    # shellcheck disable=SC2086 # a list of words
    $as_root sh -c "$install_as_root" sh $packages >"$log" 2>&1 || { cat "$log" >&2 && give_up; }
fi
if [ "$rustup" = "rustup component add rustfmt clippy" ]; then
    $rustup >"$log" 2>&1 || { cat "$log" >&2 && give_up; }
fi
survey
[ -z "$missing" ] || { plan && give_up; }
