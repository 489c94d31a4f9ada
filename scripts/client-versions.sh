#!/usr/bin/env bash
# scripts/client-versions.sh: each language whose clients are tested, with the client and its version, as it is pinned.
set -euo pipefail
cd "$(dirname "$0")/../tests/raw"

sed -n 's/^redis==/python redis-py /p' python/requirements.txt
sed -n 's/^ *"redis": "\(.*\)".*/node node-redis \1/p' node/package.json
sed -n 's|.*go-redis/v9 v\([0-9.]*\).*|go go-redis \1|p' go/go.mod
sed -n 's|.*<jedis.version>\(.*\)</.*|java Jedis \1|p' java/pom.xml
