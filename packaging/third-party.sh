#!/usr/bin/env bash
# packaging/third-party.sh: lists the crates that are linked into the module and the command, with the texts of their
# licenses, which require that. Each text appears once.
set -euo pipefail
. "$(dirname "$0")/place.sh"

sources=${CARGO_HOME:-$HOME/.cargo}/registry/src
cat <<'END'
The module and the command rlock contain these crates, by their authors, under these licenses. The text of each license
follows, as the crates bring it.

END

crates=$(cargo tree --locked -p rlock -p rlock-cli -e normal,no-proc-macro --prefix none --format '{p}|{l}' |
    sed 's/ (\*)$//' | grep -v -e "^rlock.*$PWD" -e "^$" | sort -u)
declare -A brought=() text_of=()
while IFS='|' read -r crate license; do
    read -r name version _ <<<"$crate"
    echo "$name ${version#v}: $license"
    for file in "$sources"/*/"$name-${version#v}"/{LICENSE,LICENCE,COPYING,NOTICE,license}*; do
        [ -f "$file" ] || continue
        sum=$(sha256sum <"$file")
        brought[$sum]+="${brought[$sum]:+, }$name ${version#v}" text_of[$sum]=$file
    done
done <<<"$crates"

mapfile -t sums < <(printf '%s\n' "${!brought[@]}" | sort)
[ ${#sums[@]} -gt 10 ] || wrong "the crates' sources are not in $sources"
for sum in "${sums[@]}"; do
    printf '\n%.0s' 1 2
    printf -- '-%.0s' {1..100}
    printf '\n%s\n\n' "${brought[$sum]}" | fold -s -w 120
    cat "${text_of[$sum]}"
done
