#!/usr/bin/env bash
# packaging/sums.sh: writes target/packages/SHA256SUMS, of all packages that are there.
set -euo pipefail
. "$(dirname "$0")/place.sh"

cd "$packages"
find . -maxdepth 1 -type f \( -name '*.deb' -o -name '*.tar.gz' -o -name '*.whl' \) -printf '%P\0' | sort -z | xargs -0r sha256sum >SHA256SUMS
