//! Waiters for several locks among waiters for one: random histories over a few locks, and all short ones over two, with a
//! clock that the test moves, against a naive list of waiters.
//!
//! What must be true: a lock has one holder; a set gets all of its locks or none, and holds none while it waits; single
//! waiters of a lock are served in the order of coming; no set is overtaken more than four times; and when nothing
//! more can be done, no waiter sleeps that could have all of its locks.

mod work;
mod world;

use proptest::prelude::*;
use rlock_core::lock::{Lease, Outcome, Release, Side, Wish};
use rlock_core::waiting::commands::{Acquiring, Rejected, Waiting};
use rlock_core::waiting::{
    Answer, Call, Cancelled, Cause, Engine, Host, Note, Paused, Queued, SeenRecipient, SessionId, Ticket, TicketNames,
};
use rlock_sim::{Answered, Client, Plain};
use world::{KEYS, MOST, World, holder, lock_name, new_world};

/// How often a set may be overtaken.
const PASSED_MAX: usize = 4;

const SESSION: &[u8] = b"0123456789abcdef";

#[derive(Clone, Debug)]
enum Step {
    /// Asks for the locks with set bits.
    Ask {
        keys: u8,
        lease: i64,
        wait: Option<i64>,
        by_ticket: bool,
    },
    /// The same in the name of the lock's holder.
    AskAgain {
        of: usize,
        keys: u8,
        wait: Option<i64>,
    },
    Release {
        key: usize,
    },
    HangUp {
        waiter: usize,
    },
    Cancel {
        waiter: usize,
    },
    Delete {
        key: usize,
    },
    Advance {
        ms: i64,
    },
    Poll,
    Disconnect,
    Turn(u32),
    Busy(bool),
    Pause(bool),
    Role,
}

/// A request that waits.
#[derive(Clone, Debug)]
struct Waiter {
    number: u64,
    /// Its place in the order of coming, which a later request of its holder takes.
    order: u64,
    holder: String,
    keys: Vec<usize>,
    ticket: Option<Ticket>,
    client: Option<u64>,
    passed: usize,
    is_dismissed: bool,
}

impl Waiter {
    fn is_set(&self) -> bool {
        self.keys.len() > 1
    }
}

struct Play {
    world: World,
    engine: Engine<Client>,
    waiters: Vec<Waiter>,
    number: u64,
    session: Option<SessionId>,
    connection: u64,
    told_up_to: u64,
    busy: bool,
    uses_sessions: bool,
    now_begun: usize,
}

fn step(uses_sessions: bool) -> impl Strategy<Value = Step> {
    let keys = || prop_oneof![3 => (0..KEYS.len()).prop_map(|key| 1_u8 << key), 4 => 1..(1_u8 << KEYS.len())];
    let lease = prop_oneof![1..40_i64, 100..2_000_i64];
    let wait = || prop::option::weighted(0.8, prop_oneof![3 => Just(0), 1 => 1..60_i64]);
    let by_ticket = prop::bool::weighted(if uses_sessions { 0.6 } else { 0.0 });
    let of_sessions = if uses_sessions { 2 } else { 1 };
    prop_oneof![
        20 => (keys(), lease, wait(), by_ticket)
            .prop_map(|(keys, lease, wait, by_ticket)| Step::Ask { keys, lease, wait, by_ticket }),
        2 => (0..KEYS.len(), keys(), wait()).prop_map(|(of, keys, wait)| Step::AskAgain { of, keys, wait }),
        22 => (0..KEYS.len()).prop_map(|key| Step::Release { key }),
        3 => (0..20_usize).prop_map(|waiter| Step::HangUp { waiter }),
        of_sessions => (0..20_usize).prop_map(|waiter| Step::Cancel { waiter }),
        2 => (0..KEYS.len()).prop_map(|key| Step::Delete { key }),
        4 => prop_oneof![1..5_i64, 10..100_i64, 500..3_000_i64].prop_map(|ms| Step::Advance { ms }),
        5 * of_sessions => Just(Step::Poll),
        of_sessions => Just(Step::Disconnect),
        2 => prop_oneof![Just(1), Just(3), Just(1_000)].prop_map(Step::Turn),
        3 => any::<bool>().prop_map(Step::Busy),
        2 => any::<bool>().prop_map(Step::Pause),
        1 => Just(Step::Role),
    ]
}

impl Play {
    fn new(uses_sessions: bool) -> Self {
        Self {
            world: new_world(MOST),
            engine: Engine::default(),
            waiters: Vec::new(),
            number: 0,
            session: None,
            connection: 1,
            told_up_to: 0,
            busy: false,
            uses_sessions,
            now_begun: 0,
        }
    }

    fn take(&mut self, step: &Step) {
        self.world.begin_turn();
        match *step {
            Step::Ask { keys, lease, wait, by_ticket } => {
                let holder = format!("h{}", self.number + 1);
                self.ask(holder, keys, lease, wait, by_ticket);
            }
            Step::AskAgain { of, keys, wait } => {
                if let Some(holder) = holder(&self.world, KEYS[of]) {
                    self.ask(holder, keys | 1 << of, 500, wait, false);
                }
            }
            Step::Release { key } => {
                if let Some(holder) = holder(&self.world, KEYS[key]) {
                    let want = Release { side: None, lease: None, all: false };
                    let released = self.engine.release(&self.world, KEYS[key], holder.as_bytes(), want);
                    assert!(released.is_ok() || self.world.paused.get().is_some(), "{released:?}");
                }
            }
            Step::HangUp { waiter } => {
                let clients: Vec<_> =
                    self.waiters.iter().filter(|waiter| waiter.client.is_some()).filter_map(|one| one.ticket).collect();
                if let Some(ticket) = clients.get(waiter % clients.len().max(1)) {
                    self.engine.note(Note::Gone(*ticket));
                    self.waiters.retain(|waiter| waiter.ticket != Some(*ticket));
                }
            }
            Step::Cancel { waiter } => {
                let tickets: Vec<_> =
                    self.waiters.iter().filter(|one| one.client.is_none()).map(|one| one.number).collect();
                if let (Some(session), Some(number)) = (self.session, tickets.get(waiter % tickets.len().max(1))) {
                    let name = number.to_string();
                    let mut names = TicketNames::default();
                    names.push(name.as_bytes());
                    let cancelled = self.engine.cancel(&self.world, session, names).unwrap();
                    let is_found = cancelled.is_none_or(|cancelled| cancelled != [Cancelled::Unknown]);
                    assert!(is_found, "ticket {name} waits, or its event is kept");
                    self.waiters.retain(|waiter| waiter.number != *number);
                }
            }
            Step::Delete { key } => {
                if self.world.paused.get().is_none() {
                    self.world.keyspace.borrow_mut().run(0, Plain::Del { key: KEYS[key] });
                    let cause = Cause::Command;
                    self.engine.note(Note::Key { database: 0, key: KEYS[key].into(), cause });
                    self.engine.follow_command(&self.world);
                }
            }
            Step::Advance { ms } => self.advance(ms),
            Step::Poll if self.uses_sessions => self.poll(),
            Step::Poll => {}
            Step::Disconnect => {
                self.engine.note(Note::Disconnected(self.connection));
                self.connection += 1;
            }
            Step::Turn(things) => self.world.turn.set(things),
            Step::Busy(busy) => self.busy = busy,
            Step::Pause(paused) => {
                self.world.paused.set(paused.then_some(Paused { for_ms: 20 }));
                self.advance(30);
            }
            Step::Role => {
                self.waiters.iter_mut().for_each(|waiter| waiter.is_dismissed = true);
                self.engine.note(Note::RoleChanged { is_replica: true });
                self.engine.note(Note::RoleChanged { is_replica: false });
            }
        }
        self.catch_up();
    }

    fn ask(&mut self, holder: String, bits: u8, lease: i64, wait: Option<i64>, by_ticket: bool) {
        self.number += 1;
        let number = self.number;
        let keys: Vec<_> = (0..KEYS.len()).filter(|key| bits & (1 << key) != 0).collect();
        let (name, session) = (number.to_string(), self.session.filter(|_| by_ticket));
        if by_ticket && session.is_none() {
            return;
        }
        let ticket = session.map(|session| (session, name.as_bytes()));
        let wait = if by_ticket { Some(wait.unwrap_or(0)) } else { wait };
        let waiting = wait.map(|limit_ms| Waiting { limit_ms, max: None, ticket });
        let wish = Wish {
            holder: holder.as_bytes(),
            side: Side::Plain,
            lease: Lease::from_ms(lease).unwrap(),
            fenced: number % 2 == 0,
        };
        let names: Vec<_> = keys.iter().map(|key| KEYS[*key]).collect();
        let former = self.waiters.iter().find(|former| former.holder == holder && former.keys == keys);
        let former_is_dismissed = former.is_some_and(|former| former.is_dismissed);
        let former = former.map(|former| former.order);
        let acquired = match *names {
            [key] => self.engine.acquire(&self.world, key, &wish, waiting),
            _ => self.engine.acquire_all(&self.world, &names, &wish, waiting),
        };
        let claims = if by_ticket { self.engine.claims_of_tickets() } else { self.engine.claims_of_clients() };
        let client = Some(self.world.watcher.last_client.get());
        self.hear();
        let order = former.unwrap_or(number);
        let (ticket, client_of, passed, is_dismissed) = (None, None, 0, former_is_dismissed);
        let waiter =
            Waiter { number, order, holder: holder.clone(), keys, ticket, client: client_of, passed, is_dismissed };
        match acquired {
            Ok(Acquiring::Done(Outcome::Granted { .. })) => self.granted(&waiter),
            Ok(Acquiring::GrantedAll { tokens }) => {
                assert_eq!(tokens.len(), if wish.fenced { waiter.keys.len() } else { 0 }, "a token for each");
                self.granted(&waiter);
            }
            Ok(Acquiring::Blocked(ticket)) => {
                self.waiters.push(Waiter { ticket: Some(ticket), client, ..waiter });
            }
            Ok(Acquiring::Waiting) => self.waiters.push(waiter),
            Ok(Acquiring::Done(Outcome::Busy { .. })) => {
                let is_quiet = self.is_quiet() && !self.uses_sessions;
                assert!(!is_quiet || !self.may_have(&waiter), "{waiter:?} is refused what it may have");
            }
            Err(Rejected::QueueFull | Rejected::TicketsFull) => {
                let asked = waiter.keys.len();
                assert!(claims + asked > MOST, "there is room for {asked} more than {claims}");
            }
            other => assert_eq!(other, Err(Rejected::Paused)),
        }
    }

    /// A request has just got all of its locks.
    fn granted(&mut self, granted: &Waiter) {
        let begun: Vec<_> = self.world.watcher.begun.borrow_mut().drain(..).collect();
        for key in &granted.keys {
            let holder = holder(&self.world, KEYS[*key]);
            let is_held = holder.as_deref() == Some(&*granted.holder);
            // Shorter leases may have ended since.
            assert!(is_held || holder.is_none() || self.uses_sessions, "{granted:?} has no lock {key}: {holder:?}");
        }
        let began: Vec<_> =
            granted.keys.iter().filter(|key| begun.contains(&(**key, granted.holder.clone()))).copied().collect();
        self.now_begun += began.len();
        // Another request of this holder may have begun other locks in the same turn, and its outcome is not read yet.
        let is_others = |(key, holder): &(usize, String)| *holder != granted.holder || !granted.keys.contains(key);
        self.world.watcher.begun.borrow_mut().extend(begun.into_iter().filter(is_others));
        for other in self.waiters.iter_mut().filter(|other| other.order < granted.order && !other.is_dismissed) {
            if !other.keys.iter().any(|key| began.contains(key)) || self.uses_sessions {
                continue;
            }
            assert!(other.is_set(), "{granted:?} overtakes {other:?}");
            other.passed += 1;
            assert!(other.passed <= PASSED_MAX, "{other:?} is passed once more by {granted:?}");
        }
    }

    fn advance(&mut self, ms: i64) {
        let end = self.world.now() + ms;
        loop {
            let next = self.engine.wakes_next_at(&self.world).filter(|next| *next <= end);
            let time = next.unwrap_or(end).max(self.world.now());
            crate::pass(&self.world, time - self.world.now());
            self.catch_up();
            if next.is_none() || self.busy {
                return crate::pass(&self.world, end - self.world.now());
            }
        }
    }

    fn poll(&mut self) {
        let call = Call { connection: Some(self.connection), acknowledged: None, ttl_ms: Some(1_000) };
        match self.engine.poll(&self.world, SESSION, b"eve", call, Some(0)) {
            Ok(_) => {}
            Err(error) => assert!(self.session.is_some(), "{error:?}"),
        }
        self.hear();
    }

    fn is_due(&self) -> bool {
        self.engine.wakes_next_at(&self.world).is_some_and(|time| time <= self.world.now())
    }

    fn is_quiet(&self) -> bool {
        !self.busy
            && self.world.paused.get().is_none()
            && !self.is_due()
            && self.world.now() >= self.world.rests_until.get()
    }

    fn catch_up(&mut self) {
        self.hear();
        let mut turns = 0;
        while !self.busy && self.is_due() {
            self.world.begin_turn();
            self.engine.catch_up(&self.world);
            self.hear();
            turns += 1;
            assert!(turns < 10_000, "the agenda does not empty");
        }
        self.check();
    }

    /// Reads all outcomes.
    fn hear(&mut self) {
        while let Some(Answered { client, answer, .. }) = self.world.take_answered() {
            let is_granted = match answer {
                Some(Answer::Outcome { outcome, .. }) => matches!(outcome, Outcome::Granted { .. }),
                Some(Answer::GrantedAll { .. }) => true,
                _ => continue,
            };
            let Some(place) = self.waiters.iter().position(|waiter| waiter.client == Some(client)) else { continue };
            let waiter = self.waiters.remove(place);
            if let Some(ticket) = waiter.ticket {
                self.engine.note(Note::Delivered(ticket));
            }
            if is_granted {
                self.granted(&waiter);
            }
        }
        self.session = self.engine.session(SESSION, b"eve").ok();
        let Some(session) = self.session else {
            self.waiters.retain(|waiter| waiter.client.is_some());
            self.told_up_to = 0;
            return;
        };
        for (event, _) in self.engine.take_news(&self.world, session, 1 << 20) {
            let number: u64 = std::str::from_utf8(event.names.ticket()).unwrap().parse().unwrap();
            if event.seq <= self.told_up_to {
                continue;
            }
            self.told_up_to = event.seq;
            let Some(place) = self.waiters.iter().position(|waiter| waiter.number == number) else { continue };
            let waiter = self.waiters.remove(place);
            if matches!(event.outcome, Outcome::Granted { .. }) {
                let tokens = event.tokens().map_or(0, <[i64]>::len);
                let expected = if number % 2 == 0 && waiter.is_set() { waiter.keys.len() } else { 0 };
                assert_eq!(tokens, expected, "a token for each lock");
                self.granted(&waiter);
            }
        }
        let call = Call { connection: Some(self.connection), acknowledged: Some(self.told_up_to), ttl_ms: None };
        if self.told_up_to > 0 && self.number % 3 == 0 {
            _ = self.engine.poll(&self.world, SESSION, b"eve", call, Some(0));
        }
    }

    /// Whether this request may have all of its locks, by the naive rule.
    fn may_have(&self, waiter: &Waiter) -> bool {
        waiter.keys.iter().all(|key| {
            let mut before = self.waiters.iter().filter(|other| other.order < waiter.order && other.keys.contains(key));
            match holder(&self.world, KEYS[*key]) {
                Some(holder) => holder == waiter.holder,
                None => before.all(|other| other.is_set() && other.passed < PASSED_MAX),
            }
        })
    }

    /// Whether the engine checks it whenever it may have its locks. If a set gets one of its locks by another request of its
    /// holder, only the patrol finds that.
    fn is_looked_at(&self, waiter: &Waiter) -> bool {
        !waiter.keys.iter().any(|key| holder(&self.world, KEYS[*key]).as_deref() == Some(&*waiter.holder))
    }

    /// Whether it is attended, and none of its locks has another waiter.
    fn is_alone(&self, waiter: &Waiter) -> bool {
        let is_its = |queued: Queued<'_, Client>| match queued.recipient {
            SeenRecipient::Client(client) => Some(client.id) == waiter.client,
            SeenRecipient::Session(session) => {
                session.is_attended && queued.wish.holder.ticket() == waiter.number.to_string().as_bytes()
            }
        };
        let now = self.world.now();
        !waiter.is_dismissed && waiter.keys.iter().all(|key| self.engine.queue(lock_name(*key), now).all(is_its))
    }

    fn check(&mut self) {
        assert_eq!(self.engine.fault(), None);
        if !self.is_quiet() {
            return;
        }
        if !self.uses_sessions {
            let sleeper = self.waiters.iter().find(|waiter| self.may_have(waiter) && self.is_looked_at(waiter));
            assert!(sleeper.is_none(), "{sleeper:?} sleeps among {:?}", self.waiters);
        }
        let may_have = |waiter: &Waiter| self.may_have(waiter) && self.is_looked_at(waiter);
        let sleeper = self.waiters.iter().find(|waiter| self.is_alone(waiter) && may_have(waiter));
        assert!(sleeper.is_none(), "{sleeper:?} sleeps, though no other wants what it waits for");
        for key in 0..KEYS.len() {
            let waits = self.waiters.iter().filter(|waiter| waiter.keys.contains(&key)).count();
            assert_eq!(
                self.engine.queues().length_of(lock_name(key)),
                waits,
                "those who wait for lock {key}: {:?}",
                self.waiters
            );
        }
        let nobody = self.engine.length() == 0;
        assert_eq!(nobody, self.waiters.is_empty(), "{:?}", self.waiters);
    }

    fn end(mut self) -> usize {
        self.world.paused.set(None);
        self.busy = false;
        self.world.turn.set(1_000);
        self.advance(100);
        for waiter in std::mem::take(&mut self.waiters) {
            if let (Some(_), Some(ticket)) = (waiter.client, waiter.ticket) {
                self.engine.note(Note::Gone(ticket));
            } else {
                self.waiters.push(waiter);
            }
        }
        self.catch_up();
        self.engine.note(Note::Disconnected(self.connection));
        self.advance(600_000);
        assert!(self.engine.is_clean(), "something is left over: {:?}", self.engine);
        self.now_begun
    }
}

fn play<'a>(history: impl IntoIterator<Item = &'a Step>, uses_sessions: bool) {
    let mut play = Play::new(uses_sessions);
    for step in history {
        play.take(step);
    }
    play.end();
}

/// Two locks, and requests for one of them or both.
fn alphabet() -> Vec<Step> {
    let ask = |keys, wait| Step::Ask { keys, lease: 3, wait, by_ticket: false };
    vec![
        ask(0b11, None),
        ask(0b01, None),
        ask(0b11, Some(0)),
        ask(0b01, Some(0)),
        ask(0b10, Some(0)),
        ask(0b11, Some(2)),
        Step::AskAgain { of: 0, keys: 0b11, wait: Some(0) },
        Step::Release { key: 0 },
        Step::Release { key: 1 },
        Step::HangUp { waiter: 0 },
        Step::Delete { key: 0 },
        Step::Advance { ms: 1 },
        Step::Advance { ms: 4 },
        Step::Turn(1),
        Step::Busy(true),
        Step::Busy(false),
        Step::Pause(true),
        Step::Pause(false),
        Step::Role,
    ]
}

#[test]
fn every_short_history_of_sets_of_two_is_sound() {
    // Each history is played on its own, so there may be no more than some millions.
    let (alphabet, steps) = (alphabet(), crate::explored_steps(4).min(5));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let play_one = |mut number: usize| {
        let mut next = || {
            let step = &alphabet[number % alphabet.len()];
            number /= alphabet.len();
            step
        };
        let history: Vec<_> = (0..steps).map(|_| next()).collect();
        let told = crate::Told(&history);
        play(history.iter().copied(), false);
        drop(told);
    };
    std::thread::scope(|scope| {
        for first in 0..threads {
            let mut numbers = (first..alphabet.len().pow(steps)).step_by(threads);
            scope.spawn(move || numbers.by_ref().for_each(play_one));
        }
    });
}

proptest! {
    #![proptest_config(crate::config(3_000))]

    #[test]
    fn several_locks_are_waited_for(history in prop::collection::vec(step(false), 1..150)) {
        play(&history, false);
    }

    #[test]
    fn several_locks_are_waited_for_in_sessions(history in prop::collection::vec(step(true), 1..150)) {
        play(&history, true);
    }
}
