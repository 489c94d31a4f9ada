#!/usr/bin/env bash
# scripts/check-figures.sh: docs/proof/figures.md is what rlock-chaos makes of docs/proof/figures.jsonl.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
cargo chaos --quiet
"$target/debug/rlock-chaos" figures docs/proof/figures.jsonl | diff -u docs/proof/figures.md - || {
    echo "check-figures: docs/proof/figures.md is not what docs/proof/figures.jsonl says: run rlock-chaos figures" >&2
    exit 1
}
