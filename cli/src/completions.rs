//! Completions for shells, generated from the arguments. Added by hand: CMD is completed like a command of its own.

use crate::arguments::Arguments;
use crate::failure::Failure;
use crate::output;
use clap::CommandFactory;
use clap_complete::{Shell, generate};

/// With bash-completion, which most systems have, CMD's own arguments are completed too. Without it, bash completes the
/// names of files, as it does if nothing else is offered.
const BASH: &str = r#"
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
    _rlock "$@"
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
complete -c rlock -n "__fish_rlock_using_subcommand run once adopt; and contains -- -- (commandline -opc)" -f -a "(__fish_rlock_cmd)"
"#;

pub fn print(shell: Shell) -> Result<u8, Failure> {
    let mut script = Vec::new();
    generate(shell, &mut Arguments::command(), "rlock", &mut script);
    let own = match shell {
        Shell::Bash => BASH,
        Shell::Fish => FISH,
        _ => "",
    };
    output::print(&(String::from_utf8_lossy(&script) + own))?;
    Ok(0)
}
