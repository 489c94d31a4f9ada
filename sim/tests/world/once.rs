//! The promises about answers: which holder stores one, which callers get it, and which caller leads while it is kept.

use crate::program::{Guard, Releasing, answer_of};
use crate::server::{Health, Name, Request, Server, number, text};
use crate::world::{LOCKS, World};
use rlock_client_core::Error;
use rlock_core::lock::Expiry;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

#[derive(Default)]
pub struct Answers {
    /// By the value.
    made: BTreeMap<Name, Made>,
    /// By the lock.
    kept: BTreeMap<Name, Kept>,
}

struct Made {
    key: Name,
    /// Until when its leader's lease was guaranteed when the work ended. None: it was lost.
    until: Option<Instant>,
}

struct Kept {
    server: usize,
    until: Duration,
}

impl World {
    /// The work of a leader has ended, with an answer.
    pub fn notes_made(&mut self, program: usize, guard: u64) {
        let it = &self.programs[program];
        let Guard { grant, key, holder, .. } = &it.guards[&guard];
        let left = it.left(grant, self.at);
        let until = (!left.is_zero()).then(|| it.now(self.at) + left);
        self.answers.made.insert(answer_of(holder), Made { key: key.clone(), until });
    }

    /// A leader still counts on its lease when it sends its answer.
    pub fn check_sent(&self, program: usize, request: &Request) {
        let (value, now) = (text(&request[3]), self.programs[program].now(self.at));
        let until = self.answers.made.get(&value).and_then(|made| made.until);
        assert!(until.is_some_and(|until| now < until), "{value} is sent, and its leader's lease is over");
    }

    /// An answer that a caller gets was made for its key, by a leader that counted on its lease.
    pub fn check_answered(&self, key: &str, value: &str) {
        let made = self.answers.made.get(value).filter(|made| made.key == key);
        assert!(made.is_some(), "{value} is the answer of {key}, and no leader of it has made that");
        assert!(made.is_some_and(|made| made.until.is_some()), "{value} was made by a leader that had lost its lock");
        assert!(self.is_stored(value), "{value} is an answer, and no server has stored it");
    }

    /// A caller's own value is reported as stored only if it was, and its lock was guaranteed to the end of its work.
    pub fn check_own_answer(&self, releasing: &Releasing, result: &Result<(), Error>) {
        let Some(value) = &releasing.answer else { return };
        let is_its_own = result.is_ok();
        assert!(!is_its_own || releasing.was_known_to_hold, "{value} is its caller's own, and the lock was lost");
        assert!(!is_its_own || self.is_stored(value), "{value} was reported as stored, and no server has said so");
    }

    fn is_stored(&self, value: &str) -> bool {
        self.servers.iter().any(|server| server.stored.contains(value))
    }

    /// No caller leads while an answer is kept.
    pub fn check_leads(&self, guard: &Guard) {
        let Some(kept) = self.answers.kept.get(&guard.key).filter(|kept| kept.server == guard.backed_by) else {
            return;
        };
        let hold = (guard.key.clone(), guard.holder.clone());
        let is_excused = self.servers.iter().any(|server| server.taken_away.contains(&hold))
            || self.has_failed_over && !self.protection.promises_one_holder;
        assert!(
            !guard.is_lead || is_excused || self.at >= kept.until,
            "{} leads, and an answer of {} is kept until {:?}",
            guard.holder,
            guard.key,
            kept.until
        );
    }

    /// Notes what a server has stored since the last call.
    pub fn notes_answers(&mut self, server: usize) {
        let it = &mut self.servers[server];
        for (key, until) in it.newly_stored.drain(..) {
            self.answers.kept.insert(key, Kept { server, until });
        }
    }

    /// A server may have lost its answers.
    pub fn may_lose_answers(&mut self, server: usize) {
        self.answers.kept.retain(|_, kept| kept.server != server);
    }

    pub fn forgets(&mut self, lock: usize) {
        let master = self.master;
        if self.servers[master].health == Health::Up {
            self.answers.kept.remove(LOCKS[lock]);
            self.servers[master].forgets(LOCKS[lock], self.at, &self.protection);
        }
    }
}

impl Server {
    /// The reply to ANSWER: stored if its holder held the lock, and that ends the hold.
    pub fn check_stored(&mut self, request: &Request, was_held: bool, reply: &[u8]) {
        let (key, holder, value) = (text(&request[1]), text(&request[2]), text(&request[3]));
        if reply.starts_with(b"-") {
            return;
        }
        let is_stored = reply == b":1\r\n";
        assert_eq!(is_stored, was_held, "{value} of {holder}, which held {key}: {was_held}; and it was stored");
        if is_stored {
            assert!(!self.is_held_by(&key, &holder), "{holder} has stored its answer, and holds {key}");
            let end = self.node.now() + number::<i64>(&request[5]);
            assert_eq!(self.answer(&key), Some((value.clone(), Expiry::At(end))), "what is stored");
            self.newly_stored.push((key, self.clock.shows(end)));
            self.stored.insert(value);
        }
    }

    /// A waiter by ONCE has the answer as soon as the server has nothing left to do.
    pub fn check_waiters(&self, key: &str, holder: &str) {
        let is_due = self.node.wakes_at().is_some_and(|at| at <= self.node.now());
        let waits_by_once = self.is_master() && self.asked_by_once.contains(holder);
        assert!(!waits_by_once || is_due || self.answer(key).is_none(), "{holder} waits, and {key} has an answer");
    }

    fn answer(&self, key: &str) -> Option<(Name, Expiry)> {
        let keyspace = self.node.host.keyspace.borrow();
        keyspace.answer(0, key.as_bytes()).ok().flatten().map(|(value, expiry)| (text(value), expiry))
    }
}
