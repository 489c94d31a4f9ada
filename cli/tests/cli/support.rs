//! What the tests of the command line have in common: the program, run as cron would run it, and its results.

use nix::sys::signal::{SIGALRM, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SigHandler, Signal};
use rlock_testing::{Client, PATIENCE, Server, wait_until};
use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// `rlock` for that server, as cron runs it: without a terminal.
pub fn rlock(server: &Server, arguments: &[&str]) -> Command {
    let mut command = bare(arguments);
    command.env("RLOCK_URL", url(server));
    command
}

/// `rlock` that knows of no server.
pub fn bare(arguments: &[&str]) -> Command {
    program(env!("CARGO_BIN_EXE_rlock"), arguments)
}

/// Any program in the same surroundings.
pub fn program(name: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(name);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for name in ["RLOCK_URL", "RLOCK_PASSWORD", "RLOCK_PASSWORD_FILE", "NO_COLOR"] {
        command.env_remove(name);
    }
    // This would show a backtrace, if there were one.
    command.env("RUST_BACKTRACE", "full");
    without_terminal(&mut command);
    command
}

/// In its own session, with all signals at their defaults: the tests may have been started by `nohup`.
fn without_terminal(command: &mut Command) {
    let begin = || {
        for signal in [SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM] {
            // SAFETY: resetting a signal to its default runs no code of ours.
            unsafe { nix::sys::signal::signal(signal, SigHandler::SigDfl) }?;
        }
        nix::unistd::setsid().map(drop).map_err(Into::into)
    };
    // SAFETY: system calls only, which allocate nothing.
    unsafe { command.pre_exec(begin) };
}

pub fn url(server: &Server) -> String {
    format!("redis+unix://{}", server.socket().display())
}

/// A running program. If a test gives up on it, it is killed.
///
/// Its output goes into files: a pipe would stay open as long as any process that it started.
pub struct Running {
    process: Child,
    output: File,
    errors: File,
}

/// The results of a program that has ended.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub output: String,
    pub errors: String,
}

pub fn start(mut command: Command) -> Running {
    let [output, errors] = [(); 2].map(|()| tempfile::tempfile().unwrap());
    command.stdout(output.try_clone().unwrap()).stderr(errors.try_clone().unwrap());
    Running { process: command.spawn().unwrap(), output, errors }
}

/// Runs it to its end.
pub fn run(command: Command) -> Ended {
    start(command).end()
}

impl Running {
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    pub fn signal(&self, name: &str) {
        signal(name, &self.id().to_string());
    }

    pub fn is_running(&mut self) -> bool {
        self.process.try_wait().unwrap().is_none()
    }

    /// Waits for its end.
    pub fn end(mut self) -> Ended {
        wait_until("the program has ended", || !self.is_running());
        let status = self.process.wait().unwrap();
        Ended { status, output: text(&mut self.output), errors: text(&mut self.errors) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Does nothing if the process has been waited for.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn text(file: &mut File) -> String {
    let mut text = String::new();
    file.rewind().unwrap();
    file.read_to_string(&mut text).unwrap();
    text
}

impl Ended {
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or_else(|| panic!("it was killed: {self:?}"))
    }

    /// It failed with this code, and said why in one line with these words.
    #[track_caller]
    pub fn failed(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code(), code, "{self:?}");
        assert_eq!(self.output, "", "{self:?}");
        self.said(words);
    }

    /// It said one line on stderr, with these words. Suggestions are on further lines, each a tip.
    #[track_caller]
    pub fn said(&self, words: &[&str]) {
        let lines = self.errors.strip_suffix('\n').unwrap_or_else(|| panic!("no line: {self:?}"));
        let mut each = lines.split('\n');
        assert!(each.next().is_some_and(|line| line.starts_with("rlock: ")), "not a line of ours: {self:?}");
        assert!(each.all(|line| line.starts_with("  tip: ")), "not one line of ours: {self:?}");
        assert!(lines.lines().all(|line| !line.trim_start().contains("  ")), "a gap: {lines}");
        for word in words {
            assert!(lines.contains(word), "{word} is not in: {lines}");
        }
    }

    /// It succeeded and said nothing on stderr.
    #[track_caller]
    pub fn succeeded(&self) -> &str {
        assert_eq!((self.code(), self.errors.as_str()), (0, ""), "{self:?}");
        &self.output
    }
}

/// Sends a signal, by its name without SIG, to the process of that id.
pub fn signal(name: &str, process: &str) {
    let signal: Signal = format!("SIG{name}").parse().unwrap();
    let sent = rlock_testing::send_signal(process.trim().parse().unwrap(), signal);
    sent.unwrap_or_else(|error| panic!("SIG{name} to {process}: {error}"));
}

/// Whether a process of that id is there, and has not just ended.
pub fn is_alive(id: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", id.trim())).unwrap_or_default();
    let state = status.lines().find_map(|line| line.strip_prefix("State:"));
    state.is_some_and(|state| !state.trim_start().starts_with(['Z', 'X']))
}

/// The processes that it has started and that have not ended.
pub fn children(running: &Running) -> String {
    std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", running.id())).unwrap_or_default()
}

/// A directory for the files that CMDs create. A CMD that runs as long as the test needs checks for the file `here`, so
/// that it ends with the test in any case.
pub struct Place(TempDir);

impl Place {
    pub fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        place.mark("here");
        place
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn has(&self, name: &str) -> bool {
        self.file(name).exists()
    }

    pub fn mark(&self, name: &str) {
        std::fs::write(self.file(name), "").unwrap();
    }

    /// The lines of a file that CMDs write to. Only whole ones.
    pub fn lines(&self, name: &str) -> Vec<String> {
        let text = std::fs::read_to_string(self.file(name)).unwrap_or_default();
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().map(str::to_owned).collect()
    }

    pub fn wait_for(&self, name: &str, line: &str) {
        wait_until(&format!("{name} has {line}"), || self.lines(name).iter().any(|it| it == line));
    }

    /// Lets the command run its CMDs here.
    pub fn of(&self, mut command: Command) -> Command {
        command.current_dir(self.path());
        command
    }
}

pub fn exists(client: &mut Client, key: &str) -> bool {
    client.run(&["EXISTS", key]).as_int() == 1
}

/// Gives the lock to another holder.
pub fn taken(client: &mut Client, key: &str) {
    assert_eq!(client.run(&["RLOCK.ACQUIRE", key, "somebody", "600000"]), rlock_testing::Reply::Nil);
}

pub fn released(client: &mut Client, key: &str) {
    assert_eq!(client.run(&["RLOCK.RELEASE", key, "somebody"]).as_int(), 1);
}

/// How often the waiters were inspected.
pub fn looks(client: &mut Client) -> i64 {
    let statistics = client.info("commandstats");
    let line = statistics.find("cmdstat_rlock.inspect").unwrap_or("calls=0,");
    line.split(['=', ',']).nth(1).and_then(|calls| calls.parse().ok()).unwrap()
}

/// Fails if it takes `PATIENCE` or longer.
pub fn within_patience<T>(what: impl FnOnce() -> T) -> (T, Duration) {
    let began = Instant::now();
    let result = what();
    let took = began.elapsed();
    assert!(took < PATIENCE, "it took {took:?}");
    (result, took)
}
