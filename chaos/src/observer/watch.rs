//! One observed server, on its own connection and thread: while one server is silent, the others are still observed.

use super::reading::{queues, sample};
use crate::history::{Journal, Moment, Reach, Record, Trouble};
use rlock_testing::{Client, Reply};
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How long a connection may stay without an answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// If a short sleep takes this much longer than asked, nothing on this machine ran meanwhile, including the servers.
pub const STALL: Duration = Duration::from_millis(500);

/// Each silence of at least this length is recorded.
const LONG: Duration = Duration::from_millis(100);

/// In one of this many rounds, the server is asked which other locks have waiters.
const QUEUES_EACH: u64 = 10;

/// How many holders and waiters of a lock are asked for, at most.
const COUNT: &str = "500";

const PING: &[&str] = &["PING"];
const QUEUES: &[&str] = &["RLOCK.QUEUES", "COUNT", "200"];

pub struct Watch {
    journal: Journal,
    server: String,
    socket: PathBuf,
    /// The locks that are sampled each time.
    locks: Vec<String>,
    /// Other locks that were held or waited for in their last sample.
    others: HashSet<String>,
    /// The locks with a holder or a waiter in their last sample.
    in_use: HashSet<String>,
    client: Option<Client>,
    /// When the server was asked something that it has not answered yet.
    silent_since: Option<Moment>,
    seen: Seen,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    pub samples: u64,
    pub longest_silence: Duration,
}

/// The connection has to be given up.
struct Lost;

impl Watch {
    pub fn new(journal: Journal, server: String, socket: PathBuf, locks: Vec<String>) -> Self {
        let (others, in_use, client, silent_since, seen) = Default::default();
        Self { journal, server, socket, locks, others, in_use, client, silent_since, seen }
    }

    /// Runs until the sender of `until_dropped` is gone.
    pub fn run(mut self, every: Duration, targets: &Mutex<Vec<String>>, until_dropped: &Receiver<()>) -> Seen {
        for number in 0.. {
            let began = Moment::now();
            if targets.lock().unwrap_or_else(PoisonError::into_inner).contains(&self.server) {
                self.look(number);
            } else {
                self.client = None;
                self.end_silence();
            }
            let (sleeps, rest) = (Moment::now(), every.saturating_sub(Moment::now().since(began)));
            if until_dropped.recv_timeout(rest) == Err(RecvTimeoutError::Disconnected) {
                break;
            }
            self.note_stall(sleeps, rest, Moment::now());
        }
        self.end_silence();
        self.seen
    }

    /// Records a stall of the machine, so that the servers do not get the blame for the delay.
    pub fn note_stall(&self, began: Moment, rest: Duration, ended: Moment) {
        if ended.since(began) >= rest + STALL {
            let (what, reach) = ("the machine is stalled".into(), Reach::NoWrites { server: self.server.clone() });
            self.journal.write(&Record::Troubled(Trouble { began, ended, what, reach }));
        }
    }

    fn look(&mut self, number: u64) {
        let client = self.client.take().or_else(|| Client::connect_for(&self.socket, PATIENCE).ok());
        let Some(mut client) = client else { return self.end_silence() };
        if self.look_with(&mut client, number).is_ok() {
            self.client = Some(client);
        }
    }

    fn look_with(&mut self, client: &mut Client, number: u64) -> Result<(), Lost> {
        let locks = self.locks.clone();
        self.inspect(client, &locks)?;
        if number % QUEUES_EACH == 0 { self.look_at_others(client) } else { Ok(()) }
    }

    fn look_at_others(&mut self, client: &mut Client) -> Result<(), Lost> {
        let asked = self.ask(client, &[QUEUES])?;
        let reply = self.answer(client, asked)?;
        self.others.extend(queues(&reply).unwrap_or_default());
        self.others.retain(|lock| !self.locks.contains(lock));
        let others: Vec<_> = self.others.iter().cloned().collect();
        self.inspect(client, &others)?;
        self.others.retain(|lock| self.in_use.contains(lock));
        Ok(())
    }

    fn inspect(&mut self, client: &mut Client, locks: &[String]) -> Result<(), Lost> {
        let commands: Vec<_> = locks.iter().map(|lock| ["RLOCK.INSPECT", lock, "COUNT", COUNT]).collect();
        let commands: Vec<&[&str]> = commands.iter().map(|command| &command[..]).collect();
        let asked = self.ask(client, &commands)?;
        for lock in locks {
            let reply = self.answer(client, asked)?;
            self.note(lock, asked, Moment::now(), &reply);
        }
        Ok(())
    }

    /// Sends a PING and these commands, and waits for the answer to the PING. A server answers after it has done all of
    /// them, so its silence includes our own questions.
    fn ask(&mut self, client: &mut Client, commands: &[&[&str]]) -> Result<Moment, Lost> {
        let asked = Moment::now();
        let together: Vec<&[&str]> = std::iter::once(PING).chain(commands.iter().copied()).collect();
        self.silent_since.get_or_insert(asked);
        if client.try_send_together(&together).is_err() {
            return Err(self.give_up(asked));
        }
        self.answer(client, asked)?;
        self.end_silence();
        Ok(asked)
    }

    fn answer(&mut self, client: &mut Client, asked: Moment) -> Result<Reply, Lost> {
        client.try_receive().ok_or_else(|| self.give_up(asked))
    }

    /// A server that took too long is silent until it answers on a new connection; a server that is gone is not.
    fn give_up(&mut self, asked: Moment) -> Lost {
        if Moment::now().since(asked) >= PATIENCE {
            self.silent_since.get_or_insert(asked);
        } else {
            self.end_silence();
        }
        Lost
    }

    fn end_silence(&mut self) {
        let Some(since) = self.silent_since.take() else { return };
        let length = Moment::now().since(since);
        self.seen.longest_silence = self.seen.longest_silence.max(length);
        if length > LONG {
            let what = format!("silence of server {}, ms", self.server);
            self.journal.write(&Record::Measured { at: since, what, value: length.as_secs_f64() * 1_000.0 });
        }
    }

    /// Records a lock in use each time, and an unused one only once.
    fn note(&mut self, lock: &str, asked: Moment, answered: Moment, reply: &Reply) {
        let was_in_use = self.in_use.remove(lock);
        let Some(sample) = sample(reply, (asked, answered), &self.server, lock) else { return };
        let is_in_use = !sample.holders.is_empty() || !sample.waiters.is_empty();
        if is_in_use {
            self.in_use.insert(lock.to_owned());
        }
        if is_in_use || was_in_use {
            self.journal.write(&Record::Seen(sample));
            self.seen.samples += 1;
        }
    }
}
