#!/usr/bin/env bash
# scripts/test-bare.sh [SUITE [TARGET...]]: builds and tests this checkout on a minimal Debian: by default bookworm and
# `make test`.
#
# It has a clone of the last commit and `make`. The make targets have to install everything else themselves. `make run`
# does not end by itself: scripts/try-run.sh follows README with it, and ends it; for `setup` scripts/try-setup.sh
# follows the instructions for users that may not install.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/bare.sh

in_name_spaces "$@"
suite=${1:-bookworm}
shift $(($# > 0))
targets=("${@:-test}")

bare_debian "$suite"
clone_into_bare

# shellcheck disable=SC2016 # it is for the other shell to expand
inside='
set -eu
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -qq -y --no-install-recommends make git ca-certificates >/var/log/first 2>&1 || { cat /var/log/first && exit 1; }
unset DEBIAN_FRONTEND
cd /srv/rlock
for target; do
    echo "== make $target"
    case $target in
    run) scripts/try-run.sh ;;
    setup) scripts/try-setup.sh ;;
    *) make "$target" ;;
    esac
done
'
in_bare sh -c "$inside" sh "${targets[@]}" || fail "it fails on a bare $suite, which is in $root as it was then"
leave_bare
echo "== on a bare $suite: passed: make ${targets[*]}"
