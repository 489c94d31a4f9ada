#!/usr/bin/env bash
# packaging/build.sh: brings together what is in all packages, in target/packages/stage, and looks at it.
set -euo pipefail
. "$(dirname "$0")/place.sh"

step() { echo "packaging: $*" >&2; }

[ -z "$(git status --porcelain 2>/dev/null)" ] || step "note: what is not committed is packed as well"

# What is built below takes the versions of Cargo.lock, if that is as it should be.
cargo tree --locked -p rlock -p rlock-cli >/dev/null || wrong "Cargo.lock is not up to date"
rm -rf "$stage"
mkdir -p "$stage"/{man,completions}

scripts/build.sh module manual
RLOCK_MANUAL_DIRECTORY=$stage/man "$target/command/rlock"
scripts/build.sh command

step "what lies beside them"
install -m 755 "$target/module/librlock.so" "$target/command/rlock" "$stage"
strip --strip-all --remove-section=.comment "$stage/librlock.so" "$stage/rlock"
"$stage/rlock" completions bash >"$stage/completions/rlock.bash"
"$stage/rlock" completions zsh >"$stage/completions/_rlock"
"$stage/rlock" completions fish >"$stage/completions/rlock.fish"
install -m 644 redis.conf.example LICENSE README.md CHANGELOG.md "$stage"
packaging/third-party.sh >"$stage/THIRD-PARTY"
packaging/check-binaries.sh
