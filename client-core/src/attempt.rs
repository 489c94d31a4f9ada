//! One attempt to acquire a lock: tried once, then waited for by a ticket. What becomes of it when its caller has gone or
//! its time is over is in `leaving`, what becomes of a grant in `granted`.
//!
//! **A wait asks for a short lease.** A grant is its holder's from the moment it is made, and the server never takes it
//! back: a machine that is gone without a word keeps the lock from the next one for as long as the lease lasts, and each
//! of its waiters does. What is granted is the caller's as soon as that is told, for as long as the short lease lasts:
//! its renewal to the whole one comes soon, beside the caller's work.
//!
//! It is renewed before it is the caller's where too little of it is left; where nobody renews it later; where the owner
//! has the lock already, since the server keeps a lease for each read hold; where replicas are to confirm it; and where
//! the server may not be the one to ask any more, which the renewal finds out.
//!
//! **Of several locks** there is one request and one answer for all. Each is held for itself, and so are they renewed and
//! given back; only a grant that is renewed because little of it may be left is asked for once more as a whole: then the server begins
//! all or none of it anew.
//!
//! **An owner's attempts ask one after the other**: a later one asks when the earlier one has the lock, or has left nothing
//! behind. A try behind one that waits in the server's queue fails at once.

mod granted;
mod handing;
mod leaving;

use super::doubt::Doubt;
use super::fault::{Fault, What};
use super::hold::{GuardId, Hold, vouched_until};
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

/// The lease that a wait asks for at most, unless its owner has the lock already, for longer.
const LEASE_OF_A_WAIT: Duration = Duration::from_secs(3);

/// Of what was asked for this part is left where it is renewed beside the work: time for two tries, which take a sixth
/// each.
const LEFT_PARTS: u32 = 3;

/// A wait is asked for again, by the same ticket, each time that this has passed: so none lasts for ever, whatever the
/// server or something on the way to it has forgotten.
const ASKED_AGAIN: Duration = Duration::from_secs(60);

/// What is asked for.
pub struct Wish {
    pub aim: Aim,
    pub key: Name,
    /// Those of other locks that are wanted with it, in the name of a holder whom nobody else has.
    pub more: Vec<Name>,
    pub holder: Name,
    /// The caller chose the holder.
    pub named: bool,
    pub terms: Terms,
    pub until: Until,
}

/// What a request for a lock is to come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aim {
    Lock,
    /// The stored answer, or the lock under which it is made.
    Answer,
    /// The lock, which the holder has already: another process has handed it on.
    Adoption,
    /// A lease of a certain length for what this guard has, so that it can be handed on. What the longest lease was before.
    Extension {
        guard: GuardId,
        longest: Duration,
    },
}

/// What was granted: a hold, of which whoever has this is to give one back.
#[derive(Clone, Debug)]
pub struct Grant {
    pub hold: HoldId,
    pub guard: GuardId,
    pub key: Name,
    pub holder: Name,
    pub side: Side,
    /// Until when it is guaranteed at first.
    pub until: Instant,
    /// How long it was asked for.
    pub length: Duration,
    pub token: Option<u64>,
    /// What was granted with it.
    pub more: Vec<Grant>,
}

/// `None`: the lock was not free, for as long as the caller was willing to wait.
pub type Outcome = Result<Option<Grant>, Error>;

pub(super) struct Attempt {
    aim: Aim,
    pub hold: HoldId,
    /// Those of other locks that it is for.
    more: Vec<HoldId>,
    pub terms: Terms,
    pub until: Until,
    lane: Lane,
    /// Its caller waits for it.
    is_awaited: bool,
    /// It has passed its owner's gate, and may be granted the lock.
    pub is_asking: bool,
    state: State,
    /// The request that is under way.
    errand: u64,
    /// What may have been granted besides.
    doubt: Doubt,
    /// By which it may be waiting, as far as the server is concerned.
    pub ticket: Option<Ticket>,
    waits: bool,
    /// Whether it stands in the crowd as one who waits.
    crowd: Option<bool>,
    /// The lease that was asked for the last time.
    pub asked: Duration,
    tokens: Vec<u64>,
    /// Until when what was granted is there, as far as that is known.
    granted_until: Option<Instant>,
    outage: Outage,
    /// Why the last request was not answered, if it was not.
    trouble: Option<Fault>,
    /// The server's last word was that somebody else is before us.
    is_behind: bool,
    wakes_at: Option<Instant>,
    /// When its caller wants to know, come what may.
    end: Option<Instant>,
}

enum State {
    /// An earlier attempt of the same owner is under way.
    Behind,
    /// Once it has passed its owner's gate.
    Asking,
    /// An event will tell.
    Waiting,
    /// Granted, and its lease is begun anew.
    Renewing,
    /// Before the next try: of asking, or of renewing what was granted.
    Pausing { granted: bool },
    /// There is a guard, once each lock of it is renewed and replicas have confirmed that.
    Confirming { grant: Grant, renewed: Vec<Leased> },
    /// Its caller has gone; the answer to a request will say whether something is to be given back.
    Leaving,
    /// The same, of a ticket that is being cancelled, unless its event comes first.
    Withdrawing(Pause),
}

impl Aim {
    /// Whether it asks for a hold, and not for more of one that is there.
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
            crowd: None,
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

    /// The request for all of it.
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

    /// The request that begins anew the lease of what was granted.
    fn renewal(&self, holds: &BTreeMap<HoldId, Hold>) -> Vec<u8> {
        match (self.more.is_empty(), holds.get(&self.hold)) {
            (true, Some(hold)) => request::renew(hold.names(), self.asked),
            _ => self.request(holds, None),
        }
    }

    /// Whether that is there still, by the answer. Of several locks some may have gone and come again, so the last tokens
    /// count.
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

    /// Whether so much is left of it that whoever waits for it can have it.
    fn will_do(&self, lease: Leased, hold: &Hold, now: Instant) -> bool {
        let least = match self.terms.lease {
            Lasting::Kept(_) => self.asked / LEFT_PARTS,
            // Nobody renews it, so it is to be whole.
            Lasting::Fixed(length) => length - length / 10,
        };
        !hold.is_shared() && vouched_until(lease).saturating_duration_since(now) >= least
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
        let has_crowd = !until.is_over(now) && aim.asks();
        let crowd = has_crowd.then(|| self.crowds.entry(hold.key.clone()).or_default().join());
        let attempt = Attempt {
            end,
            crowd,
            waits: crowd.unwrap_or(false),
            ..Attempt::new(aim, hold_id, more, terms, until, lane, now)
        };
        self.attempts.insert(id, attempt);
        match aim {
            Aim::Lock | Aim::Answer if named => self.first_asks(hold_id),
            Aim::Lock | Aim::Answer => self.asks(id),
            Aim::Adoption | Aim::Extension { .. } => self.renews(id),
        }
    }

    /// The first attempt of an owner asks, unless it does already. While it waits in the server's queue, tries behind it
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

    /// It has waited for its turn at the gate.
    pub(super) fn attempt_has_turn(&mut self, id: u64) {
        match self.attempts.get(&id).map(|attempt| &attempt.state) {
            Some(State::Asking) => self.asks(id),
            Some(State::Renewing) => self.renews(id),
            Some(State::Confirming { .. }) => self.confirms(id),
            _ => {}
        }
    }

    /// Whether somebody waits for the answer to this.
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

    /// To its next state, in which it asks: now, or when it has its turn at the gate.
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
        let now = self.now;
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        if attempt.errand != errand {
            return self.attempt_answered_late(id, answer);
        }
        attempt.errand = 0;
        answer.as_ref().err().into_iter().for_each(|fault| attempt.doubt.misses(fault));
        match &mut attempt.state {
            State::Asking => self.asked(id, sent_at, answer),
            State::Renewing if !attempt.aim.asks() => self.held_is_renewed(id, sent_at, answer),
            State::Renewing => match answer.and_then(|answer| attempt.is_renewed(answer, sent_at)) {
                // It may be another one's of the same owner, if what was granted to this one had ended by then.
                Ok(true)
                    if attempt.granted_until.is_none_or(|until| until <= now)
                        && self.holds.get(&attempt.hold).is_some_and(Hold::is_shared) =>
                {
                    attempt.doubt.deepens(&LATE);
                    self.asks(id);
                }
                Ok(true) => {
                    let lease = Leased { after: sent_at, length: attempt.asked };
                    self.held(id, lease, true);
                }
                // Its lease had ended before it could be renewed: from the beginning.
                Ok(false) => self.asks(id),
                Err(fault) => self.troubled(id, fault, true),
            },
            State::Confirming { grant, renewed, .. } => match answer.and_then(|answer| request::yes_or_no(&answer)) {
                Ok(true) => {
                    renewed.push(Leased { after: sent_at, length: attempt.asked });
                    // Those of its other locks are still to come.
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
                    attempt.doubt.deepens(&LATE);
                }
                self.left(id, false);
            }
            State::Withdrawing(pause) => {
                let next = self.now + pause.next();
                match (answer.and_then(|answer| request::cancelled(&answer)), attempt.ticket.clone()) {
                    (Ok(cancelled), _) => self.withdrawn(id, cancelled),
                    (Err(fault), Some(ticket)) if self.cancel_failed(&ticket, &fault) => self.wakes(id, next),
                    // Its place is gone with its session; what it was granted before is not.
                    (Err(_), _) => self.withdrawn(id, Cancelled::Unknown),
                }
            }
            State::Behind | State::Waiting | State::Pausing { .. } => {}
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
                // So the server answers only to what it has not queued.
                let is_out = fault.is_full() && !attempt.doubt.exists();
                if let Some(ticket) = is_out.then(|| attempt.ticket.take()).flatten() {
                    self.waits_no_more(&ticket);
                }
                self.troubled(id, fault, false);
            }
        }
    }

    /// To a request that was given up.
    pub(super) fn attempt_answered_late(&mut self, id: u64, answer: Result<Reply, Fault>) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        attempt.doubt.hears(&answer);
        if is_granted(&answer) {
            attempt.doubt.deepens(&LATE);
        }
    }

    /// There is nothing to be done under its lock.
    fn is_answered(&mut self, id: u64, value: Vec<u8>) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        if std::mem::take(&mut attempt.is_awaited) {
            self.effects.push(Effect::Notify(id, Answer::Answered(value)));
            self.leaving += 1;
        }
        if let Some(ticket) = attempt.ticket.take() {
            self.waits_no_more(&ticket);
        }
        self.left(id, false);
    }

    fn waits(&mut self, id: u64) {
        let next = self.now + ASKED_AGAIN;
        let ticket = self.attempts.get(&id).and_then(|attempt| attempt.ticket.clone());
        if !ticket.is_some_and(|ticket| self.is_of_a_session(&ticket)) {
            // Its session has ended since it asked: no event of that is going to come.
            return self.troubled(id, Fault::broken(), false);
        }
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        (attempt.state, attempt.trouble, attempt.is_behind) = (State::Waiting, None, true);
        attempt.outage = Outage::none(self.now);
        if attempt.crowd == Some(false) {
            attempt.crowd = Some(true);
            let key = self.holds.get(&attempt.hold).map(|hold| hold.key.clone());
            if let Some(crowd) = key.and_then(|key| self.crowds.get_mut(&key)) {
                crowd.waits();
            }
        }
        let hold = attempt.hold;
        self.wakes(id, next);
        self.first_asks(hold);
    }

    /// Somebody else has it, or is before us.
    fn busy(&mut self, id: u64) {
        let now = self.now;
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        (attempt.trouble, attempt.is_behind, attempt.waits) = (None, true, true);
        attempt.outage = Outage::none(now);
        if let Some(ticket) = attempt.ticket.take() {
            self.waits_no_more(&ticket);
        }
        match self.attempts.get(&id) {
            Some(attempt) if attempt.until.is_over(now) => self.ends(id, Ok(None)),
            _ => self.asks(id),
        }
    }

    /// What has become of its ticket.
    pub(super) fn ticket_told(&mut self, id: u64, node: NodeId, outcome: Result<Verdict, Fault>) {
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
            self.attempts.entry(id).and_modify(|attempt| attempt.doubt.gives_up());
        }
        match outcome {
            Ok(Verdict::Granted { tokens, lease }) => {
                let is_trusted = self.holds.get(&hold).is_some_and(|hold| self.trusts(&hold.key, node));
                let is_sure = is_trusted && !needs_renewal && self.is_session_open(node);
                self.granted(id, tokens, lease, is_sure);
            }
            Ok(Verdict::Answered(_)) => {
                // It is not told by the event, and may be gone by then.
                self.attempts.entry(id).and_modify(|attempt| attempt.waits = false);
                self.asks(id);
            }
            Ok(_) => self.busy(id),
            Err(mut fault) => {
                if fault.doubts_the_server() {
                    self.doubt(node, &fault);
                }
                // If an earlier request of this very attempt came late, it asks again.
                if fault.is_replaced() && self.attempts.get(&id).is_some_and(|attempt| attempt.doubt.exists()) {
                    fault.what = What::NotNow;
                }
                let key = self.holds.get(&hold).map(|hold| hold.key.clone());
                key.and_then(|key| self.redirected(&fault, node, &key));
                self.troubled(id, fault, false);
            }
        }
    }

    /// Nobody knows whether it waits still; and what was granted meanwhile may never be told. It asks again by the same
    /// ticket.
    pub(super) fn ticket_is_in_doubt(&mut self, id: u64, why: &Fault) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        attempt.doubt.deepens(&why.cause);
        if matches!(attempt.state, State::Waiting) {
            self.troubled(id, why.clone(), false);
        }
    }

    /// `is_sure`: the word of this server will do.
    fn granted(&mut self, id: u64, tokens: Vec<u64>, lease: Option<Leased>, is_sure: bool) {
        let now = self.now;
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        let Some(hold) = self.holds.get(&attempt.hold) else { return };
        (attempt.tokens, attempt.granted_until) = (tokens, lease.map(vouched_until));
        let ticket = attempt.ticket.take();
        let lease = lease.filter(|lease| is_sure && attempt.will_do(*lease, hold, now));
        if let Some(ticket) = ticket {
            self.waits_no_more(&ticket);
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
            // A failover takes as long as it takes, and the caller has said how long he waits.
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

    /// Its time is over. What is known then: that somebody else was before us, or only that nobody has answered.
    pub(super) fn attempt_is_late(&mut self, id: u64) {
        let Some(attempt) = self.attempts.get(&id) else { return };
        let Some(hold) = self.holds.get(&attempt.hold) else { return };
        // One behind another knows what that does.
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

/// Why an attempt may have been granted more than is told.
static LATE: Cause = Cause::Client(Cow::Borrowed("granted what was not waited for any longer"));

fn is_granted(answer: &Result<Reply, Fault>) -> bool {
    match answer {
        Ok(Reply::Nil) => true,
        Ok(Reply::List(pair)) => pair.first() == Some(&Reply::Nil),
        _ => false,
    }
}
