#!/usr/bin/env bash
# scripts/core-mutants.sh [--all | FILE...]: mutants of core/src by cargo-mutants, judged by core's own tests. Without a
# file: those in the files that have changed since the commit in their row of docs/proof/mutants.md.
#
# Each mutant is judged at most three times: by a few short histories, which catch most in a second; if it survives, by
# more of them; then by the full tests. A mutant takes 3 to 6 s on a quiet machine, so a file takes minutes, and --all
# about two hours. JOBS: how many at a time. The output of cargo-mutants is in target/core-mutants.
#
# A missed mutant needs a test, or, if it changes nothing, a line in core/mutants.toml that says why.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
export PATH=$target/tools/bin:$PATH
place=$target/core-mutants out=$target/core-mutants/mutants.out
# Each copy of the sources has a place of its own for what is built of it.
unset CARGO_TARGET_DIR
# No backtrace is read.
export CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_TEST_DEBUG=0

mutants() {
    cargo mutants --config core/mutants.toml --package rlock-core --colors never "$@"
}

# row FILE: its row in the page.
row() {
    grep -F "| $1 |" docs/proof/mutants.md || true
}

code() {
    grep -v '^ *//'
}

# Whether the code of a file has changed since its mutants were tried: a comment has none.
has_changed() {
    local commit
    commit=$(row "$1" | sed 's/.*| \([0-9a-f]*\) |$/\1/')
    [ -z "$commit" ] || ! cmp -s <(git show "$commit:$1" 2>/dev/null | code) <(code <"$1")
}

mapfile -t all < <(mutants --list | cut -d: -f1 | sort -u)
if [ "${1:-}" = --all ]; then
    files=("${all[@]}")
elif [ $# -gt 0 ]; then
    files=("$@")
else
    files=()
    for file in "${all[@]}"; do ! has_changed "$file" || files+=("$file"); done
fi
[ ${#files[@]} -gt 0 ] || { echo "core-mutants: no file of core has changed since it was tried" && exit 0; }

# judge NAME OPTION...: tries the mutants that were not caught yet, and puts the results into $place/NAME.
judge() {
    # The exit code also shows whether any are missed or have no end.
    local status=0
    mutants --output "$place" --jobs "${JOBS:-2}" --iterate "${files[@]/#/--file=}" "${@:2}" || status=$?
    case $status in
    0 | 2 | 3) cp "$out"/*.txt "$place/$1" ;;
    *) echo "core-mutants: cargo-mutants has failed, with the exit code $status" >&2 && exit 1 ;;
    esac
}

# survive NAME: whether any mutant does.
survive() {
    [ -s "$place/$1/missed.txt" ] || [ -s "$place/$1/timeout.txt" ]
}

rm -rf "$place" && mkdir -p "$place"
# A random history that fails need not be made shorter.
export PROPTEST_MAX_SHRINK_ITERS=0
mkdir "$place"/{few,more,whole}
touch "$place"/{few,more,whole}/{caught,missed,timeout,unviable}.txt
# Core's own tests judge, and no others.
tests=(-- --lib --test model --test words)
# Most of the time is that of building, and without optimization it is a third.
quickly=(--cargo-arg=--config=profile.dev.package.rlock-{core,sim}.opt-level=0 "${tests[@]}" -- --skip hand_over)
EXPLORE_STEPS=1 PROPTEST_CASES=10 judge few "${quickly[@]}"
! survive few || EXPLORE_STEPS=3 PROPTEST_CASES=100 judge more "${tests[@]}"
! survive more || judge whole "${tests[@]}"

# Of what was tried: later commits elsewhere change nothing of it.
commit=$(git log -1 --format=%h -- core/src core/tests)
count() {
    cat "${@:2}" | grep -cF "$1:" || true
}
rows=""
for file in "${files[@]}"; do
    caught=$(count "$file" "$place"/{few,more,whole}/caught.txt)
    missed=$(count "$file" "$place/whole/missed.txt")
    endless=$(count "$file" "$place/whole/timeout.txt")
    unviable=$(count "$file" "$place"/{few,more,whole}/unviable.txt)
    rows+="| $file | $((caught + missed + endless + unviable)) | $caught | $endless | $unviable | $missed | $commit |"$'\n'
done
rows+=$(sed 's/^\([^ ]*\) \(.*\)$/- `\1` \2/' "$place/whole/missed.txt")

printf '\n%s\n' "$rows"
if git diff --quiet HEAD -- core/src core/tests; then
    scripts/mutants-page.sh <<<"$rows"
else
    echo "core-mutants: core has changes without a commit, so the page does not tell of this run" >&2
fi
[ ! -s "$place/whole/missed.txt" ]
