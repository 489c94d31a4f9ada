#!/usr/bin/env bash
# packaging/build.sh: brings together what is in all packages, in target/packages/stage, and looks at it. With PLATFORM: in
# target/dist/PLATFORM, where the command is one static file.
set -euo pipefail
. "$(dirname "$0")/place.sh"

step() { echo "packaging: $*" >&2; }

[ -z "$(git status --porcelain 2>/dev/null)" ] || step "note: what is not committed is packed as well"

# What is built below takes the versions of Cargo.lock, if that is as it should be.
cargo tree --locked -p rlock -p rlock-cli >/dev/null || wrong "Cargo.lock is not up to date"
rm -rf "$stage"
mkdir -p "$stage"/{man,completions}

# A command of this machine writes its own pages for `man` and its completions, which are the same on all machines.
scripts/build.sh manual
RLOCK_MANUAL_DIRECTORY=$stage/man "$target/command/rlock"
for shell in bash:rlock.bash zsh:_rlock fish:rlock.fish; do
    "$target/command/rlock" completions "${shell%:*}" >"$stage/completions/${shell#*:}"
done

if [ -z "$platform" ]; then
    scripts/build.sh module command
    built=("$target/module/librlock.so" "$target/command/rlock")
else
    scripts/build.sh --for "$platform" module
    scripts/build.sh --for "$machine-unknown-linux-musl" command
    built=("$target/$platform/module/librlock.so" "$target/$machine-unknown-linux-musl/command/rlock")
fi
install -m 755 "${built[@]}" "$stage"
[ -n "$platform" ] || strip --strip-all --remove-section=.comment "$stage/librlock.so" "$stage/rlock"

step "what lies beside them"
install -m 644 redis.conf.example LICENSE README.md CHANGELOG.md "$stage"
packaging/third-party.sh >"$stage/THIRD-PARTY"
packaging/check-binaries.sh
