//! Clients of `rlock-client`. What it sends is not seen; recorded is what it says: that a lock was granted, until when it
//! vouches for it, and that it no longer does.
//!
//! Each attempt is an owner of its own, so that the server's holders can be told apart: to the server such an owner is like
//! any other holder.
//!
//! An error is a failure only if the server has said no. All others leave open whether something was done, or is still to
//! be done in the background.

use super::diary::Diary;
use super::round::Round;
use super::wish::{Deed, Wish};
use crate::history::{Answer, Journal, Moment, Request, Side};
use crate::plan::{Address, ByTls, Client};
use rlock_client::{Access, Certificates, Error, ErrorKind, Guard, Lock, Locks};
use rlock_testing::Random;
use std::pin::pin;
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout_at};

const CONNECT: Duration = Duration::from_millis(500);
const ANSWER: Duration = Duration::from_millis(400);
const PATIENCE: Duration = Duration::from_secs(2);

/// Until servers are tried again that cannot be reached, and a lock that cannot be had.
const PAUSE_MS: (u64, u64) = (5, 50);

/// How often it is asked whether the lock is vouched for.
const LOOK: Duration = Duration::from_millis(20);

/// How long replicas may take to confirm a lock.
const CONFIRM: Duration = Duration::from_millis(500);

/// Longer than anything takes in a round.
const WHATEVER_IT_TAKES: Duration = Duration::from_secs(3_600);

/// Of a hundred locks, those with a lease that nobody renews.
const FIXED_LEASE: u8 = 30;

/// Of a hundred of those, where clients stall at all, the ones that are held to their end and beyond: only there it shows
/// from when a lease is counted.
const TO_ITS_END: u8 = 70;

/// What all guards of a process share: one for each line.
pub type Doors = Vec<Locks>;

/// Tries until all are open; none, if the round is over before.
pub async fn open(address: &Address, by_tls: Option<&ByTls>, round: Round) -> Option<Doors> {
    let lines = match address {
        Address::Lines { ports } => ports.len(),
        Address::Sentinels { .. } | Address::Cluster { .. } => 1,
    };
    let mut doors = Vec::new();
    while doors.len() < lines && !round.is_over() {
        match timeout_at(round.answers(CONNECT * 4), connect(address, by_tls, doors.len())).await {
            Ok(Ok(locks)) => doors.push(locks),
            _ => round.pause(Duration::from_millis(PAUSE_MS.1)).await,
        }
    }
    (doors.len() == lines).then_some(doors)
}

async fn connect(address: &Address, by_tls: Option<&ByTls>, line: usize) -> Result<Locks, Error> {
    let options = Locks::options().connect_timeout(CONNECT).answer_timeout(ANSWER).patience(PATIENCE);
    let url = |port: &u16| format!("redis://127.0.0.1:{port}");
    match (by_tls, address) {
        (Some(ByTls { ports, certificate }), _) => {
            let mut trusted = Certificates::default();
            trusted.authorities = Some(certificate.as_bytes().to_vec());
            options.certificates(trusted).connect_to(format!("rediss://127.0.0.1:{}", ports[line])).await
        }
        (None, Address::Lines { ports }) => options.connect_to(url(&ports[line])).await,
        (None, Address::Sentinels { ports, name, .. }) => {
            options.connect_to_sentinels(ports.iter().map(url), name, Access::default()).await
        }
        (None, Address::Cluster { ports }) => options.connect_to_cluster(ports.iter().map(url)).await,
    }
}

pub struct Keeper {
    client: Client,
    doors: Doors,
    round: Round,
    random: Random,
    diary: Diary,
}

impl Keeper {
    pub fn new(client: Client, doors: Doors, journal: &Journal, round: Round) -> Self {
        let random = Random::from(client.seed);
        let diary = Diary::new(journal.clone(), client.name.clone());
        Self { client, doors, round, random, diary }
    }

    pub async fn live(mut self) {
        while !self.round.is_over() {
            self.attempt().await;
            self.round.pause(Duration::from_millis(self.random.between(self.client.habits.rest_ms))).await;
        }
    }

    async fn attempt(&mut self) {
        let wish = Wish::of(&self.client, &mut self.random);
        let holder = self.diary.new_holder();
        let is_fixed = self.random.is(FIXED_LEASE);
        let Some(kept) = self.acquire(&wish, &holder, is_fixed).await else {
            return self.round.pause(Duration::from_millis(self.random.between(PAUSE_MS))).await;
        };
        if self.random.is(self.client.habits.enters_again) {
            kept.vouch(&self.diary);
            self.go_in_and_out(&wish, &holder).await;
        }
        let deed = match Deed::of(&self.client.habits, &mut self.random) {
            Deed::Keep(_) if is_fixed && self.client.habits.stalls > 0 && self.random.is(TO_ITS_END) => {
                Deed::beyond(wish.lease_ms)
            }
            deed => deed,
        };
        self.keep(&kept, deed).await;
        if matches!(deed, Deed::Die(_)) {
            // It is released in the background, and nobody learns whether it was.
            self.diary.ended(kept.number);
            drop(kept.guard);
        } else {
            self.release(kept, &wish, &holder).await;
        }
    }

    async fn acquire(&mut self, wish: &Wish, holder: &str, is_fixed: bool) -> Option<Kept> {
        let Wish { side, lease_ms, fenced, replicas, .. } = *wish;
        let request = Request::Guard { side, lease_ms, fenced, replicas };
        let until = self.round.waits(wish.gives_up_after.unwrap_or(WHATEVER_IT_TAKES));
        let number = self.diary.called(&wish.lock, holder, request);
        let (answer, guard) = match timeout_at(until, self.ask(wish, holder, is_fixed)).await {
            Ok(Ok(Some((guard, token)))) => (Answer::Granted { token }, Some(guard)),
            Ok(Ok(None)) => (Answer::Refused { left_ms: -1 }, None),
            Ok(Err(error)) => (not_acquired(&error), None),
            Err(_) => (Answer::Unknown("given up".to_owned()), None),
        };
        self.diary.answered(number, answer);
        guard.map(|guard| Kept { number, guard })
    }

    async fn ask(&self, wish: &Wish, holder: &str, is_fixed: bool) -> Result<Option<Granted>, Error> {
        let line = self.client.line as usize % self.doors.len();
        let lock = lock_of(&self.doors[line], wish, is_fixed).owner(holder);
        if wish.fenced {
            let granted = acquire(lock.fenced(), wish.wait_ms).await?.map(|guard| (guard.token(), guard));
            return Ok(granted.map(|(token, guard)| (guard.unfenced(), Some(token))));
        }
        Ok(acquire(lock, wish.wait_ms).await?.map(|guard| (guard, None)))
    }

    /// Takes the lock once more, in the same name, and gives that back at once.
    async fn go_in_and_out(&mut self, wish: &Wish, holder: &str) {
        let wish = Wish { wait_ms: None, gives_up_after: None, replicas: 0, ..wish.clone() };
        if let Some(kept) = self.acquire(&wish, holder, false).await {
            kept.vouch(&self.diary);
            self.release(kept, &wish, holder).await;
        }
    }

    /// Until the work is done, or the lock is lost.
    async fn keep(&self, kept: &Kept, deed: Deed) {
        // Who stalls does not stall the process, whose watchdog goes on: it is only slow.
        let (Deed::Keep(time) | Deed::Renew(time) | Deed::Stall(time) | Deed::Die(time)) = deed;
        let until = Instant::now() + time;
        let mut lost = pin!(kept.guard.lost());
        kept.vouch(&self.diary);
        loop {
            tokio::select! {
                biased;
                () = &mut lost => return,
                () = sleep_until(until.min(Instant::now() + LOOK)) => {}
            }
            if until <= Instant::now() || self.round.is_over() {
                return;
            }
            kept.vouch(&self.diary);
        }
    }

    async fn release(&mut self, kept: Kept, wish: &Wish, holder: &str) {
        self.diary.ended(kept.number);
        let request = Request::Release { side: wish.side, all: false };
        let number = self.diary.called(&wish.lock, holder, request);
        let answer = match timeout_at(self.round.answers(WHATEVER_IT_TAKES), kept.guard.release()).await {
            Ok(Ok(())) => Answer::Released(Some(1)),
            Ok(Err(error)) => not_released(&error),
            Err(_) => Answer::Unknown("given up".to_owned()),
        };
        self.diary.answered(number, answer);
    }
}

/// A lock that this client has, by the call that got it.
struct Kept {
    number: u64,
    guard: Guard,
}

impl Kept {
    /// Records until when it is vouched for, if it is.
    fn vouch(&self, diary: &Diary) {
        // Before it is asked, so that a process that stands still in between vouches for less.
        let at = Moment::now();
        let remaining = self.guard.remaining();
        if !remaining.is_zero() {
            diary.vouched(self.number, at, at + remaining);
        }
    }
}

/// A guard, and its token if it is fenced.
type Granted = (Guard, Option<u64>);

async fn acquire<F>(lock: Lock<F>, wait_ms: Option<u64>) -> Result<Option<Guard<F>>, Error> {
    match wait_ms.map(Duration::from_millis) {
        None => lock.try_acquire().await,
        Some(Duration::ZERO) => lock.acquire().await.map(Some),
        Some(limit) => lock.acquire_timeout(limit).await.map(Some),
    }
}

fn lock_of(locks: &Locks, wish: &Wish, is_fixed: bool) -> Lock {
    let lock = match wish.side {
        Side::Plain => locks.lock(wish.lock.as_str()),
        Side::Read => locks.read_write(wish.lock.as_str()).read(),
        Side::Write => locks.read_write(wish.lock.as_str()).write(),
    };
    let lease = Duration::from_millis(wish.lease_ms);
    let lock = if is_fixed { lock.fixed_lease(lease) } else { lock.lease(lease) };
    if wish.replicas > 0 { lock.replicas(wish.replicas as usize, CONFIRM) } else { lock }
}

fn not_acquired(error: &Error) -> Answer {
    if error.is_timeout() { Answer::Refused { left_ms: -1 } } else { no_or_unknown(error) }
}

fn not_released(error: &Error) -> Answer {
    if error.is_lost() && !error.is_in_doubt() { Answer::Released(None) } else { no_or_unknown(error) }
}

/// It is a no if the server has said so, or nothing was sent.
fn no_or_unknown(error: &Error) -> Answer {
    use ErrorKind::{Configuration, Deadlock, ModuleMissing, QueueFull, Refused, WrongKind};
    match error.kind() {
        WrongKind | Deadlock | QueueFull | ModuleMissing | Refused | Configuration => Answer::Failed(error.to_string()),
        _ => Answer::Unknown(error.to_string()),
    }
}
