#!/usr/bin/env bash
# scripts/other-module.sh [COMMIT]: builds the module of another commit, and prints its path. Without a commit, of one 200
# commits ago, or of the first where there are fewer.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
commit=${1:-$(git rev-list --max-count=201 HEAD | tail -n 1)}
commit=$(git rev-parse --short --verify "$commit^{commit}")
built=$target/other/$commit.so

if [ ! -e "$built" ]; then
    echo "other-module: builds the module of $commit" >&2
    rm -rf "$target/other/sources" && mkdir -p "$target/other/sources"
    git archive "$commit" | tar -x -C "$target/other/sources"
    (cd "$target/other/sources" && CARGO_TARGET_DIR=$target/other/build cargo build --quiet -p rlock --profile trial) >&2
    cp "$target"/other/build/trial/librlock.so "$built"
fi
echo "$built"
