//! Tests at a terminal, which tmux provides: what is typed, and what is on the screen.

use crate::support::{Place, rlock};
use rlock_testing::{Server, wait_until};
use std::process::Command;

const COLUMNS: &str = "100";
const ROWS: &str = "30";

/// A terminal with a shell in it, gone when the test ends.
pub struct Terminal {
    place: Place,
}

impl Terminal {
    /// With these variables, and `rlock` in its PATH.
    pub fn open(server: &Server, variables: &[(&str, &str)]) -> Self {
        let terminal = Self { place: Place::new() };
        let mut command = terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", COLUMNS, "-y", ROWS]);
        for (name, value) in rlock(server, &[]).get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let bin = std::path::Path::new(env!("CARGO_BIN_EXE_rlock")).parent().unwrap().to_owned();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths(std::iter::once(bin).chain(std::env::split_paths(&path))).unwrap();
        command.env("PATH", path).env("SHELL", "/bin/sh").env("PS1", "prompt> ").env("HISTFILE", "");
        command.env_remove("ENV").envs(variables.iter().copied()).current_dir(terminal.place.path());
        let opened = command.args(["env", "TERM=screen-256color", "sh"]).status();
        assert!(opened.expect("tmux is missing: type `make setup`").success(), "tmux opens a terminal");
        terminal.wait_for("prompt>");
        terminal
    }

    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Types a line.
    pub fn enter(&self, line: &str) {
        self.do_it(&["send-keys", "-l", line]);
        self.press("Enter");
    }

    /// Types the text without a line end.
    pub fn type_in(&self, text: &str) {
        self.do_it(&["send-keys", "-l", text]);
    }

    /// A key by its name: `Enter`, `C-c`, `Down` …
    pub fn press(&self, key: &str) {
        self.do_it(&["send-keys", key]);
    }

    pub fn resize(&self, columns: u16, rows: u16) {
        self.do_it(&["resize-window", "-x", &columns.to_string(), "-y", &rows.to_string()]);
    }

    /// Returns when the shell's children get this size, which takes a while.
    pub fn resize_at_the_prompt(&self, columns: u16, rows: u16) {
        self.resize(columns, rows);
        let sized = format!("\"$(stty size)\" = '{rows} {columns}'");
        self.enter(&format!("clear; until [ {sized} ]; do sleep 0.01; done; echo sized"));
        self.wait_until("the size", |screen| screen.lines().any(|line| line == "sized"));
    }

    /// What is on the screen now.
    pub fn screen(&self) -> String {
        self.capture(&["capture-pane", "-p"])
    }

    /// The same with its colour codes.
    pub fn screen_with_colours(&self) -> String {
        self.capture(&["capture-pane", "-p", "-e"])
    }

    pub fn wait_for(&self, words: &str) {
        self.wait_until(words, |screen| screen.contains(words));
    }

    pub fn wait_until(&self, what: &str, mut condition: impl FnMut(&str) -> bool) {
        let last = std::cell::RefCell::new(String::new());
        let look = || {
            *last.borrow_mut() = self.screen();
            condition(&last.borrow())
        };
        let shown = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| wait_until(what, look)));
        assert!(shown.is_ok(), "{what} is not on the screen:\n{}", last.borrow());
    }

    fn do_it(&self, arguments: &[&str]) {
        assert!(self.tmux(arguments).status().unwrap().success(), "tmux {arguments:?}");
    }

    fn capture(&self, arguments: &[&str]) -> String {
        String::from_utf8(self.tmux(arguments).output().unwrap().stdout).unwrap()
    }

    fn tmux(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(self.place.file("tmux")).args(arguments);
        command
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Without tmux there is neither a screen nor a server.
        if let (true, Ok(seen)) = (std::thread::panicking(), self.tmux(&["capture-pane", "-p"]).output()) {
            eprintln!("--- the screen ---\n{}", String::from_utf8_lossy(&seen.stdout));
        }
        let _ = self.tmux(&["kill-server"]).status();
    }
}

/// The terminal sends Ctrl-C to CMD itself.
#[test]
fn ctrl_c_reaches_cmd_once() {
    let server = Server::start();
    let terminal = Terminal::open(&server, &[]);
    let script = "trap \"echo INT >>log\" INT; echo ready >>log; while [ -e here ] && ! [ -e end ]; do :; done; exit 7";
    terminal.enter(&format!("rlock run key -- sh -c '{script}'; echo code $?"));
    terminal.place().wait_for("log", "ready");
    for count in 1..=5 {
        terminal.press("C-c");
        wait_until("CMD has it", || terminal.place().lines("log").len() > count);
    }
    terminal.place().mark("end");
    terminal.wait_for("code 7");
    assert_eq!(terminal.place().lines("log"), ["ready", "INT", "INT", "INT", "INT", "INT"]);
}

#[test]
fn ctrl_c_while_waiting_ends_it() {
    let (server, mut client) = Server::with_client();
    crate::support::taken(&mut client, "key");
    let terminal = Terminal::open(&server, &[]);
    terminal.enter("rlock run key -- touch it-ran; echo code $?");
    client.until_waiting(1);
    terminal.press("C-c");
    client.until_waiting(0);
    terminal.wait_for("prompt> ");
    assert!(!terminal.place().has("it-ran"));
}

#[test]
fn cmd_reads_from_the_terminal() {
    let server = Server::start();
    let terminal = Terminal::open(&server, &[]);
    terminal.enter("rlock run key -- sh -c 'echo who?; read name; echo hello $name'");
    terminal.wait_for("\nwho?");
    terminal.enter("world");
    terminal.wait_for("\nhello world");
}

/// It behaves like any job: Ctrl-Z stops it, `fg` continues it, and it continues CMD.
#[test]
fn ctrl_z_stops_it_and_fg_goes_on() {
    let server = Server::start();
    let terminal = Terminal::open(&server, &[]);
    terminal.enter(
        "rlock run key -- sh -c 'trap \"echo CONT >>log\" CONT; trap \"echo USR1 >>log\" USR1; echo $PPID >id; \
                    echo ready >>log; while [ -e here ] && ! [ -e end ]; do :; done; echo finished'",
    );
    terminal.place().wait_for("log", "ready");
    terminal.press("C-z");
    terminal.wait_for("Stopped");
    terminal.enter("fg");
    terminal.place().wait_for("log", "CONT");
    // A second CONT that `rlock` passed on would come before this signal.
    crate::support::signal("USR1", &terminal.place().lines("id").concat());
    terminal.place().wait_for("log", "USR1");
    terminal.place().mark("end");
    terminal.wait_for("\nfinished");
    assert_eq!(terminal.place().lines("log"), ["ready", "CONT", "USR1"]);
}
