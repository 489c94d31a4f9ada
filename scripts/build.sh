#!/usr/bin/env bash
# scripts/build.sh module|command|manual...: builds what is shipped by the flags that packages need, so that `make deb`
# compiles nothing again that `make build` has compiled. Each has a profile of its own; target/release has both.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")

# Nothing that is shipped has a path of this machine in it: where these would be, those of nobody's are. The last one that
# fits counts.
home=${CARGO_HOME:-$HOME/.cargo}
flags=("--remap-path-prefix=$HOME=/home" "--remap-path-prefix=$home=/cargo"
    "--remap-path-prefix=$(rustc --print sysroot)=/rust" "--remap-path-prefix=$PWD=/rlock"
    "--remap-path-prefix=$target=/rlock/target")
# The module's lists are found by symbols that are exported if nobody says otherwise, and no server asks for.
flags+=("-Clink-arg=-Wl,-z,start-stop-visibility=hidden")
CARGO_ENCODED_RUSTFLAGS=$(IFS=$'\x1f' && echo "${flags[*]}")
export CARGO_ENCODED_RUSTFLAGS
export CFLAGS="-ffile-prefix-map=$home=/cargo -ffile-prefix-map=$target=/rlock/target -ffile-prefix-map=$PWD=/rlock"
# The C in it asks for no date; and with the commit's it would be compiled again after each.
unset SOURCE_DATE_EPOCH

for what; do
    echo "build: the $what, for release" >&2
    case $what in
    module) build=(-p rlock --profile module) ;;
    command) build=(-p rlock-cli --profile command) ;;
    # A command that writes its own pages for `man`. It is where the command was, so that has to be built after it.
    manual) build=(-p rlock-cli --profile command --features manual) ;;
    *) echo "usage: scripts/build.sh module|command|manual..." >&2 && exit 2 ;;
    esac
    cargo build "${build[@]}" || scripts/setup.sh crates "${build[1]}"
    mkdir -p "$target/release"
    for built in "$target"/module/librlock.{so,dylib} "$target/command/rlock"; do
        [ ! -e "$built" ] || ln -f "$built" "$target/release"
    done
done
