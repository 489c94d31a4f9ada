//! Everything that is kept in memory of waiters, by their tickets. Whether a ticket is a blocked client's or a session's matters
//! only for the delivery of its outcome.
//!
//! What is to be done for them, and when, is on the agenda: see `upkeep.rs`.

use super::Map;
use super::agenda::{Agenda, Cancelling, Notes, Untold};
use super::claims::{Claims, waiter_of};
use super::grace::GraceClock;
use super::host::{Answer, Host};
use super::index::Index;
use super::once::Answering;
use super::outbox::{Beside, Event};
use super::queue::{Joins, Left, LockId, LockName, QueueFull, Queues, Ticket};
use super::sessions::{Session, Sessions};
use super::statistics::Counters;
use super::waiter::{AskedBy, Recipient, SessionId, Waiter};
use crate::lock::{Outcome, UnixMs, Wish};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::rc::Rc;

/// `C` is a blocked client: one that gets the outcome of a wait, or a session's call that waits for events.
///
/// What always holds between two calls, and [`Engine::fault`] checks:
/// - each waiter is in one queue, and found there by its holder's name, and by its ticket's if it has one;
/// - a waiter is not among those that were granted their lock and have not been answered;
/// - a session knows how many of its tickets wait;
/// - a waiter for several locks has a claim in the queue of each, or in none;
/// - what is counted over all sessions is the sum of what each has;
/// - a session is open, or on the agenda until nothing is left of it.
pub struct Engine<C> {
    pub(super) queues: Queues<Waiter<C>, Notes>,
    pub(super) agenda: Agenda,
    pub(super) sessions: Sessions<C>,
    pub(super) claims: Claims,
    /// The commands that take back more tickets than one turn has time for.
    pub(super) cancelling: VecDeque<Cancelling<C>>,
    /// The answers that some waiters of these locks are still to get.
    pub(super) answering: BTreeMap<LockId, Answering>,
    pub counters: Counters,
    /// The times of the first and the last grant since [`Engine::take_serving_ms`] was last called.
    pub(super) serving: Option<(UnixMs, UnixMs)>,
    /// Blocked clients that were granted their lock and have not yet been answered.
    pub(super) untold: Map<Ticket, Untold>,
    /// The waiters of each lock by their holder: a later request of the same holder takes the place of the earlier one.
    holders: Index,
    /// The tickets that wait, by session and name.
    pub(super) tickets: Index,
    pub(super) grace: GraceClock,
    /// Whether this server has become a replica.
    pub(super) is_replica: bool,
}

/// Most sessions put all tickets back at once. Each check asks this many of the sessions that take longer.
const RETURNING_ASKED: usize = 16;

impl<C> Default for Engine<C> {
    fn default() -> Self {
        let (holders, tickets) = Default::default();
        Self {
            queues: Queues::default(),
            agenda: Agenda::default(),
            sessions: Sessions::default(),
            claims: Claims::default(),
            cancelling: VecDeque::new(),
            answering: BTreeMap::new(),
            counters: Counters::default(),
            serving: None,
            untold: Map::default(),
            holders,
            tickets,
            grace: GraceClock::default(),
            is_replica: false,
        }
    }
}

/// Shows everything that decides what happens next: not the statistics, and not the indexes.
impl<C: fmt::Debug> fmt::Debug for Engine<C> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let untold: BTreeMap<_, _> = self.untold.iter().collect();
        let mut engine = formatter.debug_struct("Engine");
        engine.field("queues", &self.queues).field("agenda", &self.agenda).field("sessions", &self.sessions);
        engine.field("answering", &self.answering);
        engine.field("cancelling", &self.cancelling).field("untold", &untold).field("claims", &self.claims);
        engine.field("grace", &self.grace).field("is_replica", &self.is_replica).finish_non_exhaustive()
    }
}

impl<C> Engine<C> {
    /// Puts a new waiter into the queues of its locks: last, unless `joins` says otherwise. Its session must be open.
    ///
    /// # Errors
    /// If there is no room for another waiter. It is dropped.
    pub(super) fn join(
        &mut self,
        locks: &[LockName<'_>],
        joins: &[Joins],
        wait: Waiter<C>,
        now: UnixMs,
        deadline: Option<UnixMs>,
    ) -> Result<Ticket, QueueFull> {
        let Some((lock, others)) = locks.split_first() else { return Err(QueueFull) };
        let mut joins = joins.iter().copied().chain(std::iter::repeat(Joins::Last));
        let mut joins = || joins.next().unwrap_or(Joins::Last);
        let wish = (!others.is_empty()).then(|| wait.wish());
        let waiter = self.enter(*lock, wait, now, joins())?;
        if let Some(wish) = wish {
            let mut all = vec![waiter];
            for lock in others {
                let claim = Waiter::new(Recipient::Of(waiter), wish.clone(), AskedBy::AcquireAll);
                let Ok(claim) = self.enter(*lock, claim, now, joins()) else {
                    for claim in all.into_iter().rev() {
                        self.take(claim, false);
                    }
                    return Err(QueueFull);
                };
                self.claims.beside = self.claims.beside.saturating_add(1);
                all.push(claim);
            }
            self.claims.begin(waiter, all.into());
        }
        if let Some(deadline) = deadline {
            self.queues.set_deadline(waiter, deadline);
        }
        self.counters.waits = self.counters.waits.wrapping_add(1);
        Ok(waiter)
    }

    /// Puts one claim into its queue.
    fn enter(&mut self, lock: LockName<'_>, wait: Waiter<C>, now: UnixMs, joins: Joins) -> Result<Ticket, QueueFull> {
        let session = wait.session();
        let (ticket, lock) = self.queues.join(lock, wait, now, joins)?;
        if let Some(wait) = self.queues.waiter(ticket) {
            self.holders.insert((lock, wait.holder()), ticket.place);
            if let Some(session) = session {
                self.tickets.insert((session, wait.ticket()), ticket.place);
                self.sessions.waiting = self.sessions.waiting.saturating_add(1);
            }
        }
        if let Some(session) = self.session_of(ticket) {
            self.sessions.count_claim(session, 0, 1);
        }
        if let Some(session) = session.and_then(|session| self.sessions.get_mut(session)) {
            self.queues.enlist(ticket, &mut session.tickets);
        }
        self.begin_patrol(now);
        Ok(ticket)
    }

    /// The waiters of each lock.
    #[must_use]
    pub fn queues(&self) -> &Queues<Waiter<C>, Notes> {
        &self.queues
    }

    #[must_use]
    pub fn sessions(&self) -> &Sessions<C> {
        &self.sessions
    }

    /// The number of waiters of all locks.
    #[must_use]
    pub fn length(&self) -> usize {
        self.queues.length()
    }

    /// The same, but each waiter for several locks counts once.
    #[must_use]
    pub fn waits(&self) -> usize {
        self.queues.length().saturating_sub(self.claims.beside)
    }

    /// The claims of blocked clients: one for each lock that each waits for.
    #[must_use]
    pub fn claims_of_clients(&self) -> usize {
        self.queues.length().saturating_sub(self.sessions.waiting_claims)
    }

    /// The claims of tickets that wait, or whose event is not acknowledged: one for each lock of each.
    #[must_use]
    pub fn claims_of_tickets(&self) -> usize {
        self.sessions.waiting_claims.saturating_add(self.sessions.event_claims)
    }

    /// The session of a claim.
    fn session_of(&self, claim: Ticket) -> Option<SessionId> {
        self.queues.waiter(waiter_of(&self.queues, claim))?.session()
    }

    /// The claim of a waiter in the queue of this lock.
    pub(super) fn claim_of(&self, waiter: Ticket, lock: LockName<'_>) -> Option<Ticket> {
        let lock = self.queues.find(lock)?;
        self.claims.all(&waiter).iter().copied().find(|claim| self.queues.lock_of(*claim) == Some(lock))
    }

    /// The keys that a waiter waits for.
    #[must_use]
    pub fn keys_of(&self, waiter: Ticket) -> Vec<Rc<[u8]>> {
        let locks = self.claims.locks(&self.queues, waiter).into_iter();
        locks.filter_map(|lock| Some(self.queues.name(lock)?.1)).collect()
    }

    /// When the waiter that has waited longest came.
    #[must_use]
    pub fn oldest_since(&self) -> Option<UnixMs> {
        self.queues.since(self.queues.oldest()?)
    }

    /// For each session that is attended again but still has tickets to put back, puts its first ticket in this queue back. The
    /// lock must then be checked: the caller may be a newcomer, which only asks whether it has to wait.
    pub(super) fn put_returning_back(&mut self, lock: LockId, now: UnixMs) {
        let mut is_back = false;
        for id in self.agenda.returning.iter().take(RETURNING_ASKED) {
            if let Some(session) = self.sessions.get_mut(*id).filter(|session| session.is_attended(now)) {
                is_back |= self.queues.put_first_back(lock, &mut session.tickets);
            }
        }
        if is_back {
            self.changed(lock);
        }
    }

    /// Whether a waiter can be notified of a grant.
    pub(super) fn is_attended(&self, waiter: Ticket, now: UnixMs) -> bool {
        let session = self.queues.waiter(waiter).and_then(Waiter::session);
        session.is_none_or(|session| self.sessions.get(session).is_some_and(|session| session.is_attended(now)))
    }

    /// An unattended waiter steps aside with all its claims, and waiters behind it may be granted the lock.
    pub(super) fn step_aside(&mut self, waiter: Ticket) {
        let Some(id) = self.queues.waiter(waiter).and_then(Waiter::session) else { return };
        for claim in self.claims.all(&waiter).to_vec() {
            if let Some(session) = self.sessions.get_mut(id) {
                self.queues.pass_over(claim, &mut session.tickets);
            }
            self.queues.lock_of(claim).map(|lock| self.changed(lock));
        }
    }

    /// The waiter of this holder for exactly these locks, if there is one.
    pub(super) fn wait_of(&self, holder: &[u8], locks: &[LockName<'_>], asked_by: AskedBy) -> Option<Ticket> {
        let is_of_several = asked_by == AskedBy::AcquireAll;
        let first = self.queues.find(*locks.first()?)?;
        let are_same = |waiter: Ticket| {
            let claims = self.claims.all(&waiter);
            claims.len() == locks.len()
                && (claims.len() == 1 || locks.iter().all(|lock| self.claim_of(waiter, *lock).is_some()))
        };
        self.holders.find((first, holder)).find_map(|place| {
            let claim = self.queues.ticket_at(place)?;
            let wait = self.queues.waiter(claim)?;
            let is_its = wait.holder() == holder && self.queues.lock_of(claim) == Some(first);
            let waiter = waiter_of(&self.queues, claim);
            (is_its && wait.is_of_several() == is_of_several && are_same(waiter)).then_some(waiter)
        })
    }

    /// Gives the outcome to a waiter that has left. `beside` is the outcome for its locks other than the first one.
    pub(super) fn tell<H: Host<Client = C>>(
        &mut self,
        host: &H,
        Left { waiter, database, key, .. }: Left<Waiter<C>>,
        outcome: Outcome,
        beside: Beside,
        now: UnixMs,
    ) {
        let is_of_several = waiter.is_of_several();
        let (Wish { holder: names, side, fenced, .. }, asked_by) = (waiter.wish(), waiter.asked_by);
        let answered = match waiter.recipient {
            Recipient::Client(client) => {
                let answer = match (outcome, beside.answer) {
                    (_, Some(value)) => Answer::Value(value),
                    (Outcome::Granted { .. }, _) if is_of_several => Answer::GrantedAll { tokens: beside.tokens },
                    _ => Answer::Outcome { outcome, fenced },
                };
                Some((client, answer))
            }
            Recipient::Session(session) => {
                let beside = is_of_several.then(|| Box::new(beside));
                let event = Event { seq: 0, names, outcome, database, key, side, fenced, asked_by, beside };
                self.happened(session, event, now).map(|call| (call, Answer::Events))
            }
            Recipient::Of(_) => None,
        };
        host.watch(self);
        if let Some((client, answer)) = answered {
            host.answer(client, answer);
        }
    }

    /// How long the grants since the last call took, if there were any.
    pub fn take_serving_ms(&mut self) -> Option<i64> {
        self.serving.take().map(|(first, last)| last.saturating_sub(first))
    }

    /// Takes a waiter out, with all its claims. If waiters behind it may have waited only for it, its locks will be checked.
    pub(super) fn leave(&mut self, waiter: Ticket) -> Option<Left<Waiter<C>>> {
        let any_may_have = !self.claims.is_empty();
        for claim in self.claims.beside(waiter) {
            if let Some(left) = self.take(claim, false) {
                self.changed(left.lock);
            }
        }
        let left = self.take(waiter, false)?;
        if left.was_first || any_may_have {
            self.changed(left.lock);
        }
        Some(left)
    }

    /// Takes one claim out of its queue.
    pub(super) fn take(&mut self, claim: Ticket, serves: bool) -> Option<Left<Waiter<C>>> {
        let of_session = self.session_of(claim);
        self.claims.forget(&self.queues, claim);
        if let Some(session) = of_session {
            self.sessions.count_claim(session, 1, 0);
        }
        let session = self.queues.waiter(claim)?.session();
        let group = of_session.and_then(|session| self.sessions.get_mut(session)).map(|session| &mut session.tickets);
        let left = self.queues.take(claim, group, session.is_some(), serves)?;
        if let Some(session) = session {
            self.sessions.waiting = self.sessions.waiting.saturating_sub(1);
            self.tickets.remove((session, left.waiter.ticket()), claim.place);
        }
        self.holders.remove((left.lock, left.waiter.holder()), claim.place);
        Some(left)
    }

    /// Takes out a blocked client that is gone. Its lock will be checked, or the hold that it was granted released.
    pub(super) fn gone(&mut self, ticket: Ticket) -> Option<C> {
        self.agenda.to_release.extend(self.untold.remove(&ticket));
        let wait = self.leave(ticket)?.waiter;
        self.counters.cancelled = self.counters.cancelled.wrapping_add(1);
        match wait.recipient {
            Recipient::Client(client) => Some(client),
            Recipient::Session(_) | Recipient::Of(_) => None,
        }
    }

    /// Whether a waiter has asked for a fencing token.
    #[must_use]
    pub fn is_fenced(&self, ticket: Ticket) -> bool {
        self.queues.waiter(ticket).is_some_and(|wait| wait.fenced)
    }

    /// The blocked client that waits by this ticket.
    #[must_use]
    pub fn client(&self, ticket: Ticket) -> Option<&C> {
        match &self.queues.waiter(ticket)?.recipient {
            Recipient::Client(client) => Some(client),
            Recipient::Session(_) | Recipient::Of(_) => None,
        }
    }

    /// An invariant of [`Engine`] that does not hold, if any. It checks everything.
    #[must_use]
    pub fn fault(&self) -> Option<&'static str> {
        let ended = self.agenda.sessions.iter().filter(|id| !self.sessions.is_open(**id));
        let ended = ended.filter_map(|id| self.sessions.get(*id));
        let sessions: Vec<_> = self.sessions.open().chain(ended).collect();
        let mut of_sessions: BTreeMap<_, _> = sessions.iter().map(|session| (session.id, 0_usize)).collect();
        let mut claims = BTreeMap::<SessionId, usize>::new();
        for (ticket, wait) in self.queues.all() {
            if let Some(id) = self.session_of(ticket) {
                let claims = claims.entry(id).or_default();
                *claims = claims.saturating_add(1);
            }
            let Some(lock) = self.queues.lock_of(ticket) else { return Some("a waiter waits for no lock") };
            if !self.holders.find((lock, wait.holder())).any(|found| found == ticket.place) {
                return Some("a waiter is not found by its holder");
            }
            if self.untold.contains_key(&ticket) {
                return Some("a waiter was granted its lock");
            }
            let Some(id) = wait.session() else { continue };
            if self.waiting_ticket(id, wait.ticket()) != Some(ticket) {
                return Some("a ticket is not found by its name");
            }
            let Some(tickets) = of_sessions.get_mut(&id) else { return Some("a ticket has no session") };
            *tickets = tickets.saturating_add(1);
        }
        if let Some(fault) = self.claims.fault(&self.queues) {
            return Some(fault);
        }
        let is_counted = |session: &&Session<C>| of_sessions.get(&session.id) == Some(&session.tickets.length());
        if !sessions.iter().all(is_counted) {
            return Some("a session's tickets are miscounted");
        }
        self.sessions.fault(&sessions, &claims)
    }

    /// Whether nothing at all is remembered.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        let nobody = self.queues.is_empty() && self.holders.is_empty() && self.tickets.is_empty();
        let untold = self.untold.is_empty() && self.claims.is_empty();
        let nothing = untold && self.sessions.is_empty() && self.cancelling.is_empty() && self.answering.is_empty();
        nobody && nothing && self.wakes_at(UnixMs::MIN).is_none()
    }
}
