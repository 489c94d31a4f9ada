//! One attempt to acquire a lock: it tries once, then waits by a ticket. `granted` handles grants,
//! `leaving` handles attempts after their caller is gone or their time is over.
//!
//! **A wait asks for a short lease.** A grant belongs to its holder from the moment the server makes it, and the server
//! never takes it back. So if a machine disappears, each of its waiters may block the lock for one lease. The caller
//! gets the grant as soon as the event arrives; the short lease covers the time until its renewal to the full length,
//! which comes soon, during the caller's work.
//!
//! The client renews a grant before the caller gets it in five cases: too little of the lease is left; no later renewal
//! follows (a fixed lease); the owner has the lock already, since the server keeps one lease for each read hold;
//! replicas have to confirm it; or the server may not be the right one any more, which the renewal finds out.
//!
//! **Several locks** take one request and one reply. Each hold is renewed and released separately. Only a renewal
//! because of a short remaining lease is one request for all of them: the server restarts all leases or none.
//!
//! **An owner's attempts ask one after the other**: a later one asks when the earlier one has the lock, or has left
//! nothing behind. A try behind an attempt that waits in the server's queue fails at once.

mod granted;
mod handing;
mod leaving;

use super::doubt::Doubt;
use super::fault::{Fault, What};
use super::hold::{GuardId, Hold, guaranteed_until};
use super::pause::{Outage, Pause};
use super::request::{self, Cancelled, Leased, Verdict, Wait};
use super::resp::Reply;
use super::route::Route;
use super::session::Ticket;
use super::terms::{Lasting, Side, Terms, Until};
use super::{Answer, Asker, Body, Effect, Engine, HoldId, Lane, Log, Name, NodeId, Timer};
use crate::error::{Cause, Error};
use crate::loss::Loss;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::iter;
use std::time::{Duration, Instant};

/// The maximum lease that a wait asks for, unless its owner already has the lock with a longer lease.
const LEASE_OF_A_WAIT: Duration = Duration::from_secs(3);

/// If at least this part of the lease is left, the client renews it during the caller's work: that is time for two
/// tries of a sixth each.
const LEFT_PARTS: u32 = 3;

/// After this time the client requests a wait again, by the same ticket. So no wait lasts forever if the server or a
/// proxy has forgotten it.
const ASKED_AGAIN: Duration = Duration::from_secs(60);

/// A request for a lock.
pub struct Wish {
    pub aim: Aim,
    pub key: Name,
    /// The other locks of a set. Then the holder is unique to this wish.
    pub more: Vec<Name>,
    pub holder: Name,
    /// The caller chose the holder.
    pub named: bool,
    pub terms: Terms,
    pub until: Until,
}

/// What a request for a lock asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aim {
    Lock,
    /// The stored answer, or the lock to compute it under.
    Answer,
    /// A lock that the holder has already, because another process handed it on.
    Adoption,
    /// A lease of this length for this guard's hold, so that it can be handed on. `longest`: the longest lease before
    /// that.
    Extension {
        guard: GuardId,
        longest: Duration,
    },
}

/// A granted hold. The owner of this value releases it once.
#[derive(Clone, Debug)]
pub struct Grant {
    pub hold: HoldId,
    pub guard: GuardId,
    pub key: Name,
    pub holder: Name,
    pub side: Side,
    /// The guard's first deadline.
    pub until: Instant,
    /// The lease that was requested.
    pub length: Duration,
    pub token: Option<u64>,
    /// The other locks of a set.
    pub more: Vec<Grant>,
}

/// `None`: the lock was not free before the caller's time was over.
pub type Outcome = Result<Option<Grant>, Error>;

pub(super) struct Attempt {
    aim: Aim,
    pub hold: HoldId,
    /// The other locks of a set.
    more: Vec<HoldId>,
    pub terms: Terms,
    pub until: Until,
    lane: Lane,
    /// Whether its caller still waits.
    is_awaited: bool,
    /// It passed its owner's gate, and may be granted the lock.
    pub is_asking: bool,
    state: State,
    /// The request under way.
    errand: u64,
    /// What else the server may have granted.
    doubt: Doubt,
    /// The ticket by which it may be waiting on the server.
    pub ticket: Option<Ticket>,
    waits: bool,
    /// Whether the local queue counts it as waiting, rather than trying. `None`: it is not in that queue.
    local_queue: Option<bool>,
    /// The lease in its last request.
    pub asked: Duration,
    tokens: Vec<u64>,
    /// Until when the grant is known to last.
    granted_until: Option<Instant>,
    outage: Outage,
    /// Why the last request failed, if it did.
    trouble: Option<Fault>,
    /// The server's last reply was that another client is ahead.
    is_behind: bool,
    wakes_at: Option<Instant>,
    /// When its caller needs an outcome in any case.
    end: Option<Instant>,
}

enum State {
    /// An earlier attempt of the same owner is under way.
    Behind,
    /// It asks when it has passed its owner's gate.
    Asking,
    /// It waits for an event.
    Waiting,
    /// Granted; the client restarts the lease.
    Renewing,
    /// Before it asks again, or renews the grant again.
    Pausing { granted: bool },
    /// The caller gets its guard when each lock is renewed and replicas have confirmed the renewals.
    Confirming { grant: Grant, renewed: Vec<Leased> },
    /// Its caller is gone. The reply to a request will show whether there is a hold to release.
    Leaving,
    /// Its caller is gone, and its ticket is being cancelled. The ticket's event may come first.
    Withdrawing(Pause),
}

impl Aim {
    /// Whether it asks for a hold, rather than for more time for an existing one.
    fn asks(self) -> bool {
        matches!(self, Self::Lock | Self::Answer)
    }
}

impl Grant {
    pub fn all(&self) -> impl Iterator<Item = &Self> {
        iter::once(self).chain(&self.more)
    }
}

impl Attempt {
    fn new(aim: Aim, hold: HoldId, more: Vec<HoldId>, terms: Terms, until: Until, lane: Lane, now: Instant) -> Self {
        Self {
            aim,
            hold,
            more,
            terms,
            until,
            lane,
            is_awaited: true,
            is_asking: false,
            state: State::Behind,
            errand: 0,
            doubt: Doubt::default(),
            ticket: None,
            waits: false,
            local_queue: None,
            asked: Duration::ZERO,
            tokens: Vec::new(),
            granted_until: None,
            outage: Outage::none(now),
            trouble: None,
            is_behind: false,
            wakes_at: None,
            end: None,
        }
    }

    fn holds(&self) -> impl Iterator<Item = HoldId> + use<> {
        iter::once(self.hold).chain(self.more.clone())
    }

    /// The request for all its locks.
    pub(super) fn request(&self, holds: &BTreeMap<HoldId, Hold>, wait: Option<Wait>) -> Vec<u8> {
        let holds: Vec<_> = self.holds().filter_map(|id| holds.get(&id)).collect();
        let keys: Vec<_> = holds.iter().map(|hold| &*hold.key).collect();
        let holder = holds.first().map_or(&[][..], |hold| &*hold.holder);
        request::acquire(self.aim, &self.terms, &keys, holder, self.asked, wait)
    }

    fn verdict(&self, answer: Result<Reply, Fault>, lease: Leased) -> Result<Verdict, Fault> {
        if self.aim != Aim::Answer {
            return request::verdict(answer?, self.terms.fenced, lease);
        }
        let too_old =
            |fault: Fault| if fault.is_unknown_command() { Fault { what: What::TooOld, ..fault } } else { fault };
        request::verdict_or_answer(answer.map_err(too_old)?, lease)
    }

    /// The request that restarts the lease of what was granted.
    fn renewal(&self, holds: &BTreeMap<HoldId, Hold>) -> Vec<u8> {
        match (self.more.is_empty(), holds.get(&self.hold)) {
            (true, Some(hold)) => request::renew(hold.names(), self.asked),
            _ => self.request(holds, None),
        }
    }

    /// Whether the reply says that all holds still exist. Some of several locks may have ended and been granted again,
    /// so the last tokens count.
    fn is_renewed(&mut self, answer: Reply, sent_at: Instant) -> Result<bool, Fault> {
        if self.more.is_empty() {
            return request::yes_or_no(&answer);
        }
        let lease = Leased { after: sent_at, length: self.asked };
        let Verdict::Granted { tokens, .. } = request::verdict(answer, self.terms.fenced, lease)? else {
            return Ok(false);
        };
        self.tokens = tokens;
        Ok(true)
    }

    /// The lease to ask for.
    pub(super) fn lease(&self, hold: &Hold, waits: bool, now: Instant) -> Duration {
        let whole = self.terms.lease.length();
        hold.lease_for(if waits { whole.min(LEASE_OF_A_WAIT) } else { whole }, now)
    }

    /// Whether enough of the lease is left for the caller.
    fn will_do(&self, lease: Leased, hold: &Hold, now: Instant) -> bool {
        let least = match self.terms.lease {
            Lasting::Kept(_) => self.asked / LEFT_PARTS,
            // No renewal follows, so it has to be nearly whole.
            Lasting::Fixed(length) => length - length / 10,
        };
        !hold.is_shared() && guaranteed_until(lease).saturating_duration_since(now) >= least
    }
}

impl Engine {
    pub(super) fn acquire(&mut self, id: u64, wish: Wish, lane: Lane) {
        let Wish { aim, key, more, holder, named, terms, until } = wish;
        let hold_id = self.hold_of(key, holder.clone(), named);
        let more: Vec<_> = more.into_iter().map(|key| self.hold_of(key, holder.clone(), named)).collect();
        let now = self.now;
        let end = until.end(now, self.settings.answer);
        if let Some(end) = end {
            self.timers.insert((end, Timer::End(id)));
        }
        for hold in iter::once(&hold_id).chain(&more) {
            self.holds.entry(*hold).and_modify(|hold| {
                hold.users += 1;
                hold.attempt_begins(terms.side, terms.lease.length());
            });
        }
        let Some(hold) = self.holds.get_mut(&hold_id) else { return };
        if named {
            hold.attempts.push_back(id);
        }
        let joins_queue = !until.is_over(now) && aim.asks();
        let local_queue = joins_queue.then(|| self.local_queues.entry(hold.key.clone()).or_default().join());
        let attempt = Attempt {
            end,
            local_queue,
            waits: local_queue.unwrap_or(false),
            ..Attempt::new(aim, hold_id, more, terms, until, lane, now)
        };
        self.attempts.insert(id, attempt);
        match aim {
            Aim::Lock | Aim::Answer if named => self.first_asks(hold_id),
            Aim::Lock | Aim::Answer => self.asks(id),
            Aim::Adoption | Aim::Extension { .. } => self.renews(id),
        }
    }

    /// The owner's first attempt asks, unless it does already. While it waits in the server's queue, tries behind it
    /// end: the lock is not free.
    pub(super) fn first_asks(&mut self, hold: HoldId) {
        let Some(hold) = self.holds.get(&hold) else { return };
        let Some((id, first)) = hold.attempts.front().and_then(|id| Some((*id, self.attempts.get(id)?))) else {
            return;
        };
        match first.state {
            State::Behind => self.asks(id),
            State::Waiting => {
                let is_over = |id: &u64| self.attempts.get(id).is_some_and(|it| it.until.is_over(self.now));
                let tries: Vec<_> = hold.attempts.iter().skip(1).copied().filter(is_over).collect();
                tries.into_iter().for_each(|id| self.ends(id, Ok(None)));
            }
            _ => {}
        }
    }

    /// Its turn at the gate has come.
    pub(super) fn attempt_has_turn(&mut self, id: u64) {
        match self.attempts.get(&id).map(|attempt| &attempt.state) {
            Some(State::Asking) => self.asks(id),
            Some(State::Renewing) => self.renews(id),
            Some(State::Confirming { .. }) => self.confirms(id),
            _ => {}
        }
    }

    /// Whether the attempt still waits for the reply to this request.
    pub(super) fn attempt_wants(&self, id: u64, errand: u64) -> bool {
        self.attempts.get(&id).is_some_and(|attempt| attempt.errand == errand)
    }

    fn asks(&mut self, id: u64) {
        let Some(errand) = self.goes(id, State::Asking) else { return };
        let now = self.now;
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        let Some(hold) = self.holds.get(&attempt.hold) else { return };
        let body = if attempt.waits {
            Body::Wait
        } else {
            attempt.asked = attempt.lease(hold, false, now);
            Body::Bytes(attempt.request(&self.holds, None))
        };
        let (hold, lane) = (attempt.hold, attempt.lane);
        self.ask(errand, Asker::Attempt(id), hold, body, lane);
    }

    /// Enters the state in which it sends its next request: now, or when its turn at the gate comes.
    fn goes(&mut self, id: u64, state: State) -> Option<u64> {
        let errand = self.next_id();
        let attempt = self.attempts.get_mut(&id)?;
        (attempt.state, attempt.errand) = (state, 0);
        let hold = attempt.hold;
        if !self.passes_gate(hold, Asker::Attempt(id), errand) {
            return None;
        }
        let attempt = self.attempts.get_mut(&id)?;
        (attempt.errand, attempt.is_asking) = (errand, true);
        Some(errand)
    }

    pub(super) fn attempt_answered(&mut self, id: u64, errand: u64, sent_at: Instant, answer: Result<Reply, Fault>) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        if attempt.errand != errand {
            return self.attempt_answered_late(id, answer);
        }
        attempt.errand = 0;
        answer.as_ref().err().into_iter().for_each(|fault| attempt.doubt.add_unanswered(fault));
        match &mut attempt.state {
            State::Asking => self.asked(id, sent_at, answer),
            State::Renewing if !attempt.aim.asks() => self.held_is_renewed(id, sent_at, answer),
            State::Renewing => self.grant_is_renewed(id, sent_at, answer),
            State::Confirming { grant, renewed, .. } => match answer.and_then(|answer| request::yes_or_no(&answer)) {
                Ok(true) => {
                    renewed.push(Leased { after: sent_at, length: attempt.asked });
                    // The replies for its other locks are still to come.
                    attempt.errand = errand;
                }
                Ok(false) => {
                    let lost = Error::lost(&grant.key, Loss::NotHeld);
                    self.is_unconfirmed(id, lost);
                }
                Err(fault) => self.grant_confirmed(id, Err(fault)),
            },
            State::Leaving => {
                if is_granted(&answer) {
                    attempt.doubt.make_permanent(&LATE);
                }
                self.left(id, false);
            }
            State::Withdrawing(pause) => {
                let next = self.now + pause.next();
                match (answer.and_then(|answer| request::cancelled(&answer)), attempt.ticket.clone()) {
                    (Ok(cancelled), _) => self.withdrawn(id, cancelled),
                    (Err(fault), Some(ticket)) if self.cancel_failed(&ticket, &fault) => self.wakes(id, next),
                    // Its place in the queue has ended with the session, but an earlier grant has not.
                    (Err(_), _) => self.withdrawn(id, Cancelled::Unknown),
                }
            }
            State::Behind | State::Waiting | State::Pausing { .. } => {}
        }
    }

    fn grant_is_renewed(&mut self, id: u64, sent_at: Instant, answer: Result<Reply, Fault>) {
        let now = self.now;
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        match answer.and_then(|answer| attempt.is_renewed(answer, sent_at)) {
            // The hold may belong to another attempt of the same owner, if this one's grant had ended.
            Ok(true)
                if attempt.granted_until.is_none_or(|until| until <= now)
                    && self.holds.get(&attempt.hold).is_some_and(Hold::is_shared) =>
            {
                attempt.doubt.make_permanent(&LATE);
                self.asks(id);
            }
            Ok(true) => {
                let lease = Leased { after: sent_at, length: attempt.asked };
                self.held(id, lease, true);
            }
            // The lease ended before the renewal: it starts again.
            Ok(false) => self.asks(id),
            Err(fault) => self.troubled(id, fault, true),
        }
    }

    fn asked(&mut self, id: u64, sent_at: Instant, answer: Result<Reply, Fault>) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        let lease = Leased { after: sent_at, length: attempt.asked };
        match attempt.verdict(answer, lease) {
            Ok(Verdict::Granted { tokens, lease }) => self.granted(id, tokens, lease, true),
            Ok(Verdict::Answered(Some(value))) => self.is_answered(id, value),
            Ok(Verdict::Answered(None)) => self.troubled(id, Fault::not_an_answer(), false),
            Ok(Verdict::Busy) => self.busy(id),
            Ok(Verdict::Waits) => self.waits(id),
            Err(fault) => {
                // With no other request in doubt, this reply means that the ticket is in no queue.
                let is_out = fault.is_full() && !attempt.doubt.exists();
                if let Some(ticket) = is_out.then(|| attempt.ticket.take()).flatten() {
                    self.drop_ticket(&ticket);
                }
                self.troubled(id, fault, false);
            }
        }
    }

    /// The reply to a request that was given up.
    pub(super) fn attempt_answered_late(&mut self, id: u64, answer: Result<Reply, Fault>) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        attempt.doubt.settle_one(&answer);
        if is_granted(&answer) {
            attempt.doubt.make_permanent(&LATE);
        }
    }

    /// There is an answer, so there is no work to do under the lock.
    fn is_answered(&mut self, id: u64, value: Vec<u8>) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        if std::mem::take(&mut attempt.is_awaited) {
            self.effects.push(Effect::Notify(id, Answer::Answered(value)));
            self.leaving += 1;
        }
        if let Some(ticket) = attempt.ticket.take() {
            self.drop_ticket(&ticket);
        }
        self.left(id, false);
    }

    fn waits(&mut self, id: u64) {
        let next = self.now + ASKED_AGAIN;
        let ticket = self.attempts.get(&id).and_then(|attempt| attempt.ticket.clone());
        if !ticket.is_some_and(|ticket| self.is_of_a_session(&ticket)) {
            // Its session has ended since it asked: no event of that session will come.
            return self.troubled(id, Fault::broken(), false);
        }
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        (attempt.state, attempt.trouble, attempt.is_behind) = (State::Waiting, None, true);
        attempt.outage = Outage::none(self.now);
        if attempt.local_queue == Some(false) {
            attempt.local_queue = Some(true);
            let key = self.holds.get(&attempt.hold).map(|hold| hold.key.clone());
            if let Some(local_queue) = key.and_then(|key| self.local_queues.get_mut(&key)) {
                local_queue.waits();
            }
        }
        let hold = attempt.hold;
        self.wakes(id, next);
        self.first_asks(hold);
    }

    /// Another client has the lock, or is ahead.
    fn busy(&mut self, id: u64) {
        let now = self.now;
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        (attempt.trouble, attempt.is_behind, attempt.waits) = (None, true, true);
        attempt.outage = Outage::none(now);
        if let Some(ticket) = attempt.ticket.take() {
            self.drop_ticket(&ticket);
        }
        match self.attempts.get(&id) {
            Some(attempt) if attempt.until.is_over(now) => self.ends(id, Ok(None)),
            _ => self.asks(id),
        }
    }

    /// The event of its ticket.
    pub(super) fn ticket_event(&mut self, id: u64, node: NodeId, outcome: Result<Verdict, Fault>) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        match attempt.state {
            State::Asking | State::Waiting | State::Pausing { granted: false } => {}
            State::Withdrawing(_) => {
                let is_granted = matches!(outcome, Ok(Verdict::Granted { .. }));
                return self.withdrawn(id, if is_granted { Cancelled::Granted } else { Cancelled::Waited });
            }
            _ => return,
        }
        attempt.ticket = None;
        let (errand, hold) = (std::mem::take(&mut attempt.errand), attempt.hold);
        let needs_renewal = attempt.terms.replicas.is_some();
        if errand != 0 && !self.take_back(errand) {
            self.attempts.entry(id).and_modify(|attempt| attempt.doubt.add_given_up());
        }
        match outcome {
            Ok(Verdict::Granted { tokens, lease }) => {
                let is_trusted = self.holds.get(&hold).is_some_and(|hold| self.trusts(&hold.key, node));
                let is_sure = is_trusted && !needs_renewal && self.is_session_open(node);
                self.granted(id, tokens, lease, is_sure);
            }
            Ok(Verdict::Answered(_)) => {
                // An error is not an event: the ticket may be gone already.
                self.attempts.entry(id).and_modify(|attempt| attempt.waits = false);
                self.asks(id);
            }
            Ok(_) => self.busy(id),
            Err(mut fault) => {
                if fault.doubts_the_server() {
                    self.doubt(node, &fault);
                }
                // The request that replaced this wait may be an earlier one of this attempt, so it asks again.
                if fault.is_replaced() && self.attempts.get(&id).is_some_and(|attempt| attempt.doubt.exists()) {
                    fault.what = What::NotNow;
                }
                let key = self.holds.get(&hold).map(|hold| hold.key.clone());
                key.and_then(|key| self.redirected(&fault, node, &key));
                self.troubled(id, fault, false);
            }
        }
    }

    /// It is unknown whether the ticket still waits, and a grant in the meantime may never be reported. The attempt
    /// asks again by the same ticket.
    pub(super) fn ticket_is_in_doubt(&mut self, id: u64, why: &Fault) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        attempt.doubt.make_permanent(&why.cause);
        if matches!(attempt.state, State::Waiting) {
            self.troubled(id, why.clone(), false);
        }
    }

    /// `is_sure`: this server's reply can be trusted.
    fn granted(&mut self, id: u64, tokens: Vec<u64>, lease: Option<Leased>, is_sure: bool) {
        let now = self.now;
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        let Some(hold) = self.holds.get(&attempt.hold) else { return };
        (attempt.tokens, attempt.granted_until) = (tokens, lease.map(guaranteed_until));
        let ticket = attempt.ticket.take();
        let lease = lease.filter(|lease| is_sure && attempt.will_do(*lease, hold, now));
        if let Some(ticket) = ticket {
            self.drop_ticket(&ticket);
        }
        match lease {
            Some(lease) => self.held(id, lease, false),
            None => self.renews(id),
        }
    }

    fn renews(&mut self, id: u64) {
        let Some(errand) = self.goes(id, State::Renewing) else { return };
        let now = self.now;
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        let Some(hold) = self.holds.get(&attempt.hold) else { return };
        if matches!(attempt.aim, Aim::Extension { .. }) {
            return self.extends(id, errand);
        }
        attempt.asked = attempt.lease(hold, false, now);
        let (hold, lane) = (attempt.hold, attempt.lane);
        let bytes = attempt.renewal(&self.holds);
        self.ask(errand, Asker::Attempt(id), hold, Body::Bytes(bytes), lane);
    }

    fn troubled(&mut self, id: u64, fault: Fault, granted: bool) {
        let (now, settings) = (self.now, self.settings);
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        let Some(hold) = self.holds.get(&attempt.hold) else { return };
        attempt.lane = Lane::Own;
        let longest_failure = settings.connect + settings.answer;
        let patience = match (&self.route, attempt.until) {
            // A failover has no time limit, so the caller's own limit counts.
            (Route::Sentinels { .. }, Until::Time(_)) => Duration::MAX,
            _ => settings.patience,
        };
        let next = attempt.outage.goes_on(now, &fault, attempt.until, patience, longest_failure);
        self.effects.push(Effect::Log(Log::NoAnswer { lock: hold.key.clone(), fault: fault.clone() }));
        attempt.trouble = Some(fault.clone());
        attempt.state = State::Pausing { granted };
        match next {
            Some(next) => self.wakes(id, next),
            None => {
                let error = fault.into_error(&hold.key);
                self.ends(id, Err(error));
            }
        }
    }

    fn wakes(&mut self, id: u64, at: Instant) {
        if let Some(attempt) = self.attempts.get_mut(&id) {
            let before = attempt.wakes_at.replace(at);
            self.timers.insert((at, Timer::Attempt(id)));
            before.filter(|before| *before != at).map(|before| self.timers.remove(&(before, Timer::Attempt(id))));
        }
    }

    pub(super) fn attempt_wakes(&mut self, id: u64) {
        let now = self.now;
        let Some(attempt) = self.attempts.get_mut(&id).filter(|it| it.wakes_at.is_some_and(|at| at <= now)) else {
            return;
        };
        attempt.wakes_at = None;
        match attempt.state {
            State::Waiting | State::Pausing { granted: false } => self.asks(id),
            State::Pausing { granted: true } => self.renews(id),
            State::Withdrawing(_) => self.cancels(id),
            _ => {}
        }
    }

    /// Its time is over. Either another client was ahead, or no server replied.
    pub(super) fn attempt_is_late(&mut self, id: u64) {
        let Some(attempt) = self.attempts.get(&id) else { return };
        let Some(hold) = self.holds.get(&attempt.hold) else { return };
        // An attempt behind another one knows what that one knows.
        let first = hold.attempts.front().and_then(|first| self.attempts.get(first)).unwrap_or(attempt);
        let trouble = match (&attempt.state, first.trouble.clone()) {
            (State::Confirming { .. } | State::Leaving | State::Withdrawing(_), _) => return,
            (State::Renewing | State::Pausing { granted: true }, trouble) => trouble.unwrap_or_else(Fault::timed_out),
            (_, None) if first.is_behind => return self.ends(id, Ok(None)),
            (_, trouble) => trouble.unwrap_or_else(Fault::timed_out),
        };
        let key = hold.key.clone();
        let trouble = match self.route.node(&key).and_then(|node| self.place_of(node)) {
            Some(place) if trouble.what != What::NotNow => trouble.at(|| place),
            _ => trouble,
        };
        self.ends(id, Err(trouble.into_error(&key)));
    }
}

/// The cause of doubt if the server may have granted more than the attempt knows.
static LATE: Cause = Cause::Client(Cow::Borrowed("granted what was not waited for any longer"));

fn is_granted(answer: &Result<Reply, Fault>) -> bool {
    match answer {
        Ok(Reply::Nil) => true,
        Ok(Reply::List(pair)) => pair.first() == Some(&Reply::Nil),
        _ => false,
    }
}
