# scripts/private-apt.sh, to be sourced: an apt for packages of any Debian suite, separate from this machine's.
#
# It installs nothing, needs no root, and does not touch the machine's apt: its state is in $work, and it uses the
# machine's own mirror. A script that sources this has $work, a directory, and `fail`, which ends the script; the output
# of a failed command is in $work/log.

# Debian's own archives from this machine's sources. The second way is for a machine with empty package lists. It may
# also name other archives, which then fail because of their signature.
mirrors() {
    {
        apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian'
        apt-get update --print-uris | sed -n "s|^'\(.*/\)dists/[a-z]*/InRelease'.*|\1|p"
    } 2>"$work/log" | awk '!seen[$0]++'
}

# private_apt deb|deb-src SUITES [ARCHITECTURE]: reads the lists of these suites, and sets $private, the options that
# apt-get and apt-cache need in order to look there. The architecture is Debian's name, and this machine's if none is given.
private_apt() {
    local type=$1 suites=$2 architecture=${3:-} keyring mirror
    command -v apt-get >/dev/null || fail "there is no apt-get here"
    keyring=$(compgen -G "/usr/share/keyrings/debian-archive-keyring.*" | head -n 1) ||
        fail "there is no debian-archive-keyring"

    mkdir -p "$work/lists/partial" "$work/archives/partial" "$work/sources"
    : >"$work/status"
    private=(
        -o "Dir::State::lists=$work/lists" -o "Dir::State::status=$work/status" -o "Dir::Cache=$work"
        -o "Dir::Cache::archives=$work/archives" -o "Dir::Etc::sourcelist=/dev/null"
        -o "Dir::Etc::sourceparts=$work/sources" -o "Acquire::Languages=none"
        -o "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false" -o "APT::Sandbox::User=$(id -un)"
        -o "APT::Update::Error-Mode=any" -o "Dir::Etc::preferences=/dev/null"
        -o "Dir::Etc::preferencesparts=/dev/null"
    )
    [ -z "$architecture" ] || private+=(-o "APT::Architecture=$architecture" -o "APT::Architectures=$architecture")
    while IFS= read -r mirror; do
        printf 'Types: %s\nURIs: %s\nSuites: %s\nComponents: main\nSigned-By: %s\n' \
            "$type" "$mirror" "$suites" "$keyring" >"$work/sources/suite.sources"
        ! apt-get "${private[@]}" update -qq >"$work/log" 2>&1 || return 0
    done < <(mirrors)
    fail "no mirror of Debian that this machine's apt knows could be read"
}
