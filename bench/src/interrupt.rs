//! Ctrl-C and its kin: what runs is stopped, and nothing is written.
//!
//! One list has all that must not outlive the program. Who starts a server or writes results holds the list meanwhile,
//! so a signal never finds a server that is half started, or results that are half written.

use rlock_testing::{Client, Server, Signal, send_signal, wait_until};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::ops::Deref;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Whether a signal came, and the program is about to end.
static HAPPENED: AtomicBool = AtomicBool::new(false);

static RUNNING: Mutex<Vec<Task>> = Mutex::new(Vec::new());

/// A process of ours, and the directory that goes with it.
struct Task {
    id: u32,
    directory: Option<PathBuf>,
}

impl Task {
    fn stop(&self) {
        let _ = send_signal(self.id, Signal::SIGKILL);
        let deadline = Instant::now() + Duration::from_secs(10);
        while self.is_alive() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        if let Some(directory) = &self.directory {
            let _ = std::fs::remove_dir_all(directory);
        }
    }

    /// A process that has ended but was not waited for has no program any more.
    fn is_alive(&self) -> bool {
        std::fs::read_link(format!("/proc/{}/exe", self.id)).is_ok()
    }
}

/// From now on a signal ends the program in good order.
pub fn watch() {
    fail_after_signals();
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM]).expect("signals can be handled");
    std::thread::spawn(move || {
        let _ = signals.forever().next();
        HAPPENED.store(true, Ordering::Relaxed);
        let tasks = running();
        tasks.iter().for_each(Task::stop);
        eprintln!("\nbench: interrupted: the servers are stopped, and nothing is written");
        std::process::exit(130);
    });
}

/// A server that is suddenly gone is often the first sign of Ctrl-C, which a terminal sends to all of us at once. So who
/// fails lets the signal come first, and only then says why.
fn fail_after_signals() {
    std::panic::set_hook(Box::new(|failure| {
        std::thread::sleep(Duration::from_millis(200));
        while HAPPENED.load(Ordering::Relaxed) {
            std::thread::park();
        }
        eprintln!("\nbench: {failure}");
    }));
}

/// Does what no signal may cut in two.
pub fn undisturbed<T>(work: impl FnOnce() -> T) -> T {
    let _held = running();
    work()
}

/// A server that ends with the program, however that ends.
pub struct Guarded(Server);

impl Guarded {
    pub fn start(start: impl FnOnce() -> Server) -> Self {
        let mut tasks = running();
        let server = start();
        wait_until("the module knows who follows", || knows_who_follows(&mut server.client()));
        let directory = server.socket().parent().map(PathBuf::from);
        tasks.push(Task { id: server.id(), directory });
        Self(server)
    }
}

/// A server tells nobody of changes where nobody follows, but finds that out only after a while. What is measured is what
/// comes after it.
fn knows_who_follows(client: &mut Client) -> bool {
    let has_file = client.say("INFO persistence").as_text().contains("aof_enabled:1");
    let still_told = if has_file { "rlock_followed_by_replicas:1" } else { "rlock_followed:1" };
    !client.say("INFO rlock").as_text().contains(still_told)
}

impl Deref for Guarded {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.0
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        running().retain(|task| task.id != self.0.id());
    }
}

/// A process without a directory, which ends with the program.
pub fn run(command: &mut Command) -> std::io::Result<std::process::Output> {
    let child = {
        let mut tasks = running();
        let child = command.spawn()?;
        tasks.push(Task { id: child.id(), directory: None });
        child
    };
    let id = child.id();
    let output = child.wait_with_output();
    running().retain(|task| task.id != id);
    output
}

/// A measurement that failed says nothing about the list.
fn running() -> MutexGuard<'static, Vec<Task>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}
