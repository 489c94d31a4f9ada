# Sourced: defects that are put into a copy of the sources, one after the other in the same place, so that only what has changed
# is built again. The script sets $patches, where they are, and $sources, the place of the copy.

# said NAME WHAT: one of the first lines of a patch, such as "# world: single".
said() {
    sed -n "/^diff /q; s/^# $2: //p" "$patches/$1.patch"
}

wrong() {
    echo "$(basename "$0" .sh): $1" >&2
    exit 2
}

# The names of all patches, or those that are given.
named() {
    if [ $# = 0 ]; then basename -s .patch "$patches"/*.patch; else printf '%s\n' "$@"; fi
}

# check_said NAME WHAT...: the patch is there, and says all of this.
check_said() {
    local what
    [ -f "$patches/$1.patch" ] || wrong "there is no $patches/$1.patch"
    for what in "${@:2}"; do [ -n "$(said "$1" "$what")" ] || wrong "$1 has no line \"# $what: …\""; done
}

# The files get the time of now: with that of their last change, what was built of the last run's defects would pass for
# newer.
copy_sources() {
    rm -rf "$sources"
    mkdir -p "$sources"
    git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
        [ ! -e "$file" ] || printf '%s\0' "$file"
    done | tar -c --null --no-recursion -T - | tar -xm -C "$sources"
}

# The copy is inside of a repository, and git would look for the files in that one.
apply() {
    GIT_CEILING_DIRECTORIES=$(dirname "$sources") git -C "$sources" apply "${@:2}" "$PWD/$patches/$1.patch"
}
