//! Completions for shells, made from the arguments themselves. What the generator does not know is added: that CMD is
//! completed as it is by itself, what the shells are that there are completions for, and that the server knows its
//! locks' names (`complete_key.rs`).

use crate::arguments::Arguments;
use crate::complete_key;
use crate::failure::Failure;
use crate::output;
use clap::{CommandFactory, ValueEnum};
use clap_complete::{Shell, generate};

/// With bash-completion, which most systems have, CMD's own arguments are completed too; else they are files, as bash
/// does it where nothing is offered.
const BASH: &str = r#"
_rlock_keys() {
    local line="${COMP_LINE:0:COMP_POINT}" words=() place word rest name cur breaks="" start=""
    [[ -n "$line" ]] || return 1
    # Bash has split words at colons, which names and addresses have.
    for ((place = 0; place <= COMP_CWORD; place++)); do
        word="${COMP_WORDS[place]}"
        rest="${line#"${line%%[![:space:]]*}"}"
        ((place == COMP_CWORD)) && word="$rest"
        if ((place > 0)) && [[ "$rest" == "$line" ]]; then
            words[${#words[@]}-1]+="$word"
        else
            words+=("$word")
        fi
        line="${rest#"$word"}"
    done
    cur="${words[${#words[@]}-1]}"
    [[ "$cur" == -* ]] && return 1
    # What stands before the last split is on the line already.
    [[ "$COMP_WORDBREAKS" == *:* ]] && breaks+=:
    [[ "$COMP_WORDBREAKS" == *=* ]] && breaks+==
    [[ -n "$breaks" && "$cur" == *[$breaks]* ]] && start="${cur%"${cur##*[$breaks]}"}"
    COMPREPLY=()
    while IFS= read -r name; do
        printf -v name %q "${name#"$start"}"
        COMPREPLY+=("$name")
    done < <("$1" ASK_FOR_KEYS -- "${words[@]}" 2>/dev/null)
    ((${#COMPREPLY[@]}))
}
_rlock_and_cmd() {
    local place
    for ((place = 1; place < COMP_CWORD; place++)); do
        [[ "${COMP_WORDS[place]}" == -- ]] || continue
        COMPREPLY=()
        if declare -F _comp_command_offset >/dev/null; then
            _comp_command_offset $((place + 1))
        elif declare -F _command_offset >/dev/null; then
            _command_offset $((place + 1))
        elif ((COMP_CWORD == place + 1)); then
            COMPREPLY=($(compgen -c -- "${COMP_WORDS[COMP_CWORD]}"))
        fi
        return 0
    done
    if [[ "${COMP_WORDS[COMP_CWORD - 1]}" == completions && "${COMP_WORDS[COMP_CWORD]}" != -* ]]; then
        COMPREPLY=($(compgen -W "SHELLS" -- "${COMP_WORDS[COMP_CWORD]}"))
        return 0
    fi
    _rlock_keys "$@" || _rlock "$@"
}
complete -F _rlock_and_cmd -o bashdefault -o default rlock
"#;

const FISH: &str = r#"
function __fish_rlock_cmd
    set -l words (commandline -opc)
    set -l place (contains -i -- -- $words)
    or return
    set -e words[1..$place]
    complete -C (string join ' ' -- (string escape -- $words) (commandline -ct))
end
complete -c rlock -n "__fish_rlock_using_subcommand run; and contains -- -- (commandline -opc)" -f -a "(__fish_rlock_cmd)"
complete -c rlock -n "__fish_rlock_using_subcommand completions" -f -a "SHELLS"
"#;

/// Before it has looked at the words, which it changes.
const ZSH: &str = r#"
_rlock_keys() {
    local -a names
    names=("${(@f)$("$rlock_typed[1]" ASK_FOR_KEYS -- "${(@)rlock_typed}" 2>/dev/null)}")
    names=("${(@)names:#}")
    compadd -a names
}

_rlock() {
    local -a rlock_typed
    rlock_typed=("${(@Q)words[1,CURRENT-1]}" "${(Q)PREFIX}")
"#;

const FISH_KEYS: &str = r#"
function __fish_rlock_keys
    set -l words (commandline -opc)
    set -l word (commandline -ct)
    command $words[1] ASK_FOR_KEYS -- $words "$word" 2>/dev/null
end
"#;

pub fn print(shell: Shell) -> Result<u8, Failure> {
    let mut script = Vec::new();
    generate(shell, &mut Arguments::command(), "rlock", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    let script = match shell {
        Shell::Bash => script + BASH,
        Shell::Fish => script + FISH + FISH_KEYS + &fish_keys(),
        Shell::Zsh => zsh_keys(&script),
        _ => script,
    };
    output::print(&script.replace("SHELLS", &shells()).replace("ASK_FOR_KEYS", complete_key::COMMAND))?;
    Ok(0)
}

/// The commands that take the name of a lock, and whether that is all that they take.
fn with_a_key() -> Vec<(String, bool)> {
    let commands = Arguments::command();
    let keyed = commands.get_subcommands().filter_map(|command| {
        let mut arguments = command.get_positionals();
        let is_key = arguments.next()?.get_id() == "key";
        is_key.then(|| (command.get_name().to_owned(), arguments.next().is_none()))
    });
    keyed.collect()
}

fn fish_keys() -> String {
    let line = |(command, alone): &(String, bool)| {
        let no_files = if *alone { " -f" } else { "" };
        format!(
            "complete -c rlock -n \"__fish_rlock_using_subcommand {command}\"{no_files} -a \"(__fish_rlock_keys)\"\n"
        )
    };
    with_a_key().iter().map(line).collect()
}

/// A key has its own completion, and the words are kept as they were typed.
fn zsh_keys(script: &str) -> String {
    let lines = script.lines().map(|line| match line.strip_prefix("':key -- ") {
        Some(rest) => format!("':key -- {}\n", rest.replace(":_default'", ":_rlock_keys'")),
        None => format!("{line}\n"),
    });
    lines.collect::<String>().replacen("\n_rlock() {\n", ZSH, 1)
}

fn shells() -> String {
    let names = Shell::value_variants().iter().map(Shell::to_string);
    names.collect::<Vec<_>>().join(" ")
}
