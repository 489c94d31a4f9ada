#!/usr/bin/env bash
# packaging/check-binaries.sh: what must hold for every binary that is shipped, whatever compiler made it.
set -euo pipefail
. "$(dirname "$0")/place.sh"

module=$stage/librlock.so command=$stage/rlock

exported=$(nm --dynamic --defined-only "$module" | awk '{ print $3 }' | sort | xargs)
[ "$exported" = "RedisModule_OnLoad RedisModule_OnUnload" ] || wrong "librlock.so exports: $exported"

for binary in "$module" "$command"; do
    [ "$(stat -c %a "$binary")" = 755 ] || wrong "$binary: servers refuse a module that cannot be executed"
    # nm itself succeeds when there are none.
    [ -z "$(nm "$binary" 2>/dev/null)" ] || wrong "$binary is not stripped"

    # Paths of this machine. / itself, or the home of a user who has none, would be in everything.
    for private in "$PWD" "$target" "$HOME" "${CARGO_HOME:-$HOME/.cargo}" "$(rustc --print sysroot)"; do
        [ ${#private} -gt 4 ] || private="$private/."
        found=$(strings --all "$binary" | grep -F -- "$private") || continue
        wrong "$binary has a path of this machine: ${found%%$'\n'*}"
    done

    glibc=$(needs GLIBC "$binary")
    [ -n "$glibc" ] || wrong "$binary: objdump does not tell which glibc it needs"
    [ "$(printf '%s\n' "$glibc" "$newest_glibc" | sort -V | tail -n 1)" = "$newest_glibc" ] ||
        wrong "$binary needs glibc $glibc, docs/servers.md promises $newest_glibc: build it on Debian 12"

    others=$(objdump -p "$binary" | awk '/NEEDED/ { print $2 }' | grep -vE '^(libc|libm|libgcc_s)\.so\.|^ld-linux') || true
    [ -z "$others" ] || wrong "$binary needs other libraries than glibc's and libgcc_s: $others"
done
echo "packaging: rlock $version needs glibc $(needs GLIBC "$module") for the module," \
    "$(needs GLIBC "$command") for the command" >&2
