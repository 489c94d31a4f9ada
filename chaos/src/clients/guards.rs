//! Users of `rlock-client`, and of the clients for other languages. Their requests are not recorded, only their reports:
//! that a lock was granted, until when it is guaranteed, and that it no longer is.
//!
//! Each attempt has its own owner, so that the server's holders can be distinguished: to the server such an owner is
//! like any other holder.
//!
//! An error is a failure only if the server has refused. Every other error leaves open whether the request was carried
//! out, or will still be in the background.

use super::adapters::{self, Adapter};
use super::diary::Diary;
use super::round::Round;
use super::wish::{Deed, Wish};
use crate::history::{Answer, Journal, Moment, Request, Side};
use crate::plan::{Address, Client};
use rlock_client::{Access, Error, ErrorKind, Fenced, Guard, Lock, Locks, Unfenced};
use rlock_testing::Random;
use serde_json::{Value, json};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout_at};

const CONNECT: Duration = Duration::from_millis(500);

/// How long an adapter may take to start and its client to connect.
const BEGIN: Duration = Duration::from_secs(5);
const ANSWER: Duration = Duration::from_millis(400);
const PATIENCE: Duration = Duration::from_secs(2);

/// Pauses before the next try, in ms: servers are unreachable, or the lock was not granted.
const PAUSE_MS: (u64, u64) = (5, 50);

/// How often a holder asks whether the lock is guaranteed.
const LOOK: Duration = Duration::from_millis(20);

/// Longer than anything takes in a round.
const WHATEVER_IT_TAKES: Duration = Duration::from_secs(3_600);

/// Percentage of locks with a lease that is not renewed.
const FIXED_LEASE: u8 = 30;

/// Percentage of those locks, if clients stall at all, that are held to the end of the lease and beyond: only these show
/// when a lease began.
const TO_ITS_END: u8 = 70;

/// The clients that all guards of a process share: one for each line.
pub type Doors = Vec<Door>;

/// A client that all guards of a process share: this language's, or another's by its adapter.
#[derive(Clone)]
pub enum Door {
    Rust(Locks),
    Adapter(Arc<Adapter>),
}

impl Door {
    /// Waits until all releases in the background are done.
    pub async fn settle(&self) {
        match self {
            Self::Rust(locks) => locks.settle().await,
            Self::Adapter(adapter) => adapter.close().await,
        }
    }
}

/// Tries until all clients are open; None if the round ends first. With an adapter, the clients are of its language.
pub async fn open(address: Address, adapter: Option<String>, round: Round) -> Option<Doors> {
    let lines = match &address {
        Address::Lines { ports } => ports.len(),
        Address::Sentinels { .. } | Address::Cluster { .. } => 1,
    };
    let mut doors = Vec::new();
    while doors.len() < lines && !round.is_over() {
        let door = async {
            match &adapter {
                None => connect(&address, doors.len()).await.ok().map(Door::Rust),
                Some(command) => Adapter::open(command, place(&address, doors.len())).await.map(Door::Adapter),
            }
        };
        match timeout_at(round.answers(BEGIN), door).await {
            Ok(Some(door)) => doors.push(door),
            _ => round.pause(Duration::from_millis(PAUSE_MS.1)).await,
        }
    }
    (doors.len() == lines).then_some(doors)
}

async fn connect(address: &Address, line: usize) -> Result<Locks, Error> {
    let options = Locks::options().connect_timeout(CONNECT).answer_timeout(ANSWER).patience(PATIENCE);
    match address {
        Address::Lines { ports } => options.connect_to(url(&ports[line])).await,
        Address::Sentinels { ports, name, .. } => {
            options.connect_to_sentinels(ports.iter().map(url), name, Access::default()).await
        }
        Address::Cluster { ports } => options.connect_to_cluster(ports.iter().map(url)).await,
    }
}

fn url(port: &u16) -> String {
    format!("redis://127.0.0.1:{port}")
}

/// The same address for adapters.
fn place(address: &Address, line: usize) -> Value {
    let urls = |ports: &[u16]| ports.iter().map(url).collect::<Vec<_>>();
    let place = match address {
        Address::Lines { ports } => json!({"url": url(&ports[line])}),
        Address::Sentinels { ports, name, .. } => json!({"sentinels": urls(ports), "master": name}),
        Address::Cluster { ports } => json!({"cluster": urls(ports)}),
    };
    let mut open = json!({"do": "open", "patience": ms(PATIENCE), "answer": ms(ANSWER)});
    if let (Some(open), Value::Object(place)) = (open.as_object_mut(), place) {
        open.extend(place);
    }
    open
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
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
        // Permits have no owner, so they have no re-entry.
        if wish.side != Side::Permit && self.random.is(self.client.habits.enters_again) {
            kept.record_guarantee(&self.diary).await;
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
            // It is released in the background, without a report.
            self.diary.ended(kept.number);
            drop(kept.guard);
        } else {
            self.release(kept, &wish, &holder).await;
        }
    }

    async fn acquire(&mut self, wish: &Wish, holder: &str, is_fixed: bool) -> Option<Kept> {
        let Wish { side, limit, lease_ms, fenced, .. } = *wish;
        let request = Request::Guard { side, limit, lease_ms, fenced };
        let until = self.round.waits(wish.gives_up_after.unwrap_or(WHATEVER_IT_TAKES));
        let number = self.diary.called(&wish.lock, holder, request);
        let (answer, guard) = match self.ask(wish, holder, is_fixed, until).await {
            Ok((guard, token)) => (Answer::Granted { token }, Some(guard)),
            Err(answer) => (answer, None),
        };
        self.diary.answered(number, answer);
        guard.map(|guard| Kept { number, guard })
    }

    /// Gives up if it is not granted by `until`.
    async fn ask(&self, wish: &Wish, holder: &str, is_fixed: bool, until: Instant) -> Result<Granted, Answer> {
        let locks = match &self.doors[self.client.line as usize % self.doors.len()] {
            Door::Rust(locks) => locks,
            Door::Adapter(adapter) => {
                let mut lock = adapters::lock(wish, is_fixed);
                // In a plan, 0 is a wait without a limit; for adapters, it is an attempt without a wait.
                match wish.wait_ms {
                    Some(0) => {}
                    wait => lock["wait"] = wait.unwrap_or(0).into(),
                }
                let granted = adapter.acquire(holder, lock, until).await.ok_or_else(given_up)?;
                return granted.map(|(held, token)| (Held::Adapter(held), token)).map_err(|word| of_word(&word, false));
            }
        };
        let lock = wish.lock.as_str();
        let granted = async {
            match wish.side {
                Side::Plain => acquire(locks.lock(lock).owner(holder), wish, is_fixed).await,
                Side::Read => acquire(locks.read_write(lock).read().owner(holder), wish, is_fixed).await,
                Side::Write => acquire(locks.read_write(lock).write().owner(holder), wish, is_fixed).await,
                Side::Permit => acquire(locks.permits(lock, wish.limit), wish, is_fixed).await,
            }
        };
        let granted = timeout_at(until, granted).await.map_err(|_| given_up())?;
        granted.map_err(|error: Error| not_acquired(&error))?.ok_or(Answer::Refused { left_ms: -1 })
    }

    /// Acquires the lock again under the same name, and releases this second hold at once.
    async fn go_in_and_out(&mut self, wish: &Wish, holder: &str) {
        let wish = Wish { wait_ms: None, gives_up_after: None, ..wish.clone() };
        if let Some(kept) = self.acquire(&wish, holder, false).await {
            kept.record_guarantee(&self.diary).await;
            self.release(kept, &wish, holder).await;
        }
    }

    /// Keeps the lock until the work is done, or the lock is lost.
    async fn keep(&self, kept: &Kept, deed: Deed) {
        // A stalling client does not stall the process and its watchdog: it is only slow.
        let (Deed::Keep(time) | Deed::Renew(time) | Deed::Stall(time) | Deed::Die(time)) = deed;
        let until = Instant::now() + time;
        let mut lost = pin!(kept.guard.lost());
        kept.record_guarantee(&self.diary).await;
        loop {
            tokio::select! {
                biased;
                () = &mut lost => return,
                () = sleep_until(until.min(Instant::now() + LOOK)) => {}
            }
            if until <= Instant::now() || self.round.is_over() {
                return;
            }
            kept.record_guarantee(&self.diary).await;
        }
    }

    async fn release(&mut self, kept: Kept, wish: &Wish, holder: &str) {
        self.diary.ended(kept.number);
        let request = Request::Release { side: wish.side, all: false };
        let number = self.diary.called(&wish.lock, holder, request);
        let answer = match timeout_at(self.round.answers(WHATEVER_IT_TAKES), kept.guard.release()).await {
            Ok(answer) => answer,
            Err(_) => given_up(),
        };
        self.diary.answered(number, answer);
    }
}

fn given_up() -> Answer {
    Answer::Unknown("given up".to_owned())
}

/// A lock that this client has, with the number of the call that got it.
struct Kept {
    number: u64,
    guard: Held,
}

impl Kept {
    /// Records until when the lock is guaranteed, if it is.
    async fn record_guarantee(&self, diary: &Diary) {
        // Taken before the question, so that a process that stalls in between claims less.
        let at = Moment::now();
        let remaining = self.guard.remaining().await;
        if !remaining.is_zero() {
            diary.vouched(self.number, at, at + remaining);
        }
    }
}

enum Held {
    Rust(Guard),
    Adapter(adapters::Held),
}

impl Held {
    async fn remaining(&self) -> Duration {
        match self {
            Self::Rust(guard) => guard.remaining(),
            Self::Adapter(held) => held.remaining().await,
        }
    }

    async fn lost(&self) {
        match self {
            Self::Rust(guard) => guard.lost().await,
            Self::Adapter(held) => held.lost().await,
        }
    }

    async fn release(self) -> Answer {
        match self {
            Self::Rust(guard) => guard.release().await.map_or_else(|error| not_released(&error), |()| RELEASED),
            Self::Adapter(held) => held.release().await.map_or_else(|word| of_word(&word, true), |_| RELEASED),
        }
    }
}

const RELEASED: Answer = Answer::Released(Some(1));

/// What is held, and its token if it is fenced.
type Granted = (Held, Option<u64>);

async fn acquire<K>(lock: Lock<Unfenced, K>, wish: &Wish, is_fixed: bool) -> Result<Option<Granted>, Error> {
    let lease = Duration::from_millis(wish.lease_ms);
    let lock = if is_fixed { lock.fixed_lease(lease) } else { lock.lease(lease) };
    if wish.fenced {
        let guard = wait(lock.fenced(), wish.wait_ms).await?;
        let token = guard.as_ref().map(Guard::<Fenced>::token);
        return Ok(guard.map(|guard| (Held::Rust(guard.unfenced()), token)));
    }
    Ok(wait(lock, wish.wait_ms).await?.map(|guard| (Held::Rust(guard), None)))
}

async fn wait<F, K>(lock: Lock<F, K>, wait_ms: Option<u64>) -> Result<Option<Guard<F>>, Error> {
    match wait_ms.map(Duration::from_millis) {
        None => lock.try_acquire().await,
        Some(Duration::ZERO) => lock.acquire().await.map(Some),
        Some(limit) => lock.acquire_timeout(limit).await.map(Some),
    }
}

fn not_acquired(error: &Error) -> Answer {
    if error.is_timeout() { Answer::Refused { left_ms: -1 } } else { no_or_unknown(error) }
}

fn not_released(error: &Error) -> Answer {
    if error.is_lost() && !error.is_in_doubt() { Answer::Released(None) } else { no_or_unknown(error) }
}

/// A failure if the server has refused or nothing was sent; otherwise the outcome is unknown.
fn no_or_unknown(error: &Error) -> Answer {
    use ErrorKind::{Configuration, Deadlock, ModuleMissing, QueueFull, Refused, WrongKind};
    match error.kind() {
        WrongKind | Deadlock | QueueFull | ModuleMissing | Refused | Configuration => Answer::Failed(error.to_string()),
        _ => Answer::Unknown(error.to_string()),
    }
}

/// The answer for an error, by the adapter's name for it.
fn of_word(word: &str, is_release: bool) -> Answer {
    match word {
        "busy" => Answer::Refused { left_ms: -1 },
        "lost" if is_release => Answer::Released(None),
        "wrong-kind" | "deadlock" | "queue-full" | "no-module" | "no-right" | "refused" | "configuration" => {
            Answer::Failed(word.to_owned())
        }
        _ => Answer::Unknown(word.to_owned()),
    }
}
