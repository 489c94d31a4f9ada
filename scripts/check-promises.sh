#!/usr/bin/env bash
# scripts/check-promises.sh: each test that docs/promises.md names is there and runs: in the gate (.ci/run), or, if the page
# marks it "(nightly)", in `make nightly` only. Fails, and lists what is not so:
# - files and tests that are not there, are ignored or skipped, or are in a file that no target compiles;
# - scripts that no step of the gate or of `make nightly` calls;
# - marks that are missing or wrong; files of tests/server that the page leaves out.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly promises=docs/promises.md
wrong=0
say() {
    echo "check-promises: $1" >&2
    wrong=1
}

# The steps of both, as make targets.
gate=$(grep -v '^ *#' .ci/run | grep -oP '(^|& )make \K[a-z-]+' | xargs)
nightly=$(sed -n '/^nightly:/,/steps\.sh/p' Makefile | tr -d '\n\\' | sed "s/.*%sn' //; s/ *|.*//" | xargs)

# What a target runs: its recipe, its scripts, and the scripts that those call. A name in a variable stands for every
# script.
declare -A runs scripts
for target in $gate $nightly; do
    text=$(awk -v target="$target" '
        !inside { inside = index($0, target ":") == 1; next }
        !/^\t|^#/ { exit }
        /^\t/' Makefile)
    [ -n "$text" ] || say "a step names make $target, which the Makefile has not"
    found=" " new=$text
    while [ -n "$new" ]; do
        calls=$(grep -oE 'scripts/[a-z/]*[a-z$-]+\.sh' <<<"$new" | sed 's/\$[a-z]*/*/' | sort -u) || true
        new=""
        for script in $calls; do
            [ -f "$script" ] && [[ $found != *" $script "* ]] || continue
            found+="$script "
            new+=$(grep -v '^ *#' "$script")$'\n'
        done
        text+=$'\n'$new
    done
    runs[$target]=$text
    scripts[$target]=$found
done

# run_by PATTERN: the first target with a line that matches.
run_by() {
    local target
    for target in $gate $nightly; do
        ! grep -qE -e "$1" <<<"${runs[$target]}" || { echo "$target" && return; }
    done
    return 1
}

# The file that declares a module of Rust, with no other condition than a feature or that it is a test: all features are on.
parent_of() {
    local folder=${1%/*} name=${1##*/} parent
    name=${name%.rs}
    [ "$name" != mod ] || { name=${folder##*/} && folder=${folder%/*}; }
    for parent in "$folder"/{mod,main,lib}.rs "$folder.rs"; do
        [ -f "$parent" ] && [ "$parent" != "$1" ] && awk -v name="$name" '
            /^[ \t]*#\[cfg/ { if (!/#\[cfg\((test|feature = "[a-z-]+")\)\]/) skip = 1; next }
            $0 ~ "^[ \t]*(pub(\\([a-z]+\\))? )?mod " name ";" && !skip { declared = 1 }
            !/^[ \t]*#\[/ { skip = 0 }
            END { exit !declared }' "$parent" && { echo "$parent" && return; }
    done
    return 1
}

# setting MANIFEST KIND NAME KEY: what the table of a target says in Cargo.toml.
setting() {
    awk -v kind="$2" -v name="\"$3\"" -v key="$4" '
        /^\[/ { here = $0 == "[[" kind "]]" || $0 == "[" kind "]"; named = kind == "lib" }
        here && $1 == "name" { named = named || $3 == name }
        here && named && $1 == key { print $3 }' "$1"
}

# runner_of FILE: the target of make that runs its tests.
runner_of() {
    local file=$1 folder
    case $file in
    *.rs)
        local parent name kind=lib
        while parent=$(parent_of "$file"); do file=$parent; done
        folder=${file%/*}
        while [ ! -f "$folder/Cargo.toml" ]; do [[ $folder == */* ]] && folder=${folder%/*} || folder=.; done
        file=${file#"$folder/"}
        case $file in
        src/lib.rs | src/main.rs) name="" ;;
        tests/*/main.rs) name=${file#tests/} name=${name%/main.rs} kind=test ;;
        tests/*/*) return 1 ;;
        tests/*.rs) name=${file#tests/} name=${name%.rs} kind=test ;;
        *) return 1 ;;
        esac
        if [ "$(setting "$folder/Cargo.toml" $kind "$name" test)" = false ] ||
            [ "$(setting "$folder/Cargo.toml" $kind "$name" harness)" = false ]; then
            # These run only where they are named, or have nothing to try elsewhere.
            [ -n "$name" ] && run_by "cargo tests? .*--test $name( |\$)"
        else
            ! grep -q "^tests = .*\"$(sed -n '/^\[package\]/,/^\[/s/^name = \(".*"\)$/\1/p' "$folder/Cargo.toml" | tr -d '"')\"" .cargo/config.toml &&
                run_by '^\s*cargo tests$'
        fi
        ;;
    clients/python/tests/test_*.py) run_by 'pytest.* clients/python/tests(;|$)' ;;
    tests/fencing/test_*.py)
        # Some need a server of their own, and run by themselves.
        run_by "pytest .*$file( |\$)" || { run_by 'pytest tests/fencing$' >/dev/null && run_by 'test-clients\.sh --fencing'; }
        ;;
    clients/node/test/*.test.mjs) run_by 'node --test .* test/\*\.test\.mjs$' ;;
    clients/go/*_test.go)
        folder=${file%/*}
        while [ ! -f "$folder/go.mod" ]; do folder=${folder%/*}; done
        run_by "cd $folder && .*go test .*\./\.\.\."
        ;;
    tests/redisson/*Test.java) redisson_runner "${file##*/}" ;;
    tests/spring/*Test.java) grep -q '<module>../tests/spring</module>' java/pom.xml && run_by '-f java/pom.xml "-Ptests,' ;;
    scripts/*)
        local target
        for target in $gate $nightly; do
            [[ ${scripts[$target]} != *" $file "* ]] || { echo "$target" && return; }
        done
        return 1
        ;;
    *) return 1 ;;
    esac
}

# Each profile leaves some classes out. The gate's profiles are in its step; make nightly has all.
redisson_gate=$(grep -oP 'test-redisson REDISSON="\K[^"]+' .ci/run)
redisson_runner() {
    local profile excluded
    for profile in $redisson_gate; do
        excluded=$(awk -v profiles=" ${profile/%-wrapped/ wrapped} " '
            match($0, /<id>.*<\/id>/) { id = substr($0, RSTART + 4, RLENGTH - 9) }
            /<\/profile>/ { id = "" }
            index($0, "${") { next }
            match($0, /<(testExclude|wrapped\.tests)>\*\*\/[A-Za-z*]+\.java/) {
                name = substr($0, RSTART, RLENGTH)
                is_wrapped = sub(/<wrapped\.tests>\*\*\//, "", name)
                sub(/.*<testExclude>\*\*\//, "", name)
                if (id == "" ? !is_wrapped || index(profiles, " wrapped ") == 0 : index(profiles, " " id " ")) print name
            }' tests/redisson/pom.xml)
        matches "$1" $excluded || { echo test-redisson && return; }
    done
    # Only there, so not by the target that the gate calls with less.
    [[ " $nightly " == *" test-redisson "* ]] && echo nightly
}
set -f
matches() {
    local pattern
    for pattern in "${@:2}"; do
        # shellcheck disable=SC2053 # it is a pattern
        [[ $1 != $pattern ]] || return 0
    done
    return 1
}

# tests_of FILE: the tests in a Rust file, one on each line; ignored tests are followed by "ignored".
tests_of() {
    if [[ $1 == clients/conformance/tests/conformance/* ]]; then
        local subject=${1##*/}
        sed -nE "s/^ *${subject%.rs}::([a-z0-9_]+).*;\$/\1/p" "${1%/*}/main.rs"
        [ "$subject" != main.rs ] || echo all
        return
    fi
    awk '
        /^[ \t]*#\[(tokio::)?test[](]/ { is_test = 1; next }
        /^[ \t]*#\[(cfg_attr\(.*)?ignore/ { ignored = 1; next }
        /^[ \t]*#\[cfg\(/ && !/#\[cfg\((test|feature = "[a-z-]+")\)\]/ { ignored = 1; next }
        /^for_all_waiters!\(/ { listed = 1; next }
        listed && /^\);/ { listed = 0 }
        listed { gsub(/[ ,]/, ""); print; next }
        /^[ \t]*(#\[|\/\/|$)/ { next }
        is_test && match($0, /fn [a-z0-9_]+/) { print substr($0, RSTART + 3, RLENGTH - 3), ignored ? "ignored" : "" }
        { is_test = ignored = 0 }
        /Trial::test/ { print "all" }' "$1"
}

# skipped FILE: the first line by which a file leaves a test out, or all of it.
skipped() {
    case $1 in
    *.rs) tests_of "$1" | grep -m 1 ' ignored$' ;;
    *.py) grep -m 1 -nE '@pytest\.mark\.(skip|xfail)\b|^ *pytest\.skip\(|allow_module_level|collect_ignore' "$1" ;;
    *.mjs) grep -m 1 -nE '\b(test|it|describe)\.(skip|todo)\b|\b(skip|todo): *(true|.)' "$1" ;;
    *.go) awk '/^\/\/go:build/ || /\.Skip(Now|f)?\(/ && before !~ /^[ \t]*if / { print FNR ":" $0; exit } { before = $0 }' "$1" | grep . ;;
    *.java) grep -m 1 -nE '@(Disabled|Ignore)\b' "$1" ;;
    *) return 1 ;;
    esac
}

# Where a file that the page names is.
place() {
    local folder
    for folder in . tests/server tests/redisson/src/test/java/rlock tests/spring/src/test/java/rlock; do
        [ ! -f "$folder/$1" ] || { echo "$folder/$1" | sed 's,^\./,,'; return; }
    done
}

# marked NAME TARGET TEXT: whether the mark behind a name is right.
marked() {
    local is_marked=no
    [[ $3 != " (nightly)"* ]] || is_marked=yes
    if [[ " $gate " == *" $2 "* ]]; then
        [ $is_marked = no ] || say "$1 is marked (nightly), but the gate runs it by make $2"
    elif [ $is_marked = no ]; then
        say "$1 lacks the mark (nightly): only make nightly runs it"
    fi
}

# What was found of a file: each is looked into once.
declare -A tests checked
check() {
    local target why
    checked[$1]=none
    target=$(runner_of "$1") || { say "$promises names $1, which no step of the gate or of make nightly runs" && return; }
    checked[$1]=$target
    ! why=$(skipped "$1") || say "$1 leaves a test out: $why"
    [[ $1 != *.rs ]] || { tests[$1]=$(tests_of "$1") && [ -n "${tests[$1]}" ]; } || say "$promises names $1, which has no test"
}

# What a row says in backquotes: files, targets of make, and names of tests in one of the files.
row() {
    local files=() word text file
    while IFS=$'\t' read -r word text; do
        case $word in
        'make '*)
            [[ " $gate $nightly " == *" ${word#make } "* ]] || say "neither the gate nor make nightly runs $word"
            marked "$word" "${word#make }" "$text"
            ;;
        */* | *.*)
            file=$(place "$word")
            [ -n "$file" ] || { say "$promises names $word, which is not there" && continue; }
            files+=("$file")
            [ -n "${checked[$file]:-}" ] || check "$file"
            [ "${checked[$file]}" = none ] || marked "$word" "${checked[$file]}" "$text"
            ;;
        *)
            for file in "${files[@]}"; do
                if [[ $file == *.rs ]]; then
                    ! grep -qx -e "$word *" <<<"${tests[$file]:-}" || continue 2
                else
                    ! grep -qw -e "$word" "$file" || continue 2
                fi
            done
            say "$promises names the test $word, which is not among the tests of ${files[*]:-any file}"
            ;;
        esac
    done < <(awk -F'`' '{ for (i = 2; i <= NF; i += 2) print $i "\t " $(i + 1) }' <<<"$1" | sed 's/\t  */\t /')
}
while IFS= read -r line; do
    shown=${line% |}
    row "${shown##*| }"
done < <(grep '^| .*`.* |$' $promises)

while IFS= read -r file; do
    grep -qF "\`${file#tests/server/}\`" $promises || say "$promises leaves out $file"
done < <(git ls-files tests/server | while IFS= read -r file; do
    [[ $file != *.rs ]] || [ -z "$(tests_of "$file")" ] || echo "$file"
done)
exit $wrong
