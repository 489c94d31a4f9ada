#!/usr/bin/env bash
# packaging/wheel.sh: packs what packaging/build.sh has built as a wheel, for machines with Python and no compiler: the
# command rlock, the module, and rlock-module-path, which prints the module's path.
#
# Only with Python's standard library: a wheel is a zip file with a list of its content.
set -euo pipefail
. "$(dirname "$0")/place.sh"

# pip takes the wheel where the C library is at least that.
glibc=$(needs GLIBC "$stage/librlock.so" "$stage/rlock")
if [ "$libc" = musl ]; then tag=musllinux_1_2 needed="musl 1.2"; else tag=manylinux_${glibc/./_} needed="glibc $glibc"; fi
# A version like 1.0.0-rc.1 is 1.0.0rc1 there.
wheel_version=${version/-rc./rc}
wheel=$packages/rlock_server-$wheel_version-py3-none-${tag}_$machine.whl
rm -f "$packages"/rlock_server-*"${tag%%_*}"*"_$machine.whl"
python3 packaging/wheel.py "$stage" "$wheel"
packaging/sums.sh

near=$(realpath --relative-to=. "$wheel")
cat <<END
$wheel
It needs Python 3.10 and $needed, or newer. Nothing of it is on a package index. Type, for one that is yours:
    python3 -m venv ~/rlock && . ~/rlock/bin/activate
    pip install $near
    redis-server --loadmodule "\$(rlock-module-path)"
    rlock run orders:42 -- echo locked      # in another terminal, after: . ~/rlock/bin/activate
END
