//! How a history is played: each step as the command, or the server, does it. What sessions ask is in `calls.rs`, what
//! is checked is in `checks.rs`.

use super::calls::{Connection, TakenBack};
use super::grants::Grants;
use super::host::{Fake, HOLDERS, Happening, LOCKS, PAUSED_MS, Waiting, Who, name};
use super::sessions::{Session, Sessions};
use super::{SESSIONS, Step};
use crate::keyspace::{HolderView, Keyspace, hold_key};
use rlock_core::lock::{self, Acquired, Ahead, Lease, Outcome, Renewed, Side, UnixMs, Wish};
use rlock_core::waiting::serve::{self, Host, Trigger};
use rlock_core::waiting::{Names, Recipient, SessionId, Table, Ticket, Use, Waiter};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The most blocked clients.
pub const MOST: usize = 6;

/// The most tickets that wait or whose event is not acknowledged.
const MOST_TICKETS: usize = 8;

/// So many turns on end are a sign that the agenda does not empty.
const TURNS: usize = 10_000;

/// The world, and what the test knows of it.
pub struct Play {
    pub world: Fake,
    /// Every blocked client that was kept, and how each was let go.
    pub let_go: BTreeMap<u64, Option<Outcome>>,
    /// Of every client that was ever blocked.
    pub clients: BTreeMap<u64, Ticket>,
    /// The blocked clients that the server has not told yet what became of them.
    pub untold: VecDeque<(u64, Option<Outcome>)>,
    pub sessions: Sessions,
    pub grants: Grants,
    pub connections: Vec<Connection>,
    pub next_connection: u64,
    /// The session that each call is for: its name, its number, and what the table calls it.
    pub calls: BTreeMap<u64, (String, u64, SessionId)>,
    /// The calls that the server has not answered yet.
    pub woken: VecDeque<u64>,
    /// The calls that may be woken without any news: taken over from, or of sessions that have ended.
    pub superseded: BTreeSet<u64>,
    /// Everything that sessions were told, and on which connection.
    pub told: Vec<(u64, u64, String, Outcome)>,
    /// What was left of the lease, of each grant that was told.
    pub left_ms: Vec<i64>,
    /// Every ticket that was asked for, with its wish, by the number of its session.
    pub asked: BTreeMap<u64, Vec<(String, Asking)>>,
    pub taken_back: TakenBack,
    pub next_id: u64,
    pub next_one_dies: bool,
    pub next_answer_is_lost: bool,
    pub busy: bool,
    pub most_tickets: usize,
    deletions: usize,
}

#[derive(Clone, Debug)]
pub struct Asking {
    pub lock: usize,
    pub holder: &'static str,
    pub side: Side,
    pub lease: i64,
    pub wait: Option<i64>,
}

impl Asking {
    pub fn is_fenced(&self) -> bool {
        self.lease % 3 == 0
    }
}

/// The session and the ticket, by name; and what the table knows the session and the play the ticket by.
type ByTicket<'a> = ((&'a str, &'a str), (SessionId, u64));

impl Play {
    pub fn new() -> Self {
        let (let_go, clients, untold, sessions, grants, calls, woken) = Default::default();
        let (superseded, told, left_ms, asked) = Default::default();
        Self {
            world: Fake::new(),
            let_go,
            clients,
            untold,
            sessions,
            grants,
            connections: (1..=4).map(Connection::new).collect(),
            next_connection: 5,
            calls,
            woken,
            superseded,
            told,
            left_ms,
            asked,
            taken_back: TakenBack::default(),
            next_id: 0,
            next_one_dies: false,
            next_answer_is_lost: false,
            busy: false,
            most_tickets: MOST_TICKETS,
            deletions: 0,
        }
    }

    pub fn now(&self) -> UnixMs {
        self.world.now()
    }

    pub fn waiting(&self) -> Vec<Waiting> {
        self.world.waiting.borrow().clone()
    }

    /// Those who wait for a lock and could be told.
    pub fn attended(&self, lock: usize) -> Vec<Waiting> {
        let waiting = self.waiting();
        waiting.into_iter().filter(|waiting| waiting.lock == lock && self.is_attended(waiting)).collect()
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
        self.world.turn_left.set(self.world.turn.get());
    }

    /// The server comes to what is on its agenda, turn by turn, unless it has commands to run first.
    pub fn catch_up(&mut self) {
        let mut turns = 0;
        while !self.busy && self.world.is_something_due() {
            self.one_turn();
            turns += 1;
            assert!(turns < TURNS, "the agenda does not empty");
        }
        if self.world.is_quiet() {
            self.sessions.all_mut().for_each(|session| session.server_is_done());
            self.check_taken_back();
        }
    }

    fn one_turn(&mut self) {
        self.begin_turn();
        let now = self.now();
        self.sessions.all_mut().for_each(|session| session.server_goes_on(now));
        self.sessions.all_mut().for_each(Session::turn);
        serve::catch_up(&self.world);
        self.begin_turn();
        self.hear();
    }

    pub fn take(&mut self, step: &Step) {
        self.begin_turn();
        match step.clone() {
            Step::Turn(things) => self.world.turn.set(things),
            Step::Busy(busy) => self.busy = busy,
            Step::OneTurn => self.one_turn(),
            Step::Ask { lock, holder, side, lease, wait } => {
                self.ask(&Asking { lock, holder: HOLDERS[holder], side, lease, wait }, None);
            }
            Step::AskByTicket { session, lock, holder, side, lease, wait } => {
                let asking = Asking { lock, holder: HOLDERS[holder], side, lease, wait: Some(wait) };
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
                if !self.world.paused.get() {
                    self.break_up(lock);
                }
                self.busy = busy;
            }
            Step::Pause(paused) => {
                self.world.paused.set(paused);
                self.advance(PAUSED_MS + 1);
            }
            Step::PauseEnds => self.world.paused.set(false),
            Step::BecomeReplica => self.become_replica(),
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
        self.grants.role_changed();
        self.world.waiting.borrow_mut().iter_mut().for_each(|waiting| waiting.is_dismissed = true);
        self.world.with_table(Table::forget_grants);
        self.world.with_table(Table::dismiss_all);
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
            drop(self.world.with_table(|table| table.gone(ticket)));
        }
    }

    fn delete(&mut self, lock: usize) {
        if self.world.paused.get() {
            return;
        }
        self.world.keyspaces[lock].borrow_mut().delete("lock");
        self.grants.lost(lock);
        // As a command does it, or as the server does by itself, or with everything else.
        self.deletions += 1;
        match self.deletions % 3 {
            0 => drop(self.world.with_table(|table| table.key_changed(LOCKS[lock]))),
            1 => {
                self.world.with_table(|table| table.key_changed_by_command(LOCKS[lock]));
                serve::follow_command(&self.world);
            }
            _ => self.world.with_table(|table| table.database_changed(Some(LOCKS[lock].database))),
        }
    }

    /// Whoever had the lock has it no longer; who has it now has it from the queue, and whole.
    fn break_up(&mut self, lock: usize) {
        let waiting: Vec<_> = self.waiting().into_iter().filter(|waiting| waiting.lock == lock).collect();
        // To pass others over may take longer than this turn.
        let first = waiting.first().filter(|first| self.is_attended(first));
        let had_lock = !self.world.fields(lock).is_empty();
        let before = self.read_holds(lock);
        let granted = |play: &Self| play.world.with_table(|table| table.counters.waited.count());
        let granted_before = granted(self);
        self.grants.lost(lock);
        self.world.break_up(lock);
        if first.is_some() || waiting.is_empty() {
            let expected = had_lock && first.is_some();
            assert_eq!(expected, granted(self) > granted_before, "the first who waits gets the lock");
        }
        let fields = self.world.fields(lock);
        for (field, count) in fields.iter().filter(|(field, _)| *field != "mode") {
            let holder = field.trim_end_matches(":write");
            let waited = waiting.iter().filter(|waiting| waiting.holder == holder).count();
            assert!(count.parse::<usize>().unwrap() <= waited, "{holder} has more than it waited for: {fields:?}");
        }
        let now_there = self.read_holds(lock);
        let keyspace = self.world.keyspaces[lock].borrow();
        assert!(now_there.iter().all(|hold| keyspace.entries().contains_key(hold)), "whoever reads now has its lease");
        let left = before.iter().find(|hold| keyspace.entries().contains_key(*hold) && !now_there.contains(*hold));
        assert_eq!(left, None, "a read hold of a broken lock is left: {fields:?}");
    }

    /// The keys of all read holds that the lock has.
    fn read_holds(&self, lock: usize) -> BTreeSet<String> {
        let holdings = self.world.snapshot(lock).map_or_else(Vec::new, |snapshot| snapshot.holdings);
        let reads = holdings.iter().filter(|holding| holding.side == Side::Read);
        reads.flat_map(|reads| (1..=reads.count).map(|index| hold_key(name(&reads.holder), index))).collect()
    }

    /// Whether somebody who could be told waits for a lock that the command has not changed yet.
    fn ahead(&mut self, lock: usize, side: Side) -> Ahead {
        if !self.world.with_table(|table| table.is_waited_for(LOCKS[lock])) {
            return Ahead::Nobody;
        }
        let is_there = !self.world.fields(lock).is_empty();
        let may_pass = side == Side::Read && self.world.with_table(|table| table.has_sessions());
        let ahead = match (is_there, may_pass) {
            (true, false) => Ahead::Someone,
            (true, true) => serve::ahead(&self.world, LOCKS[lock]),
            (false, _) => serve::settle(&self.world, LOCKS[lock], Trigger::Command),
        };
        self.digest();
        ahead
    }

    /// As the command does it.
    pub fn ask(&mut self, asking: &Asking, by: Option<(&str, &str)>) {
        let Asking { lock, holder, side, lease, wait } = *asking;
        let wish = Wish { holder: (), side, lease: Lease::from_ms(lease).unwrap(), fenced: asking.is_fenced() };
        let mut session = None;
        if let Some((of, ticket)) = by {
            let Some(found) = self.find(of) else { return };
            let used = self.world.with_table(|table| {
                table.use_of(found, ticket.as_bytes(), LOCKS[lock], &wish.with_holder(holder.as_bytes()))
            });
            assert_eq!(used, self.expected_use(of, ticket, asking), "what {ticket} of {of} is used for");
            if used != Use::Free {
                return;
            }
            let number = self.sessions.get(of).unwrap().number;
            self.asked.entry(number).or_default().retain(|(other, _)| other != ticket);
            self.asked.entry(number).or_default().push((ticket.to_owned(), asking.clone()));
            session = Some((found, number));
        }
        let ahead = self.ahead(lock, side);
        let inside = self.world.is_inside(lock, holder);
        let Ok(decision) = self.world.decide(lock, holder, wish, ahead) else { return };
        match (decision.answer, wait) {
            (Acquired::Granted { .. }, _) if self.world.paused.get() => {}
            (Acquired::Granted { .. }, _) => {
                assert!(inside || ahead == Ahead::Nobody, "{holder} overtakes those who wait");
                self.check_newcomer(lock, holder, inside);
                self.world.keyspaces[lock].borrow_mut().apply(holder, &decision.changes);
                self.grants.touched(lock, holder);
                serve::settle_behind(&self.world, LOCKS[lock], holder.as_bytes(), Trigger::Command);
            }
            (Acquired::Busy, wait) => {
                self.check_refusal(lock, holder, side);
                let is_possible = {
                    let keyspace = self.world.keyspaces[lock].borrow();
                    lock::check_wait(side, &HolderView { keyspace: &keyspace, holder }).is_ok()
                };
                if let Some(wait) = wait.filter(|_| is_possible) {
                    let has_sessions = self.world.with_table(|table| table.has_sessions());
                    let left_ms = (ahead == Ahead::Nobody || has_sessions).then(|| self.world.left_ms(LOCKS[lock]));
                    let names = by.map(|(_, ticket)| Names::of_ticket(holder.as_bytes(), ticket.as_bytes()));
                    let wish = wish.with_holder(names.unwrap_or_else(|| Names::from(holder.as_bytes())));
                    self.queue_up(asking, wish, by.zip(session), wait, left_ms);
                }
            }
        }
    }

    fn queue_up(
        &mut self,
        asking: &Asking,
        wish: Wish<Names>,
        by: Option<ByTicket<'_>>,
        wait: i64,
        left_ms: Option<i64>,
    ) {
        let Asking { lock, holder, side, .. } = *asking;
        let (now, lease) = (self.now(), wish.lease);
        let deadline = (wait > 0).then_some(now + wait);
        let (who, session, recipient, limit) = match by {
            Some(((of, ticket), (found, number))) => {
                let who = Who::Ticket { session: of.to_owned(), ticket: ticket.to_owned() };
                (who, Some(number), Recipient::Session(found), self.most_tickets)
            }
            None => {
                self.next_id += 1;
                (Who::Client(self.next_id), None, Recipient::Client(self.world.client(self.next_id)), MOST)
            }
        };
        let as_many =
            self.world.with_table(|table| if by.is_some() { table.tickets() } else { table.blocked_clients() });
        let waiter = Waiter { recipient, wish };
        match serve::wait(&self.world, LOCKS[lock], waiter, now, limit, deadline, left_ms) {
            Ok(ticket) => {
                assert!(as_many < limit, "no more wait than may");
                if let Who::Client(id) = who {
                    self.clients.insert(id, ticket);
                }
                let (is_dismissed, is_cancelled) = (false, false);
                let waiting = Waiting { who, session, lease, lock, holder, side, deadline, is_dismissed, is_cancelled };
                self.world.waiting.borrow_mut().push(waiting);
            }
            Err(_) => {
                assert_eq!(as_many, limit, "there is room for another");
                if by.is_none() {
                    let dropped = self.world.happenings.borrow_mut().pop_back();
                    assert!(matches!(dropped, Some(Happening::LetGo(..))));
                }
            }
        }
    }

    fn release(&mut self, lock: usize, holder: &'static str, side: Option<Side>, all: bool) {
        if self.world.paused.get() {
            return;
        }
        let answer = {
            let keyspace = self.world.keyspaces[lock].borrow();
            let want = lock::Release { side, lease: None, all };
            lock::release(&HolderView { keyspace: &keyspace, holder }, want, self.now()).map(|decision| decision.answer)
        };
        if answer.is_ok_and(|answer| answer != lock::Released::NotHeld) {
            self.grants.touched(lock, holder);
        }
        self.world.release(lock, holder, side, all);
    }

    pub fn renew(&mut self, lock: usize, holder: &'static str, lease: i64) {
        let decision = {
            let keyspace = self.world.keyspaces[lock].borrow();
            let lease = Lease::from_ms(lease).unwrap();
            lock::renew(&HolderView { keyspace: &keyspace, holder }, lease, self.now()).unwrap()
        };
        if self.world.paused.get() {
            return;
        }
        self.world.keyspaces[lock].borrow_mut().apply(holder, &decision.changes);
        if decision.answer == Renewed::Restarted {
            self.grants.touched(lock, holder);
        }
        serve::settle(&self.world, LOCKS[lock], Trigger::Command);
    }

    /// Lets time pass, alarm by alarm.
    pub fn advance(&mut self, ms: i64) {
        let end = self.now() + ms;
        loop {
            let now = self.now();
            let next = self.world.with_table(|table| table.wakes_at(now)).filter(|next| *next <= end);
            let time = next.unwrap_or(end).max(now);
            self.pass(time - now);
            self.catch_up();
            if next.is_none() || self.busy {
                return self.pass(end - self.now());
            }
        }
    }

    fn pass(&self, ms: i64) {
        for keyspace in &self.world.keyspaces {
            Keyspace::advance(&mut keyspace.borrow_mut(), ms.max(0));
        }
    }

    /// The server gets to tell clients what became of them; one of them may be gone by then.
    pub fn hear(&mut self) {
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

    fn tell_client(&mut self, id: u64, outcome: Option<Outcome>) {
        assert!(self.let_go.insert(id, outcome).is_none(), "client {id} is let go twice");
        let ticket = self.clients[&id];
        if matches!(outcome, Some(Outcome::Granted { .. })) {
            if std::mem::take(&mut self.next_one_dies) {
                assert!(self.world.with_table(|table| table.gone(ticket)).is_none());
            } else {
                self.world.with_table(|table| table.delivered(ticket));
            }
        }
    }

    /// Everyone leaves, and nothing must be left of anyone.
    pub fn end(mut self) {
        self.world.paused.set(false);
        self.busy = false;
        self.next_answer_is_lost = false;
        self.begin_turn();
        self.advance(PAUSED_MS + 1);
        for waiting in self.waiting() {
            if let Who::Client(id) = waiting.who {
                let ticket = self.clients[&id];
                drop(self.world.with_table(|table| table.gone(ticket)));
            }
        }
        self.hear();
        // Some say so, the others just go.
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
        assert!(self.waiting().is_empty(), "somebody waits on: {:?}", self.waiting());
        assert_eq!(self.let_go.len(), self.clients.len(), "each blocked client is let go");
        assert!(self.world.with_table(|table| table.is_clean()), "something is left over");
    }
}
