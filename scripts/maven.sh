# shellcheck shell=bash
# What scripts/test-redisson.sh and scripts/test-spring.sh have in common. They source it at the top of the repository.
#
# RLOCK_SERVER: the server's binary, if not redis-server. RLOCK_MODULE: the module's file, if not the release build.

# fail CODE TEXT. 1: a test failed; 2: wrong arguments; 3: the tests could not be run.
fail() { echo "$(basename "$0" .sh): $2" >&2 && exit "$1"; }

# known PROFILE NAME...: whether all names are among the profiles.
known() {
    local all=$1 name
    shift
    for name; do [[ " $all " == *" ${name%@*} "* ]] || fail 2 "no $name, but $all"; done
}

for tool in javac mvn "${RLOCK_SERVER:-redis-server}"; do
    command -v "$tool" >/dev/null || fail 3 "$tool is not there; type: scripts/setup.sh clients java"
done
target=${CARGO_TARGET_DIR:-target}
module=${RLOCK_MODULE:-$target/release/librlock.so}
[ -f "$module" ] || fail 3 "$module is not there; type: make build"
# The server changes its directory before it loads modules, and Maven's tests run in another one.
RLOCK_MODULE=$(realpath "$module")
RLOCK_SERVER=$(realpath --no-symlinks "$(command -v "${RLOCK_SERVER:-redis-server}")")
export RLOCK_MODULE RLOCK_SERVER

# The servers end with the JVM of the tests, and that one with Maven.
maven=""
trap '[ -z "$maven" ] || kill "$maven" 2>/dev/null || true' EXIT
trap 'exit 130' INT TERM

# maven ARGUMENT...: runs Maven with its output in the file $log.
maven() {
    local status=0
    mvn --batch-mode --quiet -Dstyle.color=never "$@" >"$log" 2>&1 &
    maven=$!
    wait "$maven" || status=$?
    maven=""
    return "$status"
}

in_reports() { cat "$reports"/TEST-*.xml 2>/dev/null | grep -cE "$1" || true; }

# property NAME: of the last run.
property() { sed -n "s/.*name=\"$1\" value=\"\([^\"]*\)\".*/\1/p" "$reports"/TEST-*.xml | head -n 1; }

# What a failed test said, without Maven's advice.
said() { grep -vE '^\[ERROR\] *($|\[Help|To see|Re-run|For more|See |-> )' "$log" >&2; }
