//! What is said without a server: help, completions, the version, and a manual that agrees with them.

use crate::support::{bare, run};
use std::process::Command;

const COMMANDS: [&str; 17] = [
    "dev",
    "run",
    "once",
    "adopt",
    "lock",
    "unlock",
    "renew",
    "hold",
    "ls",
    "inspect",
    "break",
    "sessions",
    "top",
    "status",
    "doctor",
    "drill",
    "completions",
];

fn manual() -> &'static str {
    include_str!("../../../docs/command-line.md")
}

#[test]
fn help_fits_a_terminal_and_has_examples_and_exit_codes() {
    let help = run(bare(&["--help"]));
    let text = help.succeeded();
    for word in COMMANDS.iter().chain(&["Examples:", "Exit codes:", "RLOCK_URL", "RLOCK_PASSWORD"]) {
        assert!(text.contains(word), "{word} is not in {text}");
    }
    for command in COMMANDS {
        let help = run(bare(&[command, "--help"]));
        assert!(help.succeeded().ends_with('\n') && !help.output.ends_with("\n\n"));
    }
    for command in [&["--help"][..]].into_iter().chain(COMMANDS.iter().map(std::slice::from_ref)) {
        let command = [command, &["--help"]].concat();
        let help = run(bare(&command)).succeeded().to_owned();
        let longest = help.lines().map(|line| line.chars().count()).max();
        assert!(longest <= Some(80), "{command:?}: a line of {longest:?}");
        // A second line of an example would begin with another word.
        let (_, examples) = help.split_once("Examples:\n").unwrap_or(("", ""));
        let broken = examples.lines().take_while(|line| !line.is_empty()).find(|line| !line.starts_with("  rlock "));
        assert_eq!(broken, None, "{command:?}");
    }
    assert!(run(bare(&["-V"])).succeeded().starts_with("rlock 0."));
}

#[test]
fn help_is_also_a_subcommand() {
    for (asked, meant) in [(&["help"][..], &["--help"][..]), (&["help", "run"], &["run", "--help"])] {
        assert_eq!(run(bare(asked)).succeeded(), run(bare(meant)).succeeded());
    }
    run(bare(&["help", "keep"])).failed(64, &["keep"]);
    // A lock may still have this name.
    run(bare(&["run", "help"])).failed(64, &["CMD"]);
}

/// A help text with code 0 would look as if the server had been asked.
#[test]
fn a_host_as_for_redis_cli_is_no_success() {
    let typed = |words: &str| run(bare(&words.split(' ').collect::<Vec<_>>()));
    typed("-h locks.internal ls").failed(64, &["-h prints help", "-u host:port"]);
    typed("ls -h locks.internal").failed(64, &["-h prints help", "-u host:port"]);
    typed("run -p 7000 key -- true").failed(64, &["there is no -p", "-u host:port"]);
    // Cron would take it for a job that was done.
    typed("run key -h -- true").failed(64, &["CMD is not run"]);
    typed("-V run key -- true").failed(64, &["CMD is not run"]);
    assert!(typed("ls -h").succeeded().contains("Examples:"));
}

#[test]
fn tips_stand_on_lines_of_their_own() {
    let said = |arguments: &[&str]| {
        let ended = run(bare(arguments));
        ended.failed(64, &[]);
        ended.errors
    };
    let option = "rlock: unexpected argument '--jsn' found; see rlock --help\n";
    assert_eq!(said(&["ls", "--jsn"]), format!("{option}  tip: a similar argument exists: '--json'\n"));
    let several = said(&["inspct", "key"]);
    assert!(several.starts_with("rlock: unrecognized subcommand 'inspct'; see rlock --help\n  tip: "), "{several}");
    assert_eq!(said(&["inspect"]).lines().count(), 1, "there is nothing that could be meant");
}

/// CMD would be taken for KEY.
#[test]
fn key_comes_before_the_dashes() {
    for words in ["run -- env true", "run --wait 5s -n -- env", "run -- env -- true"] {
        let ended = run(bare(&words.split(' ').collect::<Vec<_>>()));
        assert_eq!(ended.code(), 64, "{words}: {ended:?}");
    }
    run(bare(&["run", "--wait", "5s", "--", "env", "true"]))
        .failed(64, &["KEY comes before --", "rlock run KEY -- env"]);
    // Only after `--` can KEY begin with a dash.
    let no_server = format!("redis://127.0.0.1:{}", rlock_testing::free_port());
    let served = |words: &[&str]| run(bare(&[&["-u", &no_server, "run", "--wait", "0"], words].concat())).code();
    assert_eq!(served(&["--", "-key", "true"]), 69);
    assert_eq!(served(&["key", "env", "--", "true"]), 69);
    assert_eq!(served(&["key", "--", "env", "--", "true"]), 69);
}

/// The secrets of the environment are not for help texts, which end up in tickets.
#[test]
fn help_shows_nothing_of_the_environment() {
    let mut command = bare(&["--help"]);
    command.env("RLOCK_URL", "redis://:secret@h").env("RLOCK_PASSWORD", "secret");
    assert!(!run(command).succeeded().contains("secret"));
}

#[test]
fn the_manual_has_the_exit_codes_of_the_help() {
    let help = run(bare(&["--help"])).succeeded().to_owned();
    for code in ["0", "1", "64", "69", "70", "74", "75", "76", "77", "78", "126", "127", "128+n"] {
        assert!(manual().contains(&format!("\n| {code} |")), "{code} is not in the manual's table");
        assert!(help.split_whitespace().any(|word| word == code), "{code} is not in the help");
    }
}

#[test]
fn the_manual_has_every_option() {
    for command in COMMANDS {
        let help = run(bare(&[command, "--help"])).succeeded().to_owned();
        let options = help.split_whitespace().filter(|word| word.starts_with("--") && word.len() > 2);
        for option in options.map(|option| option.trim_end_matches(|c: char| !c.is_ascii_lowercase())) {
            let known = ["--help", "--version"].contains(&option) || manual().contains(option);
            assert!(known, "{option} of {command} is not in the manual");
        }
    }
}

#[test]
fn completions_for_each_shell() {
    for shell in ["bash", "zsh", "fish"] {
        let script = run(bare(&["completions", shell]));
        let text = script.succeeded();
        for word in COMMANDS.iter().chain(&["replicas", "password-file"]) {
            assert!(text.contains(word), "{shell}: {word}");
        }
    }
}

/// What bash offers for the last of these words.
fn bash_offers(words: &[&str]) -> Vec<String> {
    let script = run(bare(&["completions", "bash"])).succeeded().to_owned();
    let typed = words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
    let ask = format!(
        "{script}\nCOMP_WORDS=({typed}); COMP_CWORD={place}; registered=($(complete -p rlock)); \
         for ((i = 0; i < ${{#registered[@]}}; i++)); do [ ${{registered[i]}} = -F ] && offer=${{registered[i + 1]}}; done; \
         $offer rlock \"${{COMP_WORDS[{place}]}}\" \"${{COMP_WORDS[{place} - 1]}}\"; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        place = words.len() - 1
    );
    let output = Command::new("bash").args(["--norc", "-c", &ask]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn bash_completes_with_them() {
    assert_eq!(bash_offers(&["rlock", "ru"]), ["run"]);
    assert_eq!(bash_offers(&["rlock", "run", "--rep"]), ["--replicas"]);
    assert_eq!(bash_offers(&["rlock", "top", "--sort", "w"]), ["waiters", "wait"]);
}

/// CMD is completed like a command of its own; bash completes its arguments as files at least.
#[test]
fn bash_completes_cmd() {
    let once = ["rlock", "once", "key", "--keep", "1m", "--"];
    for before in [&["rlock", "run", "key", "--"][..], &["rlock", "-u", "unix:///s", "run", "-n", "key", "--"], &once] {
        assert!(bash_offers(&[before, &["slee"]].concat()).contains(&"sleep".to_owned()));
        assert_eq!(bash_offers(&[before, &["sleep", "--w"]].concat()), [""; 0]);
    }
}

#[test]
fn fish_and_zsh_complete_cmd() {
    let fish = run(bare(&["completions", "fish"])).succeeded().to_owned();
    let of = |words: &[&str]| fish.lines().any(|line| words.iter().all(|word| line.contains(word)));
    assert!(of(&["using_subcommand run once adopt", "contains -- --", "(__fish_rlock_cmd)"]), "{fish}");
    let zsh = run(bare(&["completions", "zsh"])).succeeded().to_owned();
    assert!(zsh.contains("_cmdambivalent"), "{zsh}");
}
