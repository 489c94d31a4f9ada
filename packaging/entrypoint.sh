#!/bin/sh
# packaging/entrypoint.sh [COMMAND [ARGUMENT...]]: the ENTRYPOINT of Valkey's image with rlock. It accepts what the
# image's own entrypoint accepts: options, a configuration file, or any other command. It adds --loadmodule to the
# command line of a server that does not load rlock already, and then runs the image's own docker-entrypoint.sh.
set -e

module=/usr/lib/redis/modules/librlock.so

# loads FILE: whether this configuration, or one that it includes, loads rlock. CONFIG REWRITE writes such a line.
loads() {
    [ -r "$1" ] || return 1
    ! grep -qsiE '^[[:space:]]*loadmodule[[:space:]].*librlock\.so' "$1" || return 0
    # An include may be a pattern.
    for included in $(sed -n 's/^[[:space:]]*include[[:space:]]\{1,\}//Ip' "$1" | tr -d "\"'"); do
        ! loads "$included" || return 0
    done
    return 1
}

case ${1-} in
-* | *.conf) set -- valkey-server "$@" ;;
esac

adds=no
if [ "${1##*/}" = valkey-server ]; then
    case " $* ${VALKEY_EXTRA_FLAGS-} " in
    *librlock.so* | *" --sentinel "*) ;;
    *)
        case ${2-} in
        -v | --version | -h | --help | --test-memory | --check-system) ;;
        *) adds=yes ;;
        esac
        ;;
    esac
fi
if [ $adds = yes ]; then
    server=$1
    shift
    # The file, or - for standard input, comes before all options.
    case ${1-} in
    "" | -?*) set -- "$server" --loadmodule $module "$@" ;;
    *)
        file=$1
        shift
        if [ "$file" != - ] && loads "$file"; then
            set -- "$server" "$file" "$@"
        else
            set -- "$server" "$file" --loadmodule $module "$@"
        fi
        ;;
    esac
fi
exec docker-entrypoint.sh "$@"
