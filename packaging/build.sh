#!/usr/bin/env bash
# packaging/build.sh: builds what all packages bring, into target/packages/stage, and looks at it.
#
# In a directory of its own, since it is built by other flags than `make build`: what is shipped has no path of this
# machine in it, and no symbol that no server asks for.
set -euo pipefail
. "$(dirname "$0")/place.sh"

step() { echo "packaging: $*" >&2; }

build=$packages/build
[ -z "$(git status --porcelain)" ] || step "note: what is not committed is packed as well"

# Where the paths of this machine would be, those of nobody's are. The last one that fits counts.
home=${CARGO_HOME:-$HOME/.cargo}
flags=("--remap-path-prefix=$HOME=/home" "--remap-path-prefix=$home=/cargo"
    "--remap-path-prefix=$(rustc --print sysroot)=/rust" "--remap-path-prefix=$PWD=/rlock"
    "--remap-path-prefix=$target=/rlock/target")
# The module's lists are found by symbols that are exported if nobody says otherwise.
flags+=("-Clink-arg=-Wl,-z,start-stop-visibility=hidden")
CARGO_ENCODED_RUSTFLAGS=$(IFS=$'\x1f' && echo "${flags[*]}")
export CARGO_ENCODED_RUSTFLAGS
export CFLAGS="-ffile-prefix-map=$home=/cargo -ffile-prefix-map=$target=/rlock/target -ffile-prefix-map=$PWD=/rlock"

rm -rf "$stage"
mkdir -p "$stage"/{man,completions}

step "1 of 4: the module"
cargo build --locked --target-dir "$build" --release -p rlock
step "2 of 4: the command's manual"
cargo build --locked --target-dir "$build" --profile command -p rlock-cli --features manual
RLOCK_MANUAL_DIRECTORY=$stage/man "$build/command/rlock"
step "3 of 4: the command"
cargo build --locked --target-dir "$build" --profile command -p rlock-cli

step "4 of 4: what lies beside them"
install -m 755 "$build/release/librlock.so" "$build/command/rlock" "$stage"
strip --strip-all --remove-section=.comment "$stage/librlock.so" "$stage/rlock"
"$stage/rlock" completions bash >"$stage/completions/rlock.bash"
"$stage/rlock" completions zsh >"$stage/completions/_rlock"
"$stage/rlock" completions fish >"$stage/completions/rlock.fish"
install -m 644 redis.conf.example LICENSE README.md CHANGELOG.md "$stage"
packaging/third-party.sh >"$stage/THIRD-PARTY"
packaging/check-binaries.sh
