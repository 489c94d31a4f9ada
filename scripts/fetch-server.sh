#!/usr/bin/env bash
# scripts/fetch-server.sh SUITE redis|valkey DEST: unpacks the server of another Debian suite into DEST, and leaves an
# executable DEST/server that runs it.
#
# The module has to be tried on servers that this machine's own suite does not have. Nothing is installed. A newer
# suite's server needs that suite's libraries, its libc included; they are unpacked beside it.
set -euo pipefail
. "$(dirname "$0")/debian-server.sh"

done_line() { echo "$("$dest/server" --version | sed 's/ sha=.*//'): $dest/server"; }

if "$dest/server" --version >/dev/null 2>&1; then
    done_line
    exit
fi

# Backports have only what differs from their base.
suites=$suite
[[ $suite != *-backports ]] || suites="$suite ${suite%-backports}"
private_apt deb "$suites"

# The binary is in the -tools package; -server has its name only, and pulls in what is for a service.
mapfile -t packages < <(
    apt-cache "${private[@]}" depends --recurse --no-recommends --no-suggests --no-conflicts --no-breaks \
        --no-replaces --no-enhances "$kind-tools" 2>>"$work/log" | grep -E '^(lib|zlib)' | sort -u
)
(cd "$work/archives" && apt-get "${private[@]}" download -qq -t "$suite" "$kind-tools" "$kind-server" "${packages[@]}") \
    >>"$work/log" 2>&1 || fail "apt-get download failed"

rm -rf "$dest/root" "$dest/server"
mkdir -p "$dest/root"
for deb in "$work"/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$deb" | tar -xC "$dest/root" --exclude './usr/share/*' --exclude './etc/*'
done

# Through the suite's own ld.so, as the machine's may be older than its libc. --argv0: one binary is the server as well
# as its tools, and goes by its name. exec: who starts it gets the server's own process id.
cat >"$dest/server" <<END
#!/usr/bin/env bash
# Written by fetch-server.sh: $kind of $suite.
shopt -s nullglob
root=\$(dirname "\$(realpath "\$0")")/root
loader=("\$root"/{usr/,}lib/*-linux-gnu*/ld-linux*.so.*)
libraries=("\$root"/{usr/,}lib/*-linux-gnu*)
IFS=:
exec "\${loader[0]}" --library-path "\${libraries[*]}" --argv0 $kind-server "\$root/usr/bin/$kind-server" "\$@"
END
chmod +x "$dest/server"
"$dest/server" --version >>"$work/log" 2>&1 || fail "it does not run"
done_line
