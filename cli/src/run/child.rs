//! CMD's process.
//!
//! **Its process group.** With a terminal it stays in ours: only the foreground group may read from the terminal, and
//! Ctrl-C and Ctrl-Z go to all of it, so that the shell sees the same job as without us. Without one, under cron or
//! systemd, it gets a group of its own, so that everything it started can be ended with it: in `sh -c 'dump | gzip'`
//! the shell is not the process that matters.
//!
//! **If we are killed**, Linux sends TERM to CMD, because its lock is not renewed any more. That is tied to the thread
//! that starts CMD, which must be the main one. Other systems have no such feature.

use super::Job;
use super::terminal::Terminal;
use crate::exit;
use crate::signals::Arrival;
use crate::wait::{HOLDERS, with_outer_holders};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use std::fs::File;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};
use tokio::process;

pub struct Child {
    process: process::Child,
    id: Pid,
    /// It leads its own process group, which has its id.
    leads: bool,
    ended: Option<u8>,
    terminal: Option<Terminal>,
}

impl Child {
    /// `holder` holds the lock, with these fencing tokens.
    pub fn start(job: &Job<'_>, holder: &str, tokens: Option<&str>, stdout: Stdio) -> io::Result<Self> {
        let leads = !has_terminal();
        let mut command = Command::new(&job.program.file);
        command.arg0(&job.program.words[0]).args(&job.program.words[1..]).stdout(stdout);
        command.env("RLOCK_KEY", job.key).env("RLOCK_HOLDER", holder);
        command.env(HOLDERS, with_outer_holders(holder));
        job.secret.into_iter().for_each(|name| _ = command.env_remove(name));
        match tokens {
            Some(tokens) => command.env("RLOCK_TOKEN", tokens),
            // The inherited token is that of another lock, under which we run.
            None => command.env_remove("RLOCK_TOKEN"),
        };
        if leads {
            command.process_group(0);
        }
        end_with_us(&mut command);
        let terminal = Terminal::remember();
        let process = process::Command::from(command).spawn()?;
        let id = process.id().and_then(|id| i32::try_from(id).ok());
        let id = id.ok_or_else(|| io::Error::other("it has no process id"))?;
        Ok(Self { process, id: Pid::from_raw(id), leads, ended: None, terminal })
    }

    /// Its exit code, as a shell would report it. Can be called again. Cancel safe.
    pub async fn ended(&mut self) -> io::Result<u8> {
        if let Some(code) = self.ended {
            return Ok(code);
        }
        let status = self.process.wait().await?;
        let code = match (status.code(), status.signal()) {
            (Some(code), _) => u8::try_from(code & 0xff).unwrap_or(u8::MAX),
            (None, signal) => exit::by_signal(signal.unwrap_or_default()),
        };
        self.ended = Some(code);
        if status.signal().is_some() {
            self.restore_terminal();
        }
        Ok(code)
    }

    /// Restores the terminal's settings after CMD has ended.
    pub fn restore_terminal(&self) {
        if let Some(terminal) = &self.terminal {
            terminal.restore(self.id);
        }
    }

    /// A terminal sends its signals to CMD as well, if CMD is in our group; so does a shell that continues its job. A
    /// signal to end goes to everything that CMD started, as at a terminal, and continues stopped processes, which
    /// could not end otherwise. Other signals are for CMD only.
    pub fn pass_on(&self, Arrival { signal, by_terminal }: Arrival) {
        match signal {
            _ if by_terminal && !self.leads => {}
            Signal::SIGCONT if !self.leads => {}
            Signal::SIGUSR1 | Signal::SIGUSR2 | Signal::SIGALRM | Signal::SIGWINCH => self.send(signal),
            _ => {
                self.send_to_all(signal);
                self.send_to_all(Signal::SIGCONT);
            }
        }
    }

    /// Sends it to CMD, and to everything that CMD started, if that can be distinguished from our own group.
    pub fn send_to_all(&self, signal: Signal) {
        if self.leads {
            // While any process is left in the group, its id is not given to another, whether or not CMD is there.
            let _ = killpg(self.id, signal);
        } else {
            self.send(signal);
        }
    }

    /// Whether a process is left in the target of `send_to_all`.
    pub fn has_processes(&self) -> bool {
        self.ended.is_none() || (self.leads && killpg(self.id, None) != Err(Errno::ESRCH))
    }

    fn send(&self, signal: Signal) {
        // Until its code has been collected, its id is not given to another process.
        if self.ended.is_none() {
            let _ = kill(self.id, signal);
        }
    }
}

fn has_terminal() -> bool {
    File::open("/dev/tty").is_ok()
}

#[cfg(target_os = "linux")]
fn end_with_us(command: &mut Command) {
    let parent = nix::unistd::getpid();
    let ask = move || {
        nix::sys::prctl::set_pdeathsig(Signal::SIGTERM)?;
        // We may have been killed before the signal was requested.
        match nix::unistd::getppid() == parent {
            true => Ok(()),
            false => Err(io::ErrorKind::BrokenPipe.into()),
        }
    };
    // SAFETY: between fork and exec it makes two system calls, and allocates nothing.
    unsafe { command.pre_exec(ask) };
}

#[cfg(not(target_os = "linux"))]
fn end_with_us(_: &mut Command) {}
