#!/usr/bin/env bash
# scripts/check-histories.sh [--failovers] [DIRECTORY...]: judges the histories that chaos kept there (make chaos KEEP=yes) with
# Porcupine, after the tests of the model; without a directory, only tests and builds. See docs/proof.md, "A second checker".
#
# --failovers: also across failovers that may forget locks, which are excused otherwise.
set -euo pipefail
places=()
for argument in "$@"; do [[ $argument == --* ]] && places+=("$argument") || places+=("$(realpath "$argument")"); done
cd "$(dirname "$0")/../chaos/porcupine"

target=$(realpath -m "${CARGO_TARGET_DIR:-../../target}")
go vet .
go test .
go build -o "$target/porcupine" .
[ $# = 0 ] || "$target/porcupine" "${places[@]}"
