#!/usr/bin/env bash
# scripts/test-monitoring.sh: docs/monitoring with a real Prometheus and a real redis_exporter, while locks are used.
#
# A valid query proves little: a name may have a typing error, and its panel then stays empty. So each query of the
# dashboard must return a number here, and each alert must fire on a bad day and be silent on a good one.
#
# Installed versions of Prometheus and the exporter are used; otherwise they come from Debian's packages, unpacked into
# the target directory: nothing is installed.
# RLOCK_SERVER, RLOCK_MODULE: as for the tests.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
server=${RLOCK_SERVER:-redis-server}
module=${RLOCK_MODULE:-$target/release/librlock.so}
[ -f "$module" ] || { echo "test-monitoring: $module is not there; type: make build" >&2 && exit 1; }
module=$(realpath "$module")
unpacked=$(realpath -m "$target/monitoring")

work=$(mktemp -d)
pids=()
clean_up() {
    [ ${#pids[@]} = 0 ] || { kill "${pids[@]}" 2>/dev/null && wait "${pids[@]}" 2>/dev/null; } || true
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 1' INT TERM
fail() {
    [ ! -s "$work/log" ] || tail -n 20 "$work/log" >&2
    echo "test-monitoring: $1" >&2
    exit 1
}

# The programs of this system's own suite: they need its libc.
fetch() {
    local suite
    suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    . scripts/private-apt.sh
    private_apt deb "$suite"
    (cd "$work/archives" && apt-get "${private[@]}" download -qq prometheus prometheus-redis-exporter) \
        >"$work/log" 2>&1 || fail "apt-get download failed"
    mkdir -p "$unpacked"
    for deb in "$work"/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$deb" | tar -xC "$unpacked" ./usr/bin
    done
}
PATH=$PATH:$unpacked/usr/bin
find_programs() {
    command -v prometheus >/dev/null && command -v promtool >/dev/null &&
        exporter=$(command -v prometheus-redis-exporter || command -v redis_exporter)
}
find_programs || { fetch && find_programs; } || fail "Debian's packages have no prometheus, promtool or exporter"

# Three unused ports.
ports=() port=29121
while [ ${#ports[@]} -lt 3 ]; do
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || ports+=("$port")
    port=$((port + 1))
done
redis_port=${ports[0]} exporter_port=${ports[1]} prometheus_port=${ports[2]}

# until_true WHAT COMMAND…: what has to happen within a minute.
until_true() {
    local what=$1 deadline=$((SECONDS + 60))
    shift
    until "$@" >"$work/log" 2>&1; do
        ((SECONDS < deadline)) || fail "$what"
        sleep 0.1
    done
}
cli() { redis-cli -p "$redis_port" "$@"; }

# A server with locks under way

"$server" --port "$redis_port" --bind 127.0.0.1 --dir "$work" --save '' --loadmodule "$module" >"$work/server" 2>&1 &
pids+=($!)
until_true "the server does not answer" cli ping
# The exporter has the rights of the page.
# shellcheck disable=SC2046 # a list of words
cli ACL SETUSER $(sed -n 's/^user \(metrics .*\)/\1/p' docs/running.md) >"$work/log"

cli RLOCK.ACQUIRE held ann 3600000 >"$work/log"
cli RLOCK.ACQUIRE held bob 3600000 WAIT 0 >"$work/waiter" 2>&1 &
pids+=($!)

# Each of these lines changes a counter: grants, refusals, a timeout, a lease that ends while a client waits, errors.
traffic() {
    while :; do
        cli <<'COMMANDS'
RLOCK.ACQUIRE one ann 5000
RLOCK.ACQUIRE one bob 5000
RLOCK.ACQUIRE one bob 5000 WAIT 20
RLOCK.BREAK one
RLOCK.ACQUIRE two ann 30
RLOCK.ACQUIRE two bob 5000 WAIT 5000
RLOCK.RELEASE two bob ALL
RLOCK.RACQUIRE held bob 5000
RLOCK.PACQUIRE three ann 5000 LIMIT 2
CONFIG SET rlock.max-waiters 0
RLOCK.ACQUIRE held cid 5000 WAIT 1000
CONFIG SET rlock.max-waiters 10000
COMMANDS
    done >"$work/traffic" 2>&1
}
traffic &
pids+=($!)

# What watches it

"$exporter" --redis.addr "redis://127.0.0.1:$redis_port" --redis.user metrics --redis.password change-me \
    --script docs/monitoring/rlock.lua --web.listen-address "127.0.0.1:$exporter_port" >"$work/exporter" 2>&1 &
pids+=($!)
mkdir "$work/prometheus"
cp docs/monitoring/alerts.yaml tests/monitoring/alerts-test.yaml "$work/prometheus"
{
    echo 'global: {scrape_interval: 1s, evaluation_interval: 1s}'
    sed "s/127\.0\.0\.1:9121/127.0.0.1:$exporter_port/" docs/monitoring/prometheus.yaml
} >"$work/prometheus/prometheus.yaml"
grep -q "127.0.0.1:$exporter_port" "$work/prometheus/prometheus.yaml" || fail "prometheus.yaml has no exporter on 9121"
promtool check config "$work/prometheus/prometheus.yaml" >"$work/log" 2>&1 || fail "prometheus.yaml is not valid"
(cd "$work/prometheus" && promtool test rules alerts-test.yaml) >"$work/log" 2>&1 || fail "an alert is not right"
echo "alerts: $(grep -c 'alert:' docs/monitoring/alerts.yaml), each fires when it should and not otherwise"

prometheus --config.file "$work/prometheus/prometheus.yaml" --storage.tsdb.path "$work/prometheus/data" \
    --web.listen-address "127.0.0.1:$prometheus_port" >"$work/prometheus/log" 2>&1 &
pids+=($!)

# query EXPRESSION: its values, one on each line, without those that are no number.
query() {
    promtool query instant "http://127.0.0.1:$prometheus_port" "$1" >"$work/answer" 2>&1 || {
        cat "$work/answer"
        return 1
    }
    grep ' => ' "$work/answer" | grep -v '=> NaN @'
}
until_true "Prometheus has nothing from the exporter" query 'redis_up == 1'

# The dashboard has one query on each line that begins so.
mapfile -t queries < <(sed -n 's/^ *"expr": "\(.*\)",\?$/\1/p' docs/monitoring/grafana-dashboard.json | sed 's/\\"/"/g')
[ "${#queries[@]}" = "$(grep -c '"expr"' docs/monitoring/grafana-dashboard.json)" ] || fail "a query has no line of its own"
[ "${#queries[@]}" -gt 20 ] || fail "the dashboard has only ${#queries[@]} queries"
for expression in "${queries[@]}"; do
    [[ $expression == *'instance=~"$instance"'* ]] || fail "it is not of the chosen server alone: $expression"
    expression=${expression//\$instance/.+}
    expression=${expression//\$__rate_interval/10s}
    until_true "no data: $expression" query "$expression"
done
echo "dashboard: ${#queries[@]} queries, each has data"

for alert in RlockBroken RlockQueueFull; do
    until_true "$alert does not fire" query "ALERTS{alertname=\"$alert\", alertstate=\"firing\"}"
done
until_true "labels of the script have stayed" query \
    'rlock_waiters unless rlock_waiters{key=~".+"} unless rlock_waiters{filename=~".+"}'
until_true "the waits are no histogram" query \
    'count(rlock_wait_ms_bucket) == 6 and count(rlock_wait_ms_bucket{le="+Inf"}) unless on () {__name__=~"rlock_wait_ms_le_.+"}'

# Without the exporter
mkdir "$work/bin"
printf '#!/bin/sh\nexec %q -p %q "$@"\n' "$(command -v redis-cli)" "$redis_port" >"$work/bin/redis-cli"
chmod +x "$work/bin/redis-cli"
PATH=$work/bin:$PATH docs/monitoring/rlock-metrics "$work/rlock.prom" || fail "rlock-metrics failed"
# 3: they are valid, and have no HELP.
promtool check metrics <"$work/rlock.prom" >"$work/log" 2>&1 || [ $? = 3 ] || fail "rlock-metrics writes no metrics"
echo "rlock-metrics: $(grep -c '^rlock_' "$work/rlock.prom") numbers"
