//! The terminal's settings, when CMD has changed them.

use crate::support::signal;
use crate::terminal::Terminal;
use rlock_testing::Server;

/// A CMD that makes the terminal raw and goes on until it is killed.
const RAW: &str = "sh -c 'stty raw -echo; trap \"\" TERM; echo $PPID >id; echo ready >>log; \
                   while [ -e here ]; do sleep 0.01; done'";

/// Types a line that writes down the settings before it and after it.
fn around(terminal: &Terminal, line: &str) {
    terminal.enter(&format!("stty -a >before; {line}; stty -a >after; echo over >>log"));
}

fn are_as_before(terminal: &Terminal) {
    terminal.place().wait_for("log", "over");
    let [before, after] = ["before", "after"].map(|name| terminal.place().lines(name));
    assert!(!before.is_empty());
    assert_eq!(before, after);
}

/// CMD is killed, or ends by itself as a reaction to our signal.
#[test]
fn a_cmd_that_ends_as_its_lock_is_lost_leaves_the_terminal_as_it_was() {
    let server = Server::start();
    for (grace, trap, said) in [("0", "trap \"\" TERM", "it was killed"), ("10m", "trap \"exit 3\" TERM", "sent TERM")]
    {
        let terminal = Terminal::open(&server, &[]);
        let cmd = RAW.replace("trap \"\" TERM", trap);
        around(&terminal, &format!("rlock run --lease 1s --grace {grace} key -- {cmd}"));
        terminal.place().wait_for("log", "ready");
        assert_eq!(server.client().say("RLOCK.BREAK key").as_int(), 1);
        are_as_before(&terminal);
        terminal.wait_for(said);
    }
}

#[test]
fn a_cmd_that_is_killed_by_a_signal_leaves_the_terminal_as_it_was() {
    let server = Server::start();
    let terminal = Terminal::open(&server, &[]);
    around(&terminal, &format!("rlock run key -- {}", RAW.replace("trap \"\" TERM; ", "")));
    terminal.place().wait_for("log", "ready");
    signal("TERM", &terminal.place().lines("id").concat());
    are_as_before(&terminal);
}

/// A shell takes the foreground, and is killed there. The next command of the script can read from the terminal again.
#[test]
fn a_shell_that_is_killed_leaves_the_foreground_as_well() {
    let server = Server::start();
    let terminal = Terminal::open(&server, &[]);
    let script = "rlock run --lease 1s --grace 0 key -- env PS1=inner: bash --norc -i; \
                  stty -a >after; echo over >>log; read line; echo got $line >>log";
    terminal.enter(&format!("stty -a >before; sh -c '{script}'"));
    terminal.wait_for("\ninner:");
    assert_eq!(server.client().say("RLOCK.BREAK key").as_int(), 1);
    are_as_before(&terminal);
    terminal.enter("hello");
    terminal.place().wait_for("log", "got hello");
}

/// If CMD ended by itself, its changes are intended.
#[test]
fn a_cmd_that_ends_by_itself_may_change_the_terminal() {
    let server = Server::start();
    let terminal = Terminal::open(&server, &[]);
    around(&terminal, "rlock run key -- stty -echo");
    terminal.place().wait_for("log", "over");
    let after = terminal.place().lines("after").concat();
    assert!(after.contains(" -echo "), "{after}");
}

/// While we are in the background, the terminal belongs to another job, which may have changed it.
#[test]
fn a_terminal_that_another_process_has_by_then_is_left_alone() {
    let server = Server::start();
    let terminal = Terminal::open(&server, &[]);
    let cmd = "sh -c 'echo ready >>log; while [ -e here ]; do sleep 0.01; done'";
    terminal.enter(&format!("rlock run --lease 1s --grace 0 key -- {cmd}"));
    terminal.place().wait_for("log", "ready");
    terminal.press("C-z");
    terminal.wait_for("Stopped");
    terminal.enter("stty -echo; bg; echo changed >>log");
    terminal.place().wait_for("log", "changed");
    server.client().say("RLOCK.BREAK key");
    terminal.wait_for("rlock: key: the lock was lost");
    terminal.enter("wait; stty -a >after; echo over >>log");
    terminal.place().wait_for("log", "over");
    let after = terminal.place().lines("after").concat();
    assert!(after.contains(" -echo "), "{after}");
}
