#!/usr/bin/env bash
# scripts/test-setup.sh: the output of scripts/setup.sh and make on machines that lack something, and whether its
# instructions help. It takes seconds, on any machine: the programs that setup calls are replaced here.
# scripts/try-setup.sh tests the real apt-get, on a bare Debian.
set -euo pipefail
cd "$(dirname "$0")/.."

place=$(mktemp -d)
said=$place/said machine="" group=""
trap '[ -z "$group" ] || kill -KILL -- "-$group" 2>/dev/null || true; rm -rf "$place"' EXIT
wrong() {
    sed 's/^/    /' "$said" >&2
    echo "test-setup: $machine: $1" >&2
    exit 1
}

# made_up PATH: a program there, which does what is on stdin.
made_up() {
    { echo "#!$(command -v bash)" && cat; } >"$1"
    chmod 755 "$1"
}

# machine WHAT: a complete machine, where apt-get can install a newer Rust. $tools is its /usr/bin.
machine() {
    machine=$1 tools=$place/bin
    # The folders of a user with rustup, or with an unpacked Rust.
    rm -rf "$tools" "$place/home" "$place/state" && mkdir -p "$tools" "$place/home/.cargo/bin" "$place/state"
    local tool
    for tool in awk bash cat chmod dirname env grep head make mktemp mv rm sed sleep tail tr uname; do
        ln -s "$(command -v "$tool")" "$tools/$tool"
    done
    for tool in cc redis-cli tmux cargo-fmt cargo-clippy; do made_up "$tools/$tool" </dev/null; done
    rust "$tools" 1.85.0
    made_up "$tools/redis-server" <<<'echo "Redis server v=7.0.15 sha=0"'
    candidates "rustc-web 1.85.0" "rustc 1.63.0" "libc6-dev 2.36" "redis-server 5:7.0.15"
    made_up "$tools/apt-cache" <<END
while read -r package version; do [ "\$2" != "\$package" ] || echo "  Candidate: \$version"; done <$place/state/candidates
END
    made_up "$tools/id" <<<'echo ${USER_ID:-1000}'
    # Commands as root would change this machine; so only apt-get with the packages is kept of them.
    made_up "$tools/sh" <<<'[[ $2 == *policy-rc.d* ]] && exec apt-get install "${@:4}" || exec /bin/sh "$@"'
    may_install yes
    installs
}

# candidates PACKAGE-VERSION...: what apt would install; without any, its lists are empty.
candidates() { [ $# = 0 ] || printf '%s\n' "$@"; } >"$place/state/candidates"

# rust DIRECTORY VERSION
rust() {
    made_up "$1/rustc" <<<"echo 'rustc $2 (0123456 2026-01-01)'"
    made_up "$1/cargo" </dev/null
}

# may_install yes|no: may this user have sudo do it without being asked for a password?
may_install() {
    made_up "$tools/sudo" <<END
[ "\$*" != "-n true" ] || { [ $1 = yes ]; exit; }
[ "\$1" != -n ] || shift
exec env USER_ID=0 "\$@"
END
}

# An apt-get that works.
installs() {
    made_up "$tools/apt-get" <<END
# Without lists it fails as the real one does.
case " \$* " in
*" -s "* | *" --print-uris "*) [ -s $place/state/candidates ] || exit 100 ;;
esac
case " \$* " in
*" -s "*) [ ! -e $place/state/conflict ] || echo "Remv rustc [1.63.0]"; exit ;;
*" --print-uris "*) printf "'x' y.deb 50000000 z\n'x' y.deb 40000000 z\n"; exit ;;
esac
for package; do
    case \$package in
    gcc) put=cc says= ;;
    rustc-web) put=rustc says="rustc 1.85.0" ;;
    redis-server) put=redis-server says="v=7.0.15" ;;
    rustup) mv $place/state/rustup $tools/rustup && continue ;;
    --no-remove) [ ! -e $place/state/conflict ] || exit 100; continue ;;
    install | update | -* | cargo* | make | libc6-dev | redis-tools) continue ;;
    *) echo "E: Unable to locate package \$package" >&2 && exit 100 ;;
    esac
    printf '#!/bin/sh\necho %s\n' "\$says" >$tools/\$put && chmod 755 $tools/\$put
done
END
}

# A rustup that has another Rust than the newest, and uses it for REASON.
with_rustup() {
    rust "$place/home/.cargo/bin" 1.70.0
    made_up "$1" <<END
case "\$*" in
"show active-toolchain") echo "1.70.0-x86_64-unknown-linux-gnu ($2)" ;;
"default stable" | "override set stable")
    [ -z "\${RUSTUP_TOOLCHAIN:-}" ] || exit 0
    printf '#!/bin/sh\necho rustc 1.95.0\n' >$place/home/.cargo/bin/rustc ;;
esac
END
}

path=""
setup() { as_user scripts/setup.sh "${1:-run}" >"$said" 2>&1 </dev/null; }
as_user() {
    env -i HOME="$place/home" PATH="${path:-$tools}" TMPDIR="$place/state" LIBCLANG_PATH=/somewhere TERM=dumb "${surroundings[@]}" "$@"
}
surroundings=(LC_ALL=C)

# refuses WORDS...: setup ends with one line that has all of these words.
refuses() {
    local words
    ! setup || wrong "nothing is missing"
    for words in "$@"; do grep -F -e "$words" <<<"$(tail -n 1 "$said")" >/dev/null || wrong "its last line has no: $words"; done
    [ "$(grep -c Type: "$said")" = 1 ] || wrong "it says what to type in more than one line"
    # Before it, what was begun.
    ! grep -v "^setup: " "$said" || wrong "these lines are not its own"
}

# The line to type, and what it is typed for.
helps() {
    [ -z "${DEBUG:-}" ] || debug="set -x;"
    local line
    line=$(sed -n 's/.*Type: //p' "$said")
    as_user bash -c "${debug:-}cd '$PWD' && { $line; } && scripts/setup.sh run" >"$said" 2>&1 </dev/null || wrong "it does not help to type: $line"
}

machine "all is there"
setup || wrong "something is missing"
[ ! -s "$said" ] || wrong "it has something to say"

machine "an older Rust, and an apt-get that has a newer one"
rust "$tools" 1.70.0
may_install no
refuses "$tools/rustc is 1.70.0, needed is 1.85 or newer" "2 packages, 90 MB to fetch" "Type: sudo scripts/setup.sh install rust"
helps

machine "Debian's older Rust, which must go for the newer one"
rust "$tools" 1.63.0
touch "$place/state/conflict"
refuses "$tools/rustc is 1.63.0" "removes rustc" "Type: sudo scripts/setup.sh install --replace rust"
helps

machine "an older Rust in ~/.cargo/bin, without rustup, which comes first on the PATH"
rm "$tools/rustc" "$tools/cargo"
rust "$place/home/.cargo/bin" 1.70.0
path=$place/home/.cargo/bin:$tools
may_install no
refuses "Type: sudo scripts/setup.sh install rust && export PATH=$tools:\$PATH"
helps

machine "the same, and the newer one is there already"
rust "$place/home/.cargo/bin" 1.70.0
refuses "$place/home/.cargo/bin/rustc is 1.70.0" "Type: export PATH=$tools:\$PATH"
helps
path=""

for reason in "default" "directory override for '/'" "overridden by environment variable RUSTUP_TOOLCHAIN"; do
    machine "a rustup with an older Rust: $reason"
    with_rustup "$place/home/.cargo/bin/rustup" "$reason"
    [[ $reason != *RUSTUP_TOOLCHAIN ]] || surroundings+=(RUSTUP_TOOLCHAIN=1.70.0)
    refuses "$place/home/.cargo/bin/rustc is 1.70.0, needed is 1.85 or newer" "$place/home/.cargo/bin/rustup update stable && "
    helps
    surroundings=(LC_ALL=C)
done

machine "an apt-get whose Rust is too old, but which has rustup"
rust "$tools" 1.75.0
candidates "rustc 1.75.0" "rustup 1.26.0" "libc6-dev 2.36" "redis-server 5:7.0.15"
with_rustup "$place/state/rustup" default
rm "$place/home/.cargo/bin"/*
sed -i "s|$place/home/.cargo/bin|$tools|" "$place/state/rustup"
may_install no
refuses "$tools/rustc is 1.75.0" "Type: sudo scripts/setup.sh install rustup && rustup update stable && rustup default stable"
helps

machine "an older Redis"
made_up "$tools/redis-server" <<<'echo "Redis server v=6.0.16 sha=0"'
may_install no
refuses "$tools/redis-server is 6.0.16, needed is 7.0 or newer" "Type: sudo scripts/setup.sh install redis"
helps

machine "an apt-get that has no Rust and no Redis that is new enough"
rust "$tools" 1.63.0
made_up "$tools/redis-server" <<<'echo "Redis server v=6.0.16 sha=0"'
candidates "rustc 1.63.0" "libc6-dev 2.36" "redis-server 5:6.0.16"
! setup || wrong "nothing is missing"
for thing in "Rust 1.85 or newer with rustfmt and clippy (https://rustup.rs)" "Redis 7.0 or newer"; do
    grep "Install by hand: .*$thing" "$said" >/dev/null || wrong "it does not say to install $thing"
done

machine "a RLOCK_SERVER that is not there"
surroundings+=(RLOCK_SERVER=/nowhere/redis-server)
refuses "RLOCK_SERVER is /nowhere/redis-server" "Type: unset RLOCK_SERVER"
helps
surroundings=(LC_ALL=C)

# fails_with TEXT...: an apt-get that cannot do what it is asked, and says so in many words.
fails_with() {
    mv "$tools/apt-get" "$tools/apt-get-works"
    made_up "$tools/apt-get" <<END
case " \$* " in
*" -s "* | *" --print-uris "*) exec apt-get-works "\$@" ;;
*" update "*) [ ! -e $place/state/no-update ] || { printf 'W: Failed to fetch http://x/InRelease  $1\n%.0s' {1..20}; } >&2 ;;
*) printf 'E: Failed to fetch http://x/y.deb  $1\n%.0s' {1..40} >&2; exit 100 ;;
esac
END
}
works_again() { mv "$tools/apt-get-works" "$tools/apt-get"; }

while IFS="|" read -r trouble told; do
    machine "apt-get fails: $trouble"
    rm "$tools/rustc"
    fails_with "$trouble"
    refuses "$told" "$trouble" "missing: rust" "Type: sudo scripts/setup.sh install rust"
    [ "$(grep -c . "$said")" -le 3 ] || wrong "that is more than three lines"
    works_again
    helps
done <<'END'
Temporary failure resolving mirror.example|no network: Temporary failure resolving
No space left on device|apt-get: Failed to fetch
END

machine "no network, and lists of packages that are empty"
rm "$tools/rustc" "$tools/cc"
candidates
touch "$place/state/no-update"
fails_with "Could not connect to 127.0.0.1:3128 (127.0.0.1)."
refuses "no network: Could not connect to 127.0.0.1:3128" "missing: cc rust" "Type: sudo scripts/setup.sh install cc rust"
candidates "rustc-web 1.85.0" "libc6-dev 2.36"
works_again
helps

machine "Ctrl-C while apt-get installs"
rm "$tools/rustc"
mv "$tools/apt-get" "$tools/apt-get-works"
made_up "$tools/apt-get" <<END
case " \$* " in
*" -s "* | *" --print-uris "* | *" update "*) exec apt-get-works "\$@" ;;
*) echo >$place/state/installing; exec sleep 60 ;;
esac
END
# The parent process may have set Ctrl-C to be ignored.
set -m
as_user env --default-signal=INT scripts/setup.sh run >"$said" 2>&1 </dev/null &
group=$!
set +m
until [ -s "$place/state/installing" ]; do
    kill -0 "$group" 2>/dev/null || wrong "it ends before it installs"
    sleep 0.05
done
kill -INT -- "-$group"
status=0
wait "$group" || status=$?
group=""
[ "$status" = 130 ] || wrong "it ends with $status"
grep -F "stopped; the same command goes on from there" <<<"$(tail -n 1 "$said")" >/dev/null || wrong "it does not say that it was stopped"
[ -z "$(find "$place/state" -name 'tmp.*')" ] || wrong "it leaves something behind: $(ls "$place/state")"
works_again
setup || wrong "the same command does not go on"

machine "no git"
may_install no
for purpose in lint package; do
    ! setup $purpose || wrong "nothing is missing"
    grep -F "Type: sudo scripts/setup.sh install git" "$said" >/dev/null || wrong "it does not say what to type"
done

machine "crates that cargo cannot fetch"
made_up "$tools/cargo" <<<'[ "$1" != tree ]'
! setup crates || wrong "it takes the failure away"
grep -F "no network for cargo" "$said" >/dev/null || wrong "it does not say that there is no network"
machine "a build that fails for another reason"
! setup crates || wrong "it takes the failure away"
[ ! -s "$said" ] || wrong "it says something although the crates are there"

machine "no bash"
rm "$tools/bash"
! as_user make run >"$said" 2>&1 || wrong "make run goes on without bash"
grep -F "the scripts of rlock need bash" "$said" >/dev/null || wrong "it does not say what is needed"

machine "no apt-get"
rm "$tools"/{cc,rustc,cargo,redis-server,redis-cli,tmux,apt-get,apt-cache}
! setup test || wrong "nothing is missing"
grep -F "Install what of these is not there: a C compiler" "$said" >/dev/null || wrong "it does not say what is needed"

if command -v bmake >/dev/null; then
    machine "a make that is not GNU's"
    ! bmake run >"$said" 2>&1 || wrong "bmake goes on"
    grep -F "these rules are for GNU make" "$said" >/dev/null || wrong "bmake does not say what is needed"
else
    echo "test-setup: another make than GNU's is left out, as there is no bmake" >&2
fi
echo "test-setup: passed"
