#!/usr/bin/env bash
# scripts/npm-package.sh PLATFORM LIBRARY DIRECTORY: packs a build of the Node.js client as the npm package of this
# platform, for example linux-x64-musl, into the directory.
# scripts/npm-package.sh DIRECTORY: packs rlock-client itself. It names the platform packages in the directory, so that
# npm installs the right one.
set -euo pipefail
[ $# = 1 ] || [ $# = 3 ] || { sed -n '2,5s/^# //p' "$0" >&2 && exit 2; }
out=$(mkdir -p "${*: -1}" && realpath "${*: -1}")
library=$([ $# = 1 ] || realpath "$2")
cd "$(dirname "$0")/../clients/node"

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
if [ $# = 1 ]; then
    git ls-files -- '*.js' '*.mjs' '*.d.ts' '*.d.mts' README.md LICENSE | grep -v / | xargs cp -t "$place"
else
    cp LICENSE "$place"
    cp "$library" "$place/rlock.node"
    printf '# rlock-client-%s\n\nThe native part of rlock-client for %s. Install rlock-client, which asks for it.\n' "$1" "$1" >"$place/README.md"
fi
node - "$out" "$place/package.json" "${@:1:$(($# == 3))}" <<'END'
const fs = require('node:fs');
const [out, to, platform] = process.argv.slice(2);
const { devDependencies, scripts, ...own } = JSON.parse(fs.readFileSync('package.json'));
const { version, license, author, engines } = own;
const untried = platform?.startsWith('linux') === false;
const [os, cpu, libc] = platform?.split('-') ?? [];
const packed = !platform ? {
  ...own,
  // npm refuses the platform by the packages that are there.
  os: undefined,
  files: own.files.filter((pattern) => pattern !== '*.node'),
  optionalDependencies: Object.fromEntries(fs.readdirSync(out)
    .map((file) => /^(rlock-client-[a-z].*)\.tgz$/.exec(file)?.[1])
    .filter((name) => name?.endsWith(`-${version}`))
    .map((name) => [name.slice(0, -version.length - 1), version])),
} : {
  name: `rlock-client-${platform}`,
  version,
  description: `rlock-client's native part for ${platform}${untried ? ', which no test has run' : ''}`,
  license, author, engines, repository: own.repository,
  os: [os], cpu: [cpu], libc: libc && [libc === 'gnu' ? 'glibc' : libc],
  main: 'rlock.node',
  files: ['rlock.node'],
};
fs.writeFileSync(to, JSON.stringify(packed, null, 2) + '\n');
END
cd "$place" && npm pack --silent --pack-destination "$out"
