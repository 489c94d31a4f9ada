#!/usr/bin/env bash
# scripts/site.sh [--pages-only]: all pages, with the references of the clients for Python and Node.js, as a static site in
# target/site/html. The order of the pages is that of docs/README.md. A link that leads nowhere fails.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
site=$target/site
bin=$site/env/bin
rm -rf "$site/pages" "$site/html" && mkdir -p "$site/pages"
if [ ! -x "$bin/pdoc" ]; then
    python3 -m venv "$site/env"
    "$bin/pip" install --quiet --disable-pip-version-check mkdocs==1.6.1 pdoc==15.0.4 redis==6.4.0 typing_extensions==4.15.0
fi

# The references, from docstrings and types.
if [ "${1:-}" != --pages-only ]; then
    scripts/adapters.sh python >/dev/null
    "$bin/pip" install --quiet --disable-pip-version-check --force-reinstall --no-deps "$target"/clients/wheel/*.whl
    "$bin/pdoc" --output-directory "$site/pages/api/python" rlock_client rlock_client.aio rlock_client.redis_lock rlock_client.testing
    rm -rf "$site/node" && cp -r clients/node "$site/node"
    (cd "$site/node" && npm ci --silent --no-audit --no-fund && npx --yes typedoc@0.28.14 --logLevel Warn --skipErrorChecking --name rlock-client --readme none \
        --out "$site/pages/api/node" --entryPoints index.d.ts --entryPoints redlock.d.ts --entryPoints testing.d.ts)
fi

# The pages, and every file that one links to.
"$bin/python" - "$site" <<'END'
import json, pathlib, re, shutil, subprocess, sys

site = pathlib.Path(sys.argv[1])
tracked = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout.split()
pages = [path for path in tracked if path.endswith(".md") and not path.startswith(".github/")]

def copy(path):
    to = site / "pages" / path
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, to)

for page in pages:
    text = pathlib.Path(page).read_text()
    for link in re.findall(r"\]\(([^)#:\s]+)(?:#[^)\s]*)?\)", text):
        path = (pathlib.Path(page).parent / link).resolve().relative_to(pathlib.Path.cwd())
        if path.is_file() and path.suffix != ".md":
            copy(path)
        elif path.is_dir():
            # A site has no page for a folder of sources.
            text = re.sub(r"\[([^\]]*)\]\(" + re.escape(link) + r"\)", r"\1", text)
    (site / "pages" / page).parent.mkdir(parents=True, exist_ok=True)
    (site / "pages" / page).write_text(text)

nav, section = [{"rlock": "README.md"}], None
for line in pathlib.Path("docs/README.md").read_text().splitlines():
    if heading := re.fullmatch(r"\*\*(.+)\*\*", line):
        section = []
        nav.append({heading[1]: section})
    for title, link in re.findall(r"\[([^\]]+)\]\(([^)]+\.md)\)", line) if section is not None else []:
        path = (pathlib.Path("docs") / link).resolve().relative_to(pathlib.Path.cwd())
        section.append({title: str(path)})
if (site / "pages/api").is_dir():
    nav.append({"Reference": [{"Python": "api/python/index.html"}, {"Node.js": "api/node/index.html"}]})
settings = {
    "site_name": "rlock", "docs_dir": "pages", "site_dir": "html", "nav": nav, "use_directory_urls": False,
    "theme": {"name": "readthedocs", "highlightjs": False}, "plugins": [],
    "validation": {"nav": {"omitted_files": "ignore"}, "links": {"anchors": "warn", "not_found": "warn"}},
}
(site / "mkdocs.yml").write_text(json.dumps(settings))
END
"$bin/mkdocs" build --quiet --strict --config-file "$site/mkdocs.yml"
echo "site: $site/html/index.html"
