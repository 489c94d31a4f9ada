#!/usr/bin/env bash
# scripts/build.sh [--for TARGET] module|command|manual|probes...: builds what is shipped, with the flags that packages
# need, so that `make deb` compiles nothing again that `make build` has compiled. Each has its own profile;
# target/release has both.
#
# --for: for another machine or C library, by Rust's name, for example aarch64-unknown-linux-musl. Then the result is in
# target/TARGET/module and target/TARGET/command, and zig links it.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
platform=""
[ "${1:-}" != --for ] || { platform=$2 && shift 2; }

# Shipped files contain no path of this machine: placeholders replace them. The last matching rule counts.
home=${CARGO_HOME:-$HOME/.cargo}
flags=("--remap-path-prefix=$HOME=/home" "--remap-path-prefix=$home=/cargo"
    "--remap-path-prefix=$(rustc --print sysroot)=/rust" "--remap-path-prefix=$PWD=/rlock"
    "--remap-path-prefix=$target=/rlock/target")
cargo=(cargo build)
if [ -z "$platform" ]; then
    # The module's lists are found by symbols that this linker exports if nothing says otherwise, and no server asks for.
    flags+=("-Clink-arg=-Wl,-z,start-stop-visibility=hidden")
else
    zig=$(scripts/zig.sh "$platform")
    PATH=$zig:$PATH
    # The oldest glibc that Rust itself supports.
    cargo=(cargo zigbuild --target "${platform/%-gnu/-gnu.2.17}")
    flags+=("-Cstrip=symbols")
    # A module is loaded by a server that has its C library already; a command brings its own.
    [[ $platform != *-musl || $* != @(module|probes) ]] || flags+=("-Ctarget-feature=-crt-static")
fi
CARGO_ENCODED_RUSTFLAGS=$(IFS=$'\x1f' && echo "${flags[*]}")
export CARGO_ENCODED_RUSTFLAGS
export CFLAGS="-ffile-prefix-map=$home=/cargo -ffile-prefix-map=$target=/rlock/target -ffile-prefix-map=$PWD=/rlock"
# The C in it asks for no date; and with the commit's it would be compiled again after each.
unset SOURCE_DATE_EPOCH

for what; do
    echo "build: the $what, for release" >&2
    case $what in
    module) build=(-p rlock --profile module) ;;
    # With commands for tests; never shipped.
    probes) build=(-p rlock --profile trial --features panic-probe) ;;
    command) build=(-p rlock-cli --profile command) ;;
    # A command that writes its own pages for `man`. It is where the command was, so that has to be built after it.
    manual) build=(-p rlock-cli --profile command --features manual) ;;
    *) echo "usage: scripts/build.sh [--for TARGET] module|command|manual|probes..." >&2 && exit 2 ;;
    esac
    "${cargo[@]}" "${build[@]}" || scripts/setup.sh crates "${build[1]}"
    [ -z "$platform" ] || continue
    mkdir -p "$target/release"
    for built in "$target"/module/librlock.{so,dylib} "$target/command/rlock"; do
        [ ! -e "$built" ] || ln -f "$built" "$target/release"
    done
done
