#!/usr/bin/env bash
# scripts/peers/redlock.sh: node-redlock's tests on one server and on one cluster, with the locks of rlock-client/redlock.
# scripts/test-peers.sh calls it.
set -euo pipefail

tests=$(peer redlock https://github.com/mike-marcacci/node-redlock v5.0.0-beta.2)/src/single.test.ts
suite=$PEERS/redlock-suite
scripts/adapters.sh node >/dev/null
mkdir -p "$suite"
cp scripts/peers/redlock.mjs "$suite/index.js"
echo '{ "type": "module" }' >"$suite/package.json"
npm install --silent --no-audit --no-fund --prefix "$suite" ava@4.3.3 ioredis@4.28.5 "${CARGO_TARGET_DIR:-target}/clients/node"

dir=$(mktemp -d) servers=""
# shellcheck disable=SC2086 # a list of processes
trap '[ -z "$servers" ] || kill $servers; wait; rm -rf "$dir"' EXIT
serve "$dir/single"
single=$port
serve "$dir/cluster" --cluster-enabled yes --cluster-announce-ip 127.0.0.1
redis-cli -p "$port" cluster addslotsrange 0 16383 >/dev/null

# A lock is stored as a hash, and `attempts` are empty. No server listens on port 1. A failure is awaited, or it is missed.
sed "s/\"redis-single-instance\"/'127.0.0.1', port: $single/; s/\"redis-single-cluster-1\"/'127.0.0.1', port: $port/
    s/host: \"127.0.0.1\",/& port: 1,/; s/^import Redlock, {/& holderOf,/; s/redis\.get(/holderOf(redis, /
    s/^ *11,$/0,/; s/^ *fail(t, error);/await &/" "$tests" >"$suite/single.test.ts"
"${CARGO_TARGET_DIR:-target}/clients/node/node_modules/.bin/tsc" --noCheck --target es2022 --module es2022 \
    --moduleResolution bundler "$suite/single.test.ts"
cd "$suite"
node_modules/.bin/ava --verbose single.test.js
