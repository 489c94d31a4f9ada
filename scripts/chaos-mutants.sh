#!/usr/bin/env bash
# scripts/chaos-mutants.sh [NAME...]: runs chaos against builds with one defect each: all, or those named.
#
# If chaos finds nothing, it may be blind. So each patch in chaos/mutants breaks one promise of the module or of the
# client, as a mistake might; this builds each, and chaos must catch it. First chaos must find nothing without a defect
# in the same worlds with the same seeds. The results are then in docs/proof/mutants.md, if the tree is committed; the
# output of each run is in target/mutants/logs, and the histories in target/mutants/histories.
#
# Where Go is, Porcupine judges the same histories (scripts/check-histories.sh), and the page says what it makes of them.
#
# Only defects that core's own tests cannot see are here: `make core-mutants` covers core's.
#
# A patch says in its first lines what is wrong, whether it is to be built into the module or the client, and in which
# world the chaos is to look for it.
#
# SEEDS: which are tried, one after the other until one catches the defect. LENGTH: of each run, in seconds.
set -euo pipefail
cd "$(dirname "$0")/.."

read -ra seeds <<<"${SEEDS:-1 2 3 4 5 6 7 8 9}"
length=${LENGTH:-12}
place=$(realpath -m "${CARGO_TARGET_DIR:-target}")/mutants
sources=$place/source built=$place/build/debug sound=$place/sound logs=$place/logs

# After its time is up, a run ends what it has begun and checks the rest.
limit=$((length + 120))

patches=chaos/mutants
. scripts/mutants.sh

mapfile -t names < <(named "$@")
for name in "${names[@]}"; do
    check_said "$name" "what is wrong" world
    [[ $(said "$name" builds) =~ ^(module|client)$ ]] || wrong "$name does not say what it builds: module or client"
done

# Quickly, and as few files as need be. Warnings would be about what a defect has left without use.
build() {
    CARGO_TARGET_DIR=$place/build CARGO_PROFILE_DEV_DEBUG=0 RUSTFLAGS="${RUSTFLAGS:-} --cap-lints allow" \
        cargo build --quiet --manifest-path "$sources/Cargo.toml" "$@"
}

# try NAME SEED WORLD CHAOS MODULE: one run. What came of it is then in $outcome: clean, caught or what went wrong; with
# the promises that were broken in $promises, and the time that it took in $took.
try() {
    local log=$logs/$1-$3-$2.log status=0 began=$SECONDS
    RLOCK_MODULE=$5 timeout --kill-after=10 "$limit" \
        "$4" run --seed "$2" --seconds "$length" --until-violation --keep --world "$3" --directory "$place/histories/$1" \
        >"$log" 2>&1 || status=$?
    took=$((SECONDS - began))
    promises=$(sed -n 's/^VIOLATION \([^:]*\): .*/\1/p' "$log" | sort -u | paste -sd' ')
    case $status,$promises in
        0,) outcome=clean ;;
        1,?*) outcome=caught ;;
        124,* | 137,*) outcome="the run did not end in $limit s: ${log#"$PWD/"}" ;;
        *) outcome="the run itself failed, with the exit code $status: ${log#"$PWD/"}" ;;
    esac
}

# Where nothing is broken, nothing may be found. Two seeds are enough here: make chaos tries many.
try_sound() {
    local world seed
    for world in "$@"; do
        for seed in "${seeds[@]:0:2}"; do
            try sound "$seed" "$world" "$sound/rlock-chaos" "$sound/librlock.so"
            echo "nothing broken, $world, seed $seed: $outcome ($took s)"
            if [ "$outcome" != clean ]; then
                grep '^VIOLATION ' "$logs/sound-$world-$seed.log" || true
                echo "chaos-mutants: a sound build does not pass, so what is found in others says nothing" >&2
                exit 1
            fi
        done
    done
}

# by_porcupine DIRECTORY: its verdict on the histories there, in two cells.
by_porcupine() {
    local verdict
    verdict=$("$place/../porcupine" "$1" | tail -n 1) || true
    case $verdict in
        *", ILLEGAL: "*) echo "rejected | $(operations_of "$verdict")" ;;
        *", ok: "*) echo "accepted | $(operations_of "$verdict")" ;;
        *) echo "undecided | $(operations_of "$verdict")" ;;
    esac
}

operations_of() { sed 's/.*: \([0-9]*\) operations judged.*/\1/' <<<"$1"; }

# try_mutant NAME: sets $result and $after.
try_mutant() {
    local seed world chaos=$sound/rlock-chaos module=$sound/librlock.so
    world=$(said "$1" world) after=""
    if ! apply "$1"; then
        result="FAIL: the patch does not apply"
        return
    fi
    case $(said "$1" builds) in
        module) build -p rlock && module=$built/librlock.so || module="" ;;
        client) build -p rlock-chaos && chaos=$built/rlock-chaos || chaos="" ;;
    esac
    if [ -z "$chaos" ] || [ -z "$module" ]; then
        result="FAIL: it does not build"
    else
        for seed in "${seeds[@]}"; do
            try "$1" "$seed" "$world" "$chaos" "$module"
            [ "$outcome" = clean ] || break
        done
        case $outcome in
            caught) result=$promises after="$took s, seed $seed" ;;
            clean) result="SURVIVED: nothing was found with the seeds ${seeds[*]}" ;;
            *) result="FAIL: $outcome" ;;
        esac
    fi
    apply "$1" --reverse
}

rm -rf "$logs" "$place/histories"
mkdir -p "$logs" "$sound"
copy_sources
build -p rlock -p rlock-chaos
has_go=""
if command -v go >/dev/null; then scripts/check-histories.sh && has_go=yes; fi
# Copies: what cargo has built may be a link to what it builds next. Servers have a clock of their own only if its library
# lies beside the program.
cp "$built/librlock.so" "$built/rlock-chaos" "$built/deps/librlock_chaos_clock.so" "$sound"

mapfile -t worlds < <(for name in "${names[@]}"; do said "$name" world; done | sort -u)
try_sound "${worlds[@]}"
if [ -n "$has_go" ]; then
    verdict=$(by_porcupine "$place/histories/sound")
    echo "nothing broken: by Porcupine ${verdict/ |/, operations judged:}"
    [[ $verdict == accepted* ]] || { echo "chaos-mutants: Porcupine does not accept the histories of a sound build" >&2 && exit 1; }
fi

rows="" failed=0 caught=0 commit=$(git log -1 --format=%h -- core/src src client-core client chaos/src)
# Those of the client last: after them the module need not be built again.
for kind in module client; do
    for name in "${names[@]}"; do
        [ "$(said "$name" builds)" = "$kind" ] || continue
        try_mutant "$name"
        echo "$name: $result${after:+ ($after)}"
        if [ -n "$after" ]; then
            caught=$((caught + 1))
            rows+="| $name | $kind | $(said "$name" world) | $result | $after | $commit |"$'\n'
            [ -z "$has_go" ] || {
                verdict=$(by_porcupine "$place/histories/$name")
                echo "  by Porcupine: ${verdict/ |/, operations judged:}"
                rows+="| chaos/mutants/$name.patch | $verdict | $commit |"$'\n'
            }
        else
            failed=1
        fi
    done
done

printf '\n%s' "$rows"
if git diff --quiet HEAD -- core/src src client-core client chaos/src chaos/mutants; then
    scripts/mutants-page.sh <<<"$rows"
else
    echo "chaos-mutants: there are changes without a commit, so the page does not tell of this run" >&2
fi
echo "caught: $caught of ${#names[@]}, in $((SECONDS / 60)) min $((SECONDS % 60)) s"
exit "$failed"
