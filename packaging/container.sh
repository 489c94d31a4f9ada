#!/usr/bin/env bash
# packaging/container.sh FILE CONTEXT [ARG=VALUE...]: does in this Debian, which is thrown away afterwards, what a container
# file says, and takes a lock in the server that its ENTRYPOINT starts. What FROM names must be this Debian already.
#
# It knows the instructions that the container files of this directory have, and fails at any other: so what is tried is
# the file itself, where there is nothing that builds containers.
set -euo pipefail

file=$(realpath "$1") context=$2 here=$(dirname "$(realpath "$0")")
shift 2
cd /
wrong() {
    echo "container: $1" >&2
    exit 1
}

user=root entrypoint="" tried=0
perform() {
    local instruction=${1%% *} rest=${1#* } source
    case $instruction in
    FROM | VOLUME | EXPOSE) return ;;
    ARG)
        # Those of the command line come first.
        local name=${rest%%=*} setting
        for setting in "${settings[@]}"; do [ "${setting%%=*}" != "$name" ] || rest=$setting; done
        export "${rest?}"
        ;;
    COPY)
        local words to
        read -ra words <<<"$rest"
        to=${words[-1]}
        unset 'words[-1]'
        [[ $to != */ ]] || mkdir -p "$to"
        mkdir -p "$(dirname "$to")"
        # shellcheck disable=SC2048,SC2086 # patterns
        for source in ${words[*]/#/"$context"/}; do cp -r "$source" "$to"; done
        ;;
    # As it is done there: by sh, and where one step fails the whole does.
    RUN) sh -c "$rest" >/var/log/container 2>&1 || { cat /var/log/container && wrong "RUN $rest"; } ;;
    USER) user=$rest ;;
    ENTRYPOINT) entrypoint=$rest ;;
    *) wrong "no such instruction is known here: $1" ;;
    esac
    tried=$((tried + 1))
}

settings=("$@")
whole=""
while IFS= read -r line; do
    [[ $line != \#* ]] || continue
    whole+=$line
    if [[ $whole == *\\ ]]; then
        whole=${whole%\\}
    elif [ -n "$whole" ]; then
        perform "$whole"
        whole=""
    fi
done <"$file"
((tried >= 4)) || wrong "$file has too few instructions"

[[ $entrypoint =~ ^\[\".*\"\]$ ]] || wrong "ENTRYPOINT is no list"
IFS=$'\x1f' read -ra start < <(sed 's/^\["//; s/"\]$//; s/", *"/\x1f/g' <<<"$entrypoint")
"$here/first-locks.sh" rlock "$user" "${start[@]}"
