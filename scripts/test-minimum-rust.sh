#!/usr/bin/env bash
# scripts/test-minimum-rust.sh: compiles everything, tests too, with the oldest Rust that Cargo.toml declares.
set -euo pipefail
cd "$(dirname "$0")/.."

minimum=$(sed -n '/^\[workspace.package\]/,/^$/s/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
if [[ $(rustc --version) == "rustc $minimum."* ]]; then
    echo "test-minimum-rust: this machine's Rust is $minimum, so every other target compiles with it"
    exit 0
fi
command -v rustup >/dev/null || { echo "test-minimum-rust: needs rustup, or Rust $minimum itself" >&2 && exit 1; }
rustup toolchain install "$minimum" --profile minimal --no-self-update
# A directory of its own: the two compilers would throw out each other's work.
CARGO_TARGET_DIR=$(realpath -m "${CARGO_TARGET_DIR:-target}")/minimum-rust \
    cargo "+$minimum" check --locked --workspace --all-targets --all-features
