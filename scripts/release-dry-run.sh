#!/usr/bin/env bash
# scripts/release-dry-run.sh [crates|npm|pypi|maven|go...]: does everything that a release does for each registry, or
# for these, except the upload: builds and checks what would be published. The wheels and npm packages come from `make
# dist-clients`, if it has run; otherwise only this machine's are missing.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
[ $# != 0 ] || set -- crates npm pypi maven go
for step; do
    echo "release-dry-run: $step"
    case $step in
    crates) scripts/package.sh ;;
    npm)
        scripts/npm-package.sh "$target/clients/npm"
        for package in "$target"/clients/npm/*.tgz; do npm publish --dry-run --silent --access public "$package"; done
        ;;
    pypi)
        python=$target/clients/twine
        [ -x "$python/bin/twine" ] || {
            python3 -m venv "$python"
            "$python/bin/pip" install --quiet --disable-pip-version-check "twine>=6,<7" "maturin>=1.9,<2"
        }
        "$python/bin/maturin" sdist --manifest-path clients/python/Cargo.toml --out "$target/clients/sdist" 2>/dev/null
        mapfile -t built < <(find "$target"/clients/{sdist,wheels} "$target/dist/packages" "$target/packages" \
            -name '*.whl' -o -name 'rlock_client-*.tar.gz' 2>/dev/null)
        "$python/bin/twine" check --strict "${built[@]}"
        ;;
    # Signing needs the key.
    maven) mvn --batch-mode --quiet -f java/pom.xml -Prelease -Dgpg.skip verify ;;
    go) (cd clients/go && go list -m && go vet . && cd rlockotel && go list -m && go vet .) ;;
    *) sed -n '2,4s/^# //p' "$0" >&2 && exit 2 ;;
    esac
done
echo "release-dry-run: passed: $*"
