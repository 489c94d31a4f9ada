#!/usr/bin/env bash
# packaging/check-binaries.sh: what must hold for every shipped binary, for every compiler and machine.
set -euo pipefail
. "$(dirname "$0")/place.sh"

module=$stage/librlock.so command=$stage/rlock
largest_kb=1500 largest_command_kb=8000

# Nothing that `make dist` ships needs a newer glibc than docs/servers.md promises. What this machine builds for itself needs
# what this machine has.
newest_glibc=$(sed -n 's/^| C library | glibc \([0-9.]*[0-9]\) or newer.*/\1/p' docs/servers.md)
[ -n "$newest_glibc" ] || wrong "docs/servers.md has no row \"| C library | glibc VERSION or newer\""
[ -n "$platform" ] || newest_glibc=$(getconf GNU_LIBC_VERSION | cut -d' ' -f2)

exported=$(readelf --dyn-syms -W "$module" | awk '$5 != "LOCAL" && $7 ~ /^[0-9]+$/ { print $8 }' | sort | xargs)
[ "$exported" = "RedisModule_OnLoad RedisModule_OnUnload" ] || wrong "librlock.so exports: $exported"

# The libraries that a module may ask for; a command for other machines asks for none.
case $platform in
"") allowed='(libc|libm|libgcc_s)\.so\.|ld-linux' ;;
*-gnu) allowed='(libc|libm|libdl|libpthread|librt)\.so\.|ld-linux' ;;
*-musl) allowed='libc\.so$' ;;
esac

for binary in "$module" "$command"; do
    name=${binary##*/} allows=$allowed
    [ -z "$platform" ] || [ "$binary" = "$module" ] || allows='^$'
    [ "$(stat -c %a "$binary")" = 755 ] || wrong "$binary: servers refuse a module that cannot be executed"
    [[ $(readelf -hW "$binary") =~ Machine:\ +([^$'\n']+) && ${BASH_REMATCH[1],,} =~ ${machine/x86_64/x86-64}$ ]] ||
        wrong "$binary is for another machine"
    [[ $(readelf -SW "$binary") != *.symtab* ]] || wrong "$binary is not stripped"

    # Paths of this machine. Without / itself, or the home of a user that has none: every binary contains those.
    for private in "$PWD" "$target" "$HOME" "${CARGO_HOME:-$HOME/.cargo}" "$(rustc --print sysroot)"; do
        [ ${#private} -gt 4 ] || private="$private/."
        found=$(strings --all "$binary" | grep -F -- "$private") || continue
        wrong "$binary has a path of this machine: ${found%%$'\n'*}"
    done

    glibc=$(needs GLIBC "$binary")
    [ "$(printf '%s\n' "$glibc" "$newest_glibc" | sort -V | tail -n 1)" = "$newest_glibc" ] ||
        wrong "$binary needs glibc $glibc, allowed is $newest_glibc"
    others=$(readelf -dW "$binary" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -vE "$allows") || true
    [ -z "$others" ] || wrong "$binary needs other libraries than it may: $others"

    kb=$(($(stat -c %s "$binary") / 1000)) most=$largest_kb
    [ "$binary" = "$module" ] || most=$largest_command_kb
    ((kb <= most)) || wrong "$binary has $kb kB, allowed are $most"
    echo "packaging: $name for ${platform:-this machine}: $kb kB, glibc: ${glibc:-none}" >&2
done
