#!/usr/bin/env bash
# packaging/wheel.sh: packs what packaging/build.sh has built as a wheel, for those who have Python and no compiler: the
# command rlock, the module, and rlock-module-path, which tells servers where the module is.
#
# With Python's own library alone: a wheel is a zip file with a list of what is in it.
set -euo pipefail
. "$(dirname "$0")/place.sh"

glibc=$(needs GLIBC "$stage/librlock.so" "$stage/rlock")
# A version such as 1.0.0-rc.1 is 1.0.0rc1 there. pip takes the wheel where the glibc is at least that.
wheel_version=${version/-rc./rc}
wheel=$packages/rlock_server-$wheel_version-py3-none-manylinux_${glibc/./_}_$(uname -m).whl
rm -f "$packages"/rlock_server-*.whl
python3 packaging/wheel.py "$stage" "$wheel"
packaging/sums.sh

near=$(realpath --relative-to=. "$wheel")
cat <<END
$wheel
It needs Python 3.10 and glibc $glibc, or newer. Nothing of it is on a package index. Type, for one that is yours:
    python3 -m venv ~/rlock && . ~/rlock/bin/activate
    pip install $near
    redis-server --loadmodule "\$(rlock-module-path)"
    rlock run orders:42 -- echo locked      # in another terminal, after: . ~/rlock/bin/activate
END
