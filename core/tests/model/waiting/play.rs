//! How a history is played: each step as the command, or the server, does it. What sessions ask is in `calls.rs`, what
//! is checked is in `checks.rs`.

use super::calls::{Connection, TakenBack};
use super::sessions::{Session, Sessions};
use super::world::{self, A_PERMIT, HOLDERS, Happening, LOCKS, Look, MOST, PAUSED_MS, Waiting, Who, World, new_world};
use super::{SESSIONS, Step};
use rlock_core::lock::{
    self, Ahead, Busy, Lease, Obstacle, Outcome, Refusal, Released, Renewed, Side, UnixMs, Verdict, Wish,
};
use rlock_core::waiting::commands::{self, Acquiring, Rejected};
use rlock_core::waiting::{Cause, Engine, GraceNews, Host, LockName, Note, SessionId, Ticket, Use};
use rlock_sim::{Client, Plain};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// This many turns in a row are a sign that the agenda does not empty.
const TURNS: usize = 10_000;

/// The world, and what the test knows of it.
pub struct Play {
    pub world: World,
    pub engine: Engine<Client>,
    /// How each blocked client was unblocked.
    pub let_go: BTreeMap<u64, Option<Outcome>>,
    /// The ticket of each client that was blocked so far.
    pub clients: BTreeMap<u64, Ticket>,
    /// The blocked clients without a reply so far.
    pub untold: VecDeque<(u64, Option<Outcome>)>,
    pub sessions: Sessions,
    pub is_replica: bool,
    pub connections: Vec<Connection>,
    pub next_connection: u64,
    /// The session that each call is for: its name, its number, and the engine's id.
    pub calls: BTreeMap<u64, (String, u64, SessionId)>,
    /// The calls that the server has not answered yet.
    pub woken: VecDeque<u64>,
    /// The calls that may be woken without any news: taken over from, or of sessions that have ended.
    pub superseded: BTreeSet<u64>,
    /// All events that sessions got, and on which connection.
    pub told: Vec<(u64, u64, String, Outcome)>,
    /// The ms left of the lease of each grant in an event.
    pub left_ms: Vec<i64>,
    /// Every ticket that was asked for, with its wish, by the number of its session.
    pub asked: BTreeMap<u64, Vec<(String, Asking)>>,
    pub taken_back: TakenBack,
    /// The keys of read holds that are still to be deleted since their lock was broken.
    broken: [BTreeSet<Vec<u8>>; LOCKS.len()],
    pub next_one_dies: bool,
    pub next_answer_is_lost: bool,
    pub busy: bool,
    /// What each blocked client was granted; and the grants to clients that are gone.
    pub granted_to_clients: BTreeMap<u64, (usize, &'static str, Side)>,
    pub granted_to_the_dead: Vec<(usize, &'static str, Side)>,
    deletions: usize,
    /// Whether the engine has reported that a grace has begun, and not yet that it is over.
    grace_is_told: bool,
}

/// The place of a new waiter.
enum Joins {
    Last,
    First,
    /// In the place of the former request of its holder: behind all these.
    At(Vec<(Who, Lease)>),
}

#[derive(Clone, Debug)]
pub struct Asking {
    pub lock: usize,
    pub holder: &'static str,
    pub side: Side,
    pub lease: i64,
    pub wait: Option<i64>,
    pub max: Option<usize>,
}

impl Asking {
    pub fn is_fenced(&self) -> bool {
        self.lease % 3 == 0
    }
}

impl Play {
    pub fn new() -> Self {
        let (let_go, clients, untold, sessions, is_replica, calls, woken) = Default::default();
        let (superseded, told, left_ms, asked) = Default::default();
        Self {
            world: new_world(),
            engine: Engine::default(),
            let_go,
            clients,
            untold,
            sessions,
            is_replica,
            connections: (1..=4).map(Connection::new).collect(),
            next_connection: 5,
            calls,
            woken,
            superseded,
            told,
            left_ms,
            asked,
            taken_back: TakenBack::default(),
            broken: Default::default(),
            next_one_dies: false,
            next_answer_is_lost: false,
            busy: false,
            granted_to_clients: BTreeMap::new(),
            granted_to_the_dead: Vec::new(),
            deletions: 0,
            grace_is_told: false,
        }
    }

    pub fn now(&self) -> UnixMs {
        self.world.now()
    }

    pub fn waiting(&self) -> Vec<Waiting> {
        self.world.watcher.waiting.borrow().clone()
    }

    pub fn is_attended(&self, waiting: &Waiting) -> bool {
        match waiting.who {
            Who::Client(_) => true,
            Who::Ticket { .. } => {
                self.sessions.number(waiting.session).is_some_and(|session| session.is_attended(self.now()))
            }
        }
    }

    /// The server begins a turn: a command, or one round of its event loop.
    pub fn begin_turn(&self) {
        self.world.begin_turn();
    }

    /// The server comes to what is on its agenda, turn by turn, unless it has commands to run first.
    pub fn catch_up(&mut self) {
        let mut turns = 0;
        while !self.busy && self.is_something_due() {
            self.one_turn();
            turns += 1;
            assert!(turns < TURNS, "the agenda does not empty");
        }
        for lock in 0..LOCKS.len() {
            let now_there = self.world.read_holds(lock);
            self.broken[lock].retain(|hold| self.world.has_key(lock, hold) && !now_there.contains(hold));
        }
        if self.is_quiet() {
            assert_eq!(self.grace_is_told, self.world.grace().is_running(), "its end is reported");
            assert_eq!(self.broken, [(); LOCKS.len()].map(|()| BTreeSet::new()), "read holds of broken locks are left");
            self.sessions.all_mut().for_each(|session| session.server_is_done());
            self.check_taken_back();
        }
    }

    fn one_turn(&mut self) {
        self.begin_turn();
        let now = self.now();
        self.sessions.all_mut().for_each(|session| session.server_goes_on(now));
        self.sessions.all_mut().for_each(Session::turn);
        self.engine.catch_up(&self.world);
        self.hear_of_grace();
        let is_due = self.engine.wakes_next_at(&self.world).is_some_and(|time| time <= now);
        assert!(self.world.turn_left() == 0 || !is_due, "a turn that has time leaves something undone");
        self.begin_turn();
        self.hear();
    }

    pub fn take(&mut self, step: &Step) {
        self.begin_turn();
        match step.clone() {
            Step::Turn(things) => self.world.turn.set(things),
            Step::Busy(busy) => self.busy = busy,
            Step::OneTurn => self.one_turn(),
            Step::Ask { lock, holder, side, lease, wait, max } => {
                self.ask(&Asking { lock, holder: HOLDERS[holder], side, lease, wait, max }, None);
            }
            Step::AskByTicket { session, lock, holder, side, lease, wait, max } => {
                let asking = Asking { lock, holder: world::holder(holder), side, lease, wait: Some(wait), max };
                self.ask_by_new_ticket(SESSIONS[session], asking);
            }
            Step::AskAgain { session, ticket, other } => self.ask_again(SESSIONS[session], ticket, other),
            Step::Release { lock, holder, side, all } => self.release(lock, HOLDERS[holder], side, all),
            Step::Renew { lock, holder, lease } => self.renew(lock, HOLDERS[holder], lease),
            Step::HangUp { waiter } => self.hang_up(waiter),
            Step::NextOneDies => self.next_one_dies = true,
            Step::Advance { ms } => self.advance(ms),
            Step::ForeignDelete { lock } => self.delete(lock),
            Step::Break { lock } => {
                self.hear();
                let busy = std::mem::take(&mut self.busy);
                self.catch_up();
                if !self.world.is_paused() {
                    self.break_up(lock);
                }
                self.busy = busy;
            }
            Step::Pause(paused) => {
                self.world.pause(paused);
                self.advance(PAUSED_MS + 1);
            }
            Step::PauseEnds => self.world.pause(false),
            Step::BecomeReplica => self.become_replica(),
            Step::BecomeMaster => self.become_master(),
            Step::SetGrace(ms) => self.set_grace(ms),
            Step::StandsStill(ms) => self.world.held_back_until.set(self.now() + ms),
            Step::Events(asked) => self.events(asked),
            Step::Cancel { session, tickets } => self.cancel(SESSIONS[session], &tickets),
            Step::GiveUpCancel { cancel } => self.give_up_cancel(cancel),
            Step::End { session } => self.end_session(SESSIONS[session]),
            Step::Disconnect { connection } => self.disconnect(connection),
            Step::Unblock { connection } => self.unblock(connection),
            Step::NextAnswerIsLost => self.next_answer_is_lost = true,
            Step::Stranger { session } => self.stranger(SESSIONS[session]),
        }
        self.hear();
        self.catch_up();
    }

    fn become_replica(&mut self) {
        self.is_replica = true;
        self.granted_to_the_dead.clear();
        self.world.watcher.waiting.borrow_mut().iter_mut().for_each(|waiting| waiting.is_dismissed = true);
        self.world.watcher.grace_since.set(None);
        self.broken = Default::default();
        self.engine.note(Note::RoleChanged { is_replica: true });
    }

    fn become_master(&mut self) {
        self.is_replica = false;
        self.granted_to_the_dead.clear();
        self.engine.note(Note::RoleChanged { is_replica: false });
        assert!(self.engine.has_news_of_grace(), "a grace is to begin");
        self.world.watcher.grace_since.set(Some(self.now()));
        self.look_at_grace();
    }

    fn set_grace(&mut self, ms: i64) {
        self.look_at_grace();
        self.world.grace_ms.set(ms);
        self.look_at_grace();
    }

    /// A grace that is over does not come back.
    fn look_at_grace(&mut self) {
        let left_ms = self.world.grace().left_ms;
        if left_ms == 0 {
            self.world.watcher.grace_since.set(None);
        }
        assert_eq!(self.engine.look_at_grace(&self.world), left_ms, "what is left of the grace");
    }

    fn hang_up(&mut self, waiter: usize) {
        let waiting = self.waiting();
        let clients: Vec<_> = waiting
            .into_iter()
            .filter_map(|waiting| match waiting.who {
                Who::Client(id) => Some(id),
                Who::Ticket { .. } => None,
            })
            .collect();
        if !clients.is_empty() {
            let ticket = self.clients[&clients[waiter % clients.len()]];
            self.engine.note(Note::Gone(ticket));
        }
    }

    fn delete(&mut self, lock: usize) {
        if self.world.is_paused() {
            return;
        }
        let LockName { database, key } = LOCKS[lock];
        self.world.keyspace.borrow_mut().run(database, Plain::Del { key });
        // The key goes by a command, by the server itself, or with everything else.
        self.deletions += 1;
        let changed = |cause| Note::Key { database, key: key.into(), cause };
        match self.deletions % 4 {
            0 => self.engine.note(changed(Cause::Server)),
            1 => {
                self.engine.note(changed(Cause::Command));
                self.engine.follow_command(&self.world);
            }
            // By a callback within a write.
            2 => self.world.inbox.borrow_mut().push_back(changed(Cause::Server)),
            _ => self.engine.note(Note::Keys),
        }
    }

    /// After a break the former holder no longer has the lock; the present one comes from the queue, and has the lock whole.
    fn break_up(&mut self, lock: usize) {
        let waiting: Vec<_> = self.waiting().into_iter().filter(|waiting| waiting.lock == lock).collect();
        // Passing over unattended waiters may take longer than this turn.
        let first = waiting.first().filter(|first| self.is_attended(first) && !self.world.is_too_long(first.lease));
        let first = first.filter(|_| !self.world.grace().is_running() && !self.is_held_back());
        let had_lock = !self.world.fields(lock).is_empty();
        let before = self.world.read_holds(lock);
        let granted = |play: &Self| play.engine.counters.waited.count();
        let granted_before = granted(self);
        let key = self.world.is_about(lock);
        assert_eq!(self.engine.break_lock(&self.world, key), Ok(had_lock));
        if first.is_some() && had_lock {
            assert!(granted(self) > granted_before, "the first waiter gets the lock");
        }
        let fields = self.world.fields(lock);
        for (field, count) in fields.iter().filter(|(field, _)| *field != "mode") {
            let holder = field.trim_end_matches(":write");
            let waited = waiting.iter().filter(|waiting| waiting.holder == holder).count();
            assert!(count.parse::<usize>().unwrap() <= waited, "{holder} has more than it waited for: {fields:?}");
        }
        let now_there = self.world.read_holds(lock);
        let is_there = |hold: &Vec<u8>| self.world.has_key(lock, hold);
        assert!(now_there.iter().all(is_there), "each reader has its lease now");
        let is_left = |hold: &Vec<u8>| is_there(hold) && !now_there.contains(hold);
        let left: BTreeSet<_> = before.into_iter().filter(is_left).collect();
        let is_over = self.world.turn_left() == 0 || self.world.is_paused();
        assert!(is_over || left.is_empty(), "read holds of a broken lock are left: {left:?}");
        self.broken[lock].extend(left);
    }

    pub fn ask(&mut self, asking: &Asking, by: Option<(&str, &str)>) {
        let Asking { lock, holder, side, lease, wait, max } = *asking;
        let lease = Lease::from_ms(lease).unwrap();
        let wish = Wish { holder: holder.as_bytes(), side, lease, fenced: asking.is_fenced() };
        let (mut used, mut session) = (Use::Free, None);
        if let Some((of, ticket)) = by {
            let Some(found) = self.find(of) else { return };
            used = self.expected_use(of, ticket, asking);
            let number = self.sessions.get(of).unwrap().number;
            if used == Use::Free {
                self.asked.entry(number).or_default().retain(|(other, _)| other != ticket);
                self.asked.entry(number).or_default().push((ticket.to_owned(), asking.clone()));
            }
            session = Some((found, number));
        }
        let ticket = session.zip(by).map(|((found, _), (_, ticket))| (found, ticket.as_bytes()));
        let waiting = wait.map(|limit_ms| commands::Waiting { limit_ms, max, ticket });
        let came = self.now();
        let (joins, is_anew) = self.asks_again(asking, used == Use::Free);
        let acquiring = self.engine.acquire(&self.world, self.world.is_about(lock), &wish, waiting);
        if !self.is_held_back() && used == Use::Free && acquiring_refuses(&acquiring) && !is_anew {
            // If a former request of its holder waits, the request takes that one's place.
            self.check_refusal(lock, holder, side);
        }
        self.world.watcher.waiting.borrow_mut().iter_mut().for_each(|waiting| waiting.is_asked_anew = false);
        if self.is_held_back() {
            return assert_eq!(acquiring, Err(Rejected::Stalled));
        }
        if used != Use::Free {
            let expected = if used == Use::Same { Ok(Acquiring::Waiting) } else { Err(Rejected::TicketInUse) };
            return assert_eq!(acquiring, expected, "what {by:?} is used for");
        }
        let Some(who) = self.judge_answer(asking, by, acquiring, is_anew) else { return };
        let deadline = wait.filter(|wait| *wait > 0).map(|wait| came + wait);
        let session = session.map(|(_, number)| number);
        let (is_dismissed, is_cancelled, is_asked_anew) = Default::default();
        let waiting =
            Waiting { who, session, lease, lock, holder, side, deadline, is_dismissed, is_cancelled, is_asked_anew };
        self.begins_to_wait(waiting, joins);
    }

    /// Whether the answer to a request is right. Returns what waits, if it does.
    fn judge_answer(
        &mut self,
        asking: &Asking,
        by: Option<(&str, &str)>,
        acquiring: Result<Acquiring, Rejected>,
        is_anew: bool,
    ) -> Option<Who> {
        let Asking { lock, holder, side, lease, wait, max } = *asking;
        let is_too_long = self.world.is_too_long(Lease::from_ms(lease).unwrap());
        assert!(acquiring.is_err() || !is_too_long, "{asking:?} is longer than the grace");
        let ahead = self.waiting().iter().filter(|waiting| waiting.lock == lock).count();
        let (as_many, most) = match by {
            Some(_) => (self.engine.claims_of_tickets(), self.world.limits.get().tickets.all),
            None => (self.engine.claims_of_clients(), MOST),
        };
        let who = match acquiring {
            Ok(Acquiring::TurnedAway { waiting }) => {
                assert_eq!(waiting, ahead, "{asking:?} gets the number of waiters");
                self.is_turned_away(asking, ahead);
                return None;
            }
            Ok(Acquiring::Blocked(ticket)) => {
                let id = self.engine.client(ticket).unwrap().id;
                self.clients.insert(id, ticket);
                Who::Client(id)
            }
            Ok(Acquiring::Waiting) => {
                let (of, ticket) = by.unwrap();
                Who::Ticket { session: of.to_owned(), ticket: ticket.to_owned() }
            }
            Err(Rejected::QueueFull | Rejected::TicketsFull) => {
                assert_eq!(as_many, most, "there is room");
                return None;
            }
            Ok(Acquiring::Done(_)) | Err(Rejected::Refused(_) | Rejected::Paused | Rejected::Stalled) => {
                return None;
            }
            other => panic!("{other:?} to {asking:?} by {by:?}, which is free"),
        };
        assert!(as_many <= most, "no more wait than may");
        assert!(wait.is_some() && (is_anew || max.is_none_or(|max| ahead < max)), "{asking:?} waits behind {ahead}");
        assert!(!self.waits(lock, holder), "{holder} waits twice");
        // In a grace a writer that reads as well may wait to write again.
        let writes = self.world.held(lock, holder, Side::Write).is_some();
        assert!(!(side == Side::Write && self.is_reading(lock, holder) && !writes), "{holder} waits for itself");
        Some(who)
    }

    fn is_turned_away(&self, asking: &Asking, ahead: usize) {
        let Asking { lock, holder, side, wait, max, .. } = *asking;
        self.check_refusal(lock, holder, side);
        assert!(wait.is_some() && max.is_some_and(|max| ahead >= max), "{asking:?} is turned away by {ahead}");
        assert!(!self.waits(lock, holder), "{asking:?} would have taken the place of another");
        let reenters = self.is_reading(lock, holder) || self.world.held(lock, holder, side).is_some();
        let is_granted = reenters && self.world.is_free_to(lock, holder, side);
        assert!(!is_granted, "{asking:?} comes back to what it has, and is turned away");
    }

    fn begins_to_wait(&self, waiting: Waiting, joins: Joins) {
        // If the former request of its holder was refused before it was replaced, the waiter comes last.
        let is_refused = |happening: &Happening| matches!(happening, Happening::Left(left) if left.waiter.is_asked_anew && left.refusal.is_some());
        let last = || self.engine.queue(LOCKS[waiting.lock], self.now()).last();
        let was_refused = self.world.watcher.happenings.borrow().iter().any(is_refused)
            && last().is_some_and(|last| world::who(&last) == waiting.who);
        let mut all = self.world.watcher.waiting.borrow_mut();
        match joins {
            _ if was_refused => all.push(waiting),
            Joins::First => all.insert(0, waiting),
            Joins::At(before) => {
                let place = all
                    .iter()
                    .rposition(|other| before.contains(&(other.who.clone(), other.lease)))
                    .map_or(0, |last| last + 1);
                all.insert(place, waiting);
            }
            Joins::Last => all.push(waiting),
        }
    }

    fn is_held_back(&self) -> bool {
        self.world.held_back_until.get() > self.now()
    }

    fn waits(&self, lock: usize, holder: &str) -> bool {
        self.waiting().iter().any(|waiting| waiting.lock == lock && waiting.holder == holder)
    }

    /// The place of a request if it has to wait, and whether a former request of its holder waits.
    fn asks_again(&self, asking: &Asking, is_new: bool) -> (Joins, bool) {
        let Asking { lock, holder, side, lease, .. } = *asking;
        let wish = Wish { holder: (), side, lease: Lease::from_ms(lease).unwrap(), fenced: asking.is_fenced() };
        let reenters = matches!(
            self.world.decide(lock, holder, wish, Ahead::Nobody),
            Ok(Verdict::Busy(Busy { obstacle: Obstacle::Grace { reenters: true }, .. }))
        );
        let mut all = self.world.watcher.waiting.borrow_mut();
        let is_dismissing = all.iter().any(|waiting| waiting.is_dismissed);
        let former = all.iter().position(|waiting| waiting.lock == lock && waiting.holder == holder);
        if let Some(former) = former.filter(|_| is_new) {
            all[former].is_asked_anew = true;
        }
        let joins = match former {
            _ if reenters && !is_dismissing => Joins::First,
            Some(place) if !all[place].is_dismissed => {
                Joins::At(all[..place].iter().map(|before| (before.who.clone(), before.lease)).collect())
            }
            _ => Joins::Last,
        };
        (joins, former.is_some())
    }

    pub fn release(&mut self, lock: usize, holder: &'static str, side: Option<Side>, all: bool) {
        if self.world.is_paused() {
            return;
        }
        let (want, was_inside) = (lock::Release { side, lease: None, all }, self.world.is_inside(lock, holder));
        let readers: Vec<_> = HOLDERS.into_iter().filter(|other| *other != holder).collect();
        let readers: Vec<_> = readers.into_iter().filter(|other| self.is_reading(lock, other)).collect();
        let released = self.engine.release(&self.world, self.world.is_about(lock), holder.as_bytes(), want);
        if released.is_ok_and(|released| released != Released::NotHeld) {
            assert!(was_inside, "{holder} releases what it does not have");
            let keeps = self.world.is_inside(lock, holder) && !self.has_granted();
            assert!(!(all && side.is_none() && keeps), "{holder} keeps what it releases");
        }
        let lost = readers.iter().find(|other| !self.is_reading(lock, other));
        assert!(lost.is_none(), "{holder} releases what {lost:?} has");
    }

    /// Whether the command has granted the lock to a waiter, perhaps under the same name.
    fn has_granted(&self) -> bool {
        self.world.watcher.happenings.borrow().iter().any(|happening| matches!(happening, Happening::Granted(_)))
    }

    /// Whether the holder's last read hold goes on. Once the last hold that goes on is released, the lock goes at once.
    fn is_reading(&self, lock: usize, holder: &str) -> bool {
        self.world.held(lock, holder, Side::Read).is_some_and(|held| held.end > self.now())
    }

    pub fn renew(&mut self, lock: usize, holder: &'static str, lease_ms: i64) {
        if self.world.is_paused() {
            return;
        }
        let (lease, was_inside) = (Lease::from_ms(lease_ms).unwrap(), self.world.is_inside(lock, holder));
        self.world.watcher.renews.set(true);
        let renewed = self.engine.renew(&self.world, self.world.is_about(lock), holder.as_bytes(), lease);
        self.world.watcher.renews.set(false);
        if self.is_held_back() {
            return assert_eq!(renewed, Err(Rejected::Stalled));
        }
        if self.world.is_too_long(lease) {
            return assert_eq!(renewed, Err(Refusal::LeaseAboveGrace.into()));
        }
        if renewed.unwrap() == Renewed::Restarted {
            assert!(was_inside, "{holder} renews what it does not have");
            let held =
                [Side::Plain, Side::Read, A_PERMIT].into_iter().filter_map(|side| self.world.held(lock, holder, side));
            let end = self.now() + lease_ms;
            let begins_anew = held.into_iter().all(|held| held.end == end);
            assert!(begins_anew || self.has_granted(), "{holder} renews, and its lease does not restart");
        }
    }

    /// Lets time pass, alarm by alarm.
    pub fn advance(&mut self, ms: i64) {
        let end = self.now() + ms;
        loop {
            let now = self.now();
            let next = self.engine.wakes_next_at(&self.world).filter(|next| *next <= end);
            let time = next.unwrap_or(end).max(now);
            crate::pass(&self.world, time - now);
            self.catch_up();
            if next.is_none() || self.busy {
                return crate::pass(&self.world, end - self.now());
            }
        }
    }

    /// The server sends replies; one of the clients may be gone by now.
    pub fn hear(&mut self) {
        self.world.watch(&self.engine);
        self.hear_of_grace();
        loop {
            self.digest();
            if let Some((id, outcome)) = self.untold.pop_front() {
                self.tell_client(id, outcome);
            } else if let Some(call) = self.woken.pop_front() {
                self.answer_call(call);
            } else {
                return;
            }
        }
    }

    fn hear_of_grace(&mut self) {
        if let Some(news) = self.engine.take_grace_news(&self.world) {
            let begins = matches!(news, GraceNews::Begins { .. });
            assert!(begins || self.grace_is_told, "the end of a grace was reported without its begin");
            self.grace_is_told = begins;
        }
        let runs = self.world.grace().is_running();
        assert!(self.grace_is_told || !runs, "a grace runs, and its begin was not reported");
        assert_eq!(self.engine.has_news_of_grace(), self.grace_is_told, "news of the grace are to come");
    }

    fn tell_client(&mut self, id: u64, outcome: Option<Outcome>) {
        assert!(self.let_go.insert(id, outcome).is_none(), "client {id} is dismissed twice");
        let ticket = self.clients[&id];
        if matches!(outcome, Some(Outcome::Granted { .. })) {
            if std::mem::take(&mut self.next_one_dies) {
                self.engine.note(Note::Gone(ticket));
                self.granted_to_the_dead.push(self.granted_to_clients[&id]);
            } else {
                self.engine.note(Note::Delivered(ticket));
            }
        }
    }

    /// Whether anything is due now.
    fn is_something_due(&self) -> bool {
        let now = self.now();
        !self.world.inbox.borrow().is_empty() || self.engine.wakes_next_at(&self.world).is_some_and(|time| time <= now)
    }

    /// Whether everything is done that can be done now.
    pub fn is_quiet(&self) -> bool {
        !self.world.is_paused() && self.now() >= self.world.rests_until.get() && !self.is_something_due()
    }

    /// All clients and sessions leave, and nothing may be left of them.
    pub fn end(mut self) {
        self.world.pause(false);
        self.world.held_back_until.set(0);
        self.busy = false;
        self.next_answer_is_lost = false;
        self.begin_turn();
        self.set_grace(0);
        self.advance(PAUSED_MS + 1);
        for waiting in self.waiting() {
            if let Who::Client(id) = waiting.who {
                let ticket = self.clients[&id];
                self.engine.note(Note::Gone(ticket));
            }
        }
        self.hear();
        // One session is closed; the connections of the others break.
        self.end_session(SESSIONS[0]);
        self.hear();
        for connection in 0..self.connections.len() {
            self.disconnect(connection);
        }
        self.hear();
        self.catch_up();
        self.check();
        self.advance(600_000);
        self.hear();
        assert!(self.waiting().is_empty(), "a client still waits: {:?}", self.waiting());
        assert_eq!(self.let_go.len(), self.clients.len(), "each blocked client is dismissed");
        assert!(self.engine.is_clean(), "something is left over");
    }
}

fn acquiring_refuses(acquiring: &Result<Acquiring, Rejected>) -> bool {
    matches!(acquiring, Ok(Acquiring::Blocked(_) | Acquiring::Waiting | Acquiring::Done(Outcome::Busy { .. })))
}
