#!/usr/bin/env bash
# scripts/test-release.sh: tests the parts of a release that cannot be tried before it: release-check.sh accepts a
# correct version and no wrong one, and the workflows are valid for GitHub, and call existing files.
set -euo pipefail
cd "$(dirname "$0")/.."

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
wrong() {
    echo "test-release: $1" >&2
    exit 1
}

# Where the version is, as release-check.sh lists it.
files="Cargo.lock clients/go/go.mod $(sed -n "/^places=/,/'$/s/^\(places='\)\{0,1\}\([^|]*\)|.*/\2/p" scripts/release-check.sh | sort -u)"

# release NUMBER: a checkout that is ready for this version.
release() {
    rm -rf "$place/at"
    local file
    for file in $files; do
        mkdir -p "$place/at/$(dirname "$file")"
        cp "$file" "$place/at/$file"
    done
    scripts/release-check.sh --set "$1" "$place/at"
    sed -i "/^name = \"rlock/{n;s/\".*\"/\"$1\"/}" "$place/at/Cargo.lock"
    printf '# Changelog\n\n## %s (2026-12-01)\n\nNew: this.\n\n## 0.0.1 (2026-01-01)\n\nOld: that.\n' "$1" >"$place/at/CHANGELOG.md"
}

check() { scripts/release-check.sh "$1" "$place/at" 2>"$place/errors"; }
refuses() {
    ! check "$1" >/dev/null || wrong "release-check lets $1 through although $3"
    grep -F -e "$2" "$place/errors" >/dev/null || wrong "release-check should speak of $2: $(cat "$place/errors")"
}

release 7.8.9
text=$(check v7.8.9) || wrong "release-check refuses what is right: $(cat "$place/errors")"
[[ $text == *"New: this."* && $text != *"Old"* ]] || wrong "the text of the release is: $text"
refuses v7.8.8 "Cargo.toml" "Cargo.toml has another version"
refuses 7.8.9 "no tag" "it has no v"
for file in $files; do
    case $file in Cargo.lock | clients/go/go.mod) continue ;; esac
    release 7.8.9 && sed -i 's/7\.8\.9/7.8.8/' "$place/at/$file"
    refuses v7.8.9 "$file" "$file has another version"
done
release 7.8.9 && echo "replace a => ../" >>"$place/at/clients/go/go.mod"
refuses v7.8.9 "replaced" "a Go module is replaced"
release 7.8.9 && sed -i '/^name = "rlock-cli"/{n;s/7.8.9/7.8.8/}' "$place/at/Cargo.lock"
refuses v7.8.9 "Cargo.lock" "Cargo.lock has another version"
release 7.8.9 && sed -i 's/(2026-12-01)/(unreleased)/' "$place/at/CHANGELOG.md"
refuses v7.8.9 "YEAR" "it is unreleased in CHANGELOG.md"
release 7.8.9 && sed -i '/^New/d' "$place/at/CHANGELOG.md"
refuses v7.8.9 "says nothing" "CHANGELOG.md says nothing of it"
release 7.8.9-rc.1
check v7.8.9-rc.1 >/dev/null || wrong "release-check refuses a candidate: $(cat "$place/errors")"

# Each command of the workflows that begins with make or with a path of this project.
for workflow in .github/workflows/*.yml; do
    while read -r command what _; do
        case $command in
        make) for word in $what; do grep -q "^$word:" Makefile || wrong "$workflow: there is no make $word"; done ;;
        *) [ -x "$command" ] || wrong "$workflow: $command is not there" ;;
        esac
    done < <(sed -nE 's/^ *(- )?(run: )?((make|scripts\/|\.ci\/)[^ ]*( .*)?)$/\3/p' "$workflow")
done

! grep -nE 'uses: ' .github/workflows/*.yml | grep -vE '@[0-9a-f]{40} # v[0-9.]+$' || wrong "these actions are not pinned by commit"

if python3 -c 'import yaml' 2>/dev/null; then
    python3 - .github/workflows/*.yml <<'END'
import sys, yaml

for path in sys.argv[1:]:
    workflow = yaml.safe_load(open(path))
    # YAML reads the key `on` as true.
    assert workflow.get("name") and workflow.get(True), path
    for name, job in workflow["jobs"].items():
        assert job["runs-on"] and job["timeout-minutes"], f"{path}: {name}"
        needed = job.get("needs", [])
        for other in [needed] if isinstance(needed, str) else needed:
            assert other in workflow["jobs"], f"{path}: {name} needs {other}"
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step), f"{path}: {name}: {step}"
END
else
    echo "test-release: whether the workflows are YAML is left out, as Python's yaml is not there" >&2
fi
echo "test-release: passed"
