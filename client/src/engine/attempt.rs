//! One attempt to acquire a lock: tried once, then waited for by a ticket. When its caller has gone or its time is over,
//! it sees to it that nothing stays behind.
//!
//! **A wait asks for a short lease.** A machine that is gone without a word keeps the lock from the next one for as long
//! as that, and each of its waiters does. What is granted is the caller's as soon as that is told, for as long as the short
//! lease lasts: its renewal to the whole one comes soon, beside the caller's work.
//!
//! It is renewed before it is the caller's where too little of it is left; where nobody renews it later; where the owner
//! has the lock already, since the server keeps a lease for each read hold; where replicas are to confirm it; and where
//! the server may not be the one to ask any more, which the renewal finds out.

use super::fault::{Fault, What};
use super::hold::{Began, End, Hold};
use super::lease::{Lease, vouched_until};
use super::line::Lane;
use super::pause::{Outage, Pause};
use super::request::{self, Extent, Leased, Side, Verdict};
use super::resp::Reply;
use super::route::NodeId;
use super::session::Ticket;
use super::terms::{Lasting, Replicas, Terms, Until};
use super::{Asker, Body, Engine, HoldId, Tell, Timer};
use crate::error::{Error, ErrorKind};
use crate::foreign::log;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tracing::{Level, debug};

/// The lease that a wait asks for at most.
const LEASE_OF_A_WAIT: Duration = Duration::from_secs(3);

/// Of what was asked for this part is left where it is renewed beside the work: time for two tries, which take a sixth
/// each.
const LEFT_PARTS: u32 = 3;

/// A wait is asked for again, by the same ticket, each time that this has passed: so none lasts for ever, whatever the
/// server or something on the way to it has forgotten.
const ASKED_AGAIN: Duration = Duration::from_secs(60);

/// What is asked for.
pub(crate) struct Wish {
    pub key: Arc<[u8]>,
    pub holder: Arc<[u8]>,
    /// The caller chose the holder.
    pub named: bool,
    pub terms: Terms,
    pub until: Until,
}

/// What was granted: a hold, of which whoever has this is to give one back.
#[derive(Clone)]
pub(crate) struct Grant {
    pub hold: HoldId,
    pub key: Arc<[u8]>,
    pub holder: Arc<[u8]>,
    pub side: Side,
    pub lease: Arc<Lease>,
    /// How long it was asked for.
    pub length: Duration,
    pub token: Option<u64>,
}

/// `None`: the lock was not free, for as long as the caller was willing to wait.
pub(crate) type Outcome = Result<Option<Grant>, Error>;

pub(super) struct Attempt {
    pub hold: HoldId,
    pub terms: Terms,
    pub until: Until,
    lane: Lane,
    /// Gone with its caller.
    tell: Option<Tell<Outcome>>,
    /// See [`Hold::attempt_begins`].
    began: u64,
    state: State,
    /// The request that is under way.
    errand: u64,
    /// How many requests were given up whose answers may still come; and whether one will never come, or has told of
    /// something that is to be given back.
    open: u32,
    lost: bool,
    /// By which it may be waiting, as far as the server is concerned.
    pub ticket: Option<Ticket>,
    waits: bool,
    /// Whether it stands in the crowd as one who waits.
    crowd: Option<bool>,
    /// The lease that was asked for the last time.
    pub asked: Duration,
    token: Option<u64>,
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
    /// A release of the same owner is under way, which could come after our request and take what it gave.
    BehindRelease,
    Asking,
    /// An event will tell.
    Waiting,
    /// Granted, and its lease is begun anew.
    Renewing,
    /// Before the next try: of asking, or of renewing what was granted.
    Pausing {
        granted: bool,
    },
    /// There is a guard, once replicas have confirmed it: how many is told behind the renewal.
    Confirming {
        grant: Grant,
        at: (NodeId, Lane),
        count: u64,
        replicas: Replicas,
    },
    /// Its caller has gone; the answer to a request will say whether something is to be given back.
    Leaving,
    /// The same, of a ticket that is being cancelled.
    Withdrawing(Pause),
}

impl Attempt {
    /// The lease to ask for.
    pub(super) fn lease(&self, hold: &Hold, waits: bool, now: Instant) -> Duration {
        let whole = self.terms.lease.length();
        hold.lease_for(if waits { whole.min(LEASE_OF_A_WAIT) } else { whole }, now)
    }

    fn is_doubtful(&self) -> bool {
        self.open > 0 || self.lost
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
    pub(super) fn acquire(&mut self, id: u64, wish: Wish, lane: Lane, tell: Tell<Outcome>) {
        let Wish { key, holder, named, terms, until } = wish;
        let hold_id = self.hold_of(key, holder, named);
        let now = self.now;
        let end = until.end(now, self.settings.answer);
        if let Some(end) = end {
            self.timers.insert((end, Timer::End(id)));
        }
        let Some(hold) = self.holds.get_mut(&hold_id) else { return };
        hold.users += 1;
        let began = hold.attempt_begins(terms.side, terms.lease.length());
        let is_behind_release = hold.releasing > 0;
        let crowd = (!until.is_over(now)).then(|| self.crowds.entry(hold.key.clone()).or_default().join());
        let state = if is_behind_release { State::BehindRelease } else { State::Asking };
        let attempt = Attempt {
            hold: hold_id,
            terms,
            until,
            lane,
            tell: Some(tell),
            began,
            state,
            errand: 0,
            open: 0,
            lost: false,
            ticket: None,
            waits: crowd.unwrap_or(false),
            crowd,
            asked: Duration::ZERO,
            token: None,
            granted_until: None,
            outage: Outage::none(now),
            trouble: None,
            is_behind: false,
            wakes_at: None,
            end,
        };
        self.attempts.insert(id, attempt);
        if !is_behind_release {
            self.asks(id);
        }
    }

    /// Whether somebody waits for the answer to this.
    pub(super) fn attempt_wants(&self, id: u64, errand: u64) -> bool {
        let Some(attempt) = self.attempts.get(&id) else { return false };
        attempt.errand == errand || matches!(attempt.state, State::Confirming { count, .. } if count == errand)
    }

    fn asks(&mut self, id: u64) {
        let (errand, now) = (self.next_id(), self.now);
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        let Some(hold) = self.holds.get(&attempt.hold) else { return };
        (attempt.state, attempt.errand) = (State::Asking, errand);
        let body = if attempt.waits {
            Body::Wait
        } else {
            attempt.asked = attempt.lease(hold, false, now);
            let Terms { side, fenced, .. } = attempt.terms;
            Body::Bytes(request::acquire(side, hold.names(), attempt.asked, fenced, None))
        };
        let (key, lane) = (hold.key.clone(), attempt.lane);
        self.ask(errand, Asker::Attempt(id), key, body, lane);
    }

    pub(super) fn attempt_answered(&mut self, id: u64, errand: u64, sent_at: Instant, answer: Result<Reply, Fault>) {
        let now = self.now;
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        if attempt.errand != errand {
            return self.attempt_answered_late(id, answer);
        }
        attempt.errand = 0;
        if let Err(fault) = &answer {
            // An answer that is overdue may still come; one behind a break never does.
            let is_overdue = fault.what == What::Silent && !fault.is_prompt();
            attempt.open += u32::from(is_overdue);
            attempt.lost |= fault.what == What::Silent && !is_overdue;
        }
        match &mut attempt.state {
            State::Asking => {
                let lease = Leased { after: sent_at, length: attempt.asked };
                match answer.and_then(|answer| request::verdict(answer, attempt.terms.fenced, lease)) {
                    Ok(Verdict::Granted { token, lease }) => self.granted(id, token, lease, true),
                    Ok(Verdict::Busy) => self.busy(id),
                    Ok(Verdict::Waits) => self.waits(id),
                    Err(fault) => self.troubled(id, fault, false),
                }
            }
            State::Renewing => match answer.and_then(|answer| request::yes_or_no(&answer)) {
                // It may be another one's of the same owner, if what was granted to this one had ended by then.
                Ok(true)
                    if attempt.granted_until.is_none_or(|until| until <= now)
                        && self.holds.get(&attempt.hold).is_some_and(|hold| hold.has_others(attempt.began)) =>
                {
                    attempt.lost = true;
                    self.asks(id);
                }
                Ok(true) => {
                    let lease = Leased { after: sent_at, length: attempt.asked };
                    self.held(id, Began { lease, for_all: true });
                }
                // Its lease had ended before it could be renewed: from the beginning.
                Ok(false) => self.asks(id),
                Err(fault) => self.troubled(id, fault, true),
            },
            State::Confirming { .. } => self.confirmation(id, answer),
            State::Leaving => {
                let lost = is_granted(&answer) || attempt.is_doubtful();
                self.left(id, lost);
            }
            State::Withdrawing(pause) => {
                let next = self.now + pause.next();
                match (answer.and_then(|answer| request::yes_or_no(&answer)), attempt.ticket.clone()) {
                    (Ok(was_found), _) => self.withdrawn(id, was_found),
                    (Err(fault), Some(ticket)) if self.cancel_failed(&ticket, &fault) => self.wakes(id, next),
                    // With its session everything of it is gone, by the server itself.
                    (Err(_), _) => self.withdrawn(id, false),
                }
            }
            State::BehindRelease | State::Waiting | State::Pausing { .. } => {}
        }
    }

    /// To a request that was given up.
    pub(super) fn attempt_answered_late(&mut self, id: u64, answer: Result<Reply, Fault>) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        attempt.open = attempt.open.saturating_sub(1);
        attempt.lost |= is_granted(&answer) || answer.is_err_and(|fault| fault.what == What::Silent);
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
        self.wakes(id, next);
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
        if !matches!(attempt.state, State::Asking | State::Waiting | State::Pausing { granted: false }) {
            return;
        }
        attempt.ticket = None;
        let (errand, hold) = (std::mem::take(&mut attempt.errand), attempt.hold);
        let needs_renewal = attempt.terms.replicas.is_some();
        if errand != 0 && !self.take_back(errand) {
            self.attempts.entry(id).and_modify(|attempt| attempt.open += 1);
        }
        match outcome {
            Ok(Verdict::Granted { token, lease }) => {
                let is_trusted = self.holds.get(&hold).is_some_and(|hold| self.trusts(&hold.key, node));
                let is_sure = is_trusted && !needs_renewal && self.is_session_open(node);
                self.granted(id, token, lease, is_sure);
            }
            Ok(_) => self.busy(id),
            Err(fault) => {
                if fault.doubts_the_server() {
                    self.doubt(node);
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
        attempt.lost = true;
        if matches!(attempt.state, State::Waiting) {
            self.troubled(id, why.clone(), false);
        }
    }

    /// `is_sure`: the word of this server will do.
    fn granted(&mut self, id: u64, token: Option<u64>, lease: Option<Leased>, is_sure: bool) {
        let now = self.now;
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        let Some(hold) = self.holds.get(&attempt.hold) else { return };
        (attempt.token, attempt.granted_until) = (token, lease.map(vouched_until));
        let ticket = attempt.ticket.take();
        // A release of the same owner that is under way, and came after its own lease had ended, takes this.
        let is_taken = hold.named && self.givings.values().any(|giving| giving.could_take(attempt.hold, now));
        let lease = lease.filter(|lease| is_sure && !is_taken && attempt.will_do(*lease, hold, now));
        if let Some(ticket) = ticket {
            self.waits_no_more(&ticket);
        }
        match lease {
            Some(lease) => self.held(id, Began { lease, for_all: false }),
            None => self.renews(id),
        }
    }

    fn renews(&mut self, id: u64) {
        let (errand, now) = (self.next_id(), self.now);
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        let Some(hold) = self.holds.get(&attempt.hold) else { return };
        attempt.asked = attempt.lease(hold, false, now);
        (attempt.state, attempt.errand) = (State::Renewing, errand);
        let (key, lane) = (hold.key.clone(), attempt.lane);
        let bytes = request::renew(hold.names(), attempt.asked);
        self.ask(errand, Asker::Attempt(id), key, Body::Bytes(bytes), lane);
    }

    fn troubled(&mut self, id: u64, fault: Fault, granted: bool) {
        let (now, settings) = (self.now, self.settings);
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        let Some(hold) = self.holds.get(&attempt.hold) else { return };
        attempt.lane = Lane::Own;
        let longest_failure = settings.connect + settings.answer;
        let next = attempt.outage.goes_on(now, &fault, attempt.until, settings.patience, longest_failure);
        log(Level::DEBUG, || {
            let (key, fault) = (hold.key.clone(), fault.clone());
            move || debug!(lock = %String::from_utf8_lossy(&key), ?fault, "no answer")
        });
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
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        let Some(hold) = self.holds.get(&attempt.hold) else { return };
        let outcome = match (&attempt.state, attempt.trouble.take()) {
            (State::Confirming { .. } | State::Leaving | State::Withdrawing(_), _) => return,
            (State::Renewing | State::Pausing { granted: true }, trouble) => {
                Err(trouble.unwrap_or_else(Fault::timed_out).into_error(&hold.key))
            }
            (_, None) if attempt.is_behind => Ok(None),
            (_, trouble) => Err(trouble.unwrap_or_else(Fault::timed_out).into_error(&hold.key)),
        };
        self.ends(id, outcome);
    }

    fn held(&mut self, id: u64, began: Began) {
        let now = self.now;
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        let Some(hold) = self.holds.get_mut(&attempt.hold) else { return };
        let (side, token) = (attempt.terms.side, attempt.token);
        let (key, holder) = (hold.key.clone(), hold.holder.clone());
        let length = attempt.lease(hold, false, now);
        let end = |until| match attempt.terms.lease {
            Lasting::Kept(_) => End::Kept,
            // What was renewed may be longer, for what others have under this holder.
            Lasting::Fixed(length) if began.for_all => End::Fixed(vouched_until(Leased { length, ..began.lease })),
            Lasting::Fixed(_) => End::Fixed(until),
        };
        let is_first = !hold.is_vouched_for(now);
        let lease = hold.attempt_granted(side, attempt.is_doubtful(), began, end, now);
        let (hold, replicas) = (attempt.hold, attempt.terms.replicas);
        let grant = Grant { hold, key, holder, side, lease, length, token };
        log(Level::DEBUG, || {
            let Grant { key, holder, token, .. } = grant.clone();
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            move || debug!(lock = %text(&key), holder = %text(&holder), token, "acquired")
        });
        let is_kept = matches!(attempt.terms.lease, Lasting::Kept(_));
        if is_first {
            // An answer to an old renewal says nothing about this one.
            self.keep_no_more(hold);
        }
        if is_kept {
            self.keep(hold, length, began.lease);
        }
        match replicas {
            Some(replicas) => self.asks_replicas(id, grant, replicas),
            None => self.is_held(id, Ok(grant)),
        }
    }

    /// WAIT, behind a renewal on the same connection: what is confirmed then is all that came before.
    fn asks_replicas(&mut self, id: u64, grant: Grant, replicas: Replicas) {
        let Some(node) = self.route.node(&grant.key) else {
            let fault = Fault::nowhere("the server of the lock is in doubt");
            let error = fault.into_error(&grant.key);
            self.gives_back(&grant);
            return self.is_held(id, Err(error));
        };
        let lane = if self.is_quiet(node, Lane::Spare(0)) { Lane::Spare(0) } else { Lane::Spare(id) };
        let limit = replicas.timeout.saturating_add(self.settings.answer);
        let renew = request::renew((&grant.key, &grant.holder), grant.length);
        let wait = request::wait_for_replicas(replicas.wanted, replicas.timeout);
        // Both are known before either may be answered.
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        attempt.state = State::Confirming { grant, at: (node, lane), count: 0, replicas };
        let (first, second) = (self.next_id(), self.next_id());
        if let Some(Attempt { errand, state: State::Confirming { count, .. }, .. }) = self.attempts.get_mut(&id) {
            (*errand, *count) = (first, second);
        }
        for (errand, bytes) in [(first, renew), (second, wait)] {
            self.ask_node_as(errand, node, Asker::Attempt(id), bytes, lane, limit);
        }
    }

    fn confirmation(&mut self, id: u64, answer: Result<Reply, Fault>) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        let State::Confirming { grant, at, count, replicas } = &mut attempt.state else { return };
        let about = grant.key.clone();
        let (grant, (node, lane), second) = (grant.clone(), *at, std::mem::take(count));
        let Replicas { wanted, .. } = *replicas;
        let outcome = match answer {
            Err(fault) => Err(fault.into_error(&about)),
            Ok(answer) if second != 0 => match request::yes_or_no(&answer) {
                Ok(true) => {
                    attempt.errand = second;
                    return;
                }
                Ok(false) => Err(Error::new(ErrorKind::Lost, &about)),
                Err(fault) => Err(fault.into_error(&about)),
            },
            Ok(answer) => match answer.number().unwrap_or(0) {
                confirmed if confirmed >= wanted => Ok(()),
                confirmed => Err(Error::new(ErrorKind::TooFewReplicas { wanted, confirmed }, &about)),
            },
        };
        if lane != Lane::Spare(0) {
            self.close_lane(node, lane);
        }
        match outcome {
            Ok(()) => self.is_held(id, Ok(grant)),
            Err(error) => {
                self.gives_back(&grant);
                self.is_held(id, Err(error));
            }
        }
    }

    /// It is its guard's from now on, if there is one.
    fn is_held(&mut self, id: u64, outcome: Result<Grant, Error>) {
        let now = self.now;
        let Some(attempt) = self.forget_attempt(id) else { return };
        let outcome = match outcome {
            Ok(grant) if grant.lease.remaining(now).is_zero() => {
                self.gives_back(&grant);
                Err(Error::new(ErrorKind::Lost, &grant.key))
            }
            outcome => outcome,
        };
        let unheard = match attempt.tell {
            Some(tell) => tell.send(outcome.map(Some)).err(),
            None => Some(outcome.map(Some)),
        };
        if let Some(Ok(Some(grant))) = unheard {
            self.gives_back(&grant);
        }
    }

    fn gives_back(&mut self, grant: &Grant) {
        self.release(grant, Lane::Own, None);
    }

    /// Its caller waits no longer.
    pub(super) fn abandon(&mut self, id: u64) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        self.leaving += usize::from(attempt.tell.take().is_some());
        if let State::Confirming { grant, .. } = &attempt.state {
            let grant = grant.clone();
            self.gives_back(&grant);
            self.forget_attempt(id);
        } else {
            self.leaves(id);
        }
    }

    fn ends(&mut self, id: u64, outcome: Outcome) {
        if let Some(tell) = self.attempts.get_mut(&id).and_then(|attempt| attempt.tell.take()) {
            // Its caller may have gone.
            let _ = tell.send(outcome);
            self.leaving += 1;
        }
        self.leaves(id);
    }

    /// Nothing is to stay behind.
    fn leaves(&mut self, id: u64) {
        self.leave_crowd(id);
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        let is_granted = matches!(attempt.state, State::Renewing | State::Pausing { granted: true });
        if matches!(attempt.state, State::Leaving | State::Withdrawing(_)) {
            return;
        }
        let errand = std::mem::take(&mut attempt.errand);
        let is_sent = errand != 0 && !self.take_back(errand);
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        if is_granted {
            self.left(id, true);
        } else if attempt.ticket.is_some() {
            attempt.open += u32::from(is_sent);
            attempt.state = State::Withdrawing(Pause::short());
            self.cancels(id);
        } else if is_sent {
            (attempt.state, attempt.errand) = (State::Leaving, errand);
        } else {
            let doubtful = attempt.is_doubtful();
            self.left(id, doubtful);
        }
    }

    fn cancels(&mut self, id: u64) {
        let Some(ticket) = self.attempts.get(&id).and_then(|attempt| attempt.ticket.clone()) else { return };
        let bytes = ticket.cancel();
        let (errand, limit) = (self.next_id(), self.settings.answer);
        self.attempts.entry(id).and_modify(|attempt| attempt.errand = errand);
        self.ask_node_as(errand, ticket.node, Asker::Attempt(id), bytes, Lane::Own, limit);
    }

    /// The server has nothing queued of it any more.
    fn withdrawn(&mut self, id: u64, was_found: bool) {
        if let Some(ticket) = self.attempts.get_mut(&id).and_then(|attempt| attempt.ticket.take()) {
            self.waits_no_more(&ticket);
        }
        let Some(attempt) = self.attempts.get(&id) else { return };
        let (side, began) = (attempt.terms.side, attempt.began);
        let Some(hold) = self.holds.get_mut(&attempt.hold) else { return };
        // If it was found, its request has arrived, whose answer nobody has waited for.
        let is_uncertain = attempt.lost || attempt.open > 0 && !was_found;
        // The same owner has acquired the lock too, perhaps after this wait was granted it: then the server could not tell
        // whose hold is whose, and has left both.
        let is_mixed_up = hold.has_others(began);
        let is_to_be_given_back = hold.attempt_failed(side, is_uncertain || !was_found && hold.is_shared());
        let is_to_be_given_back = is_to_be_given_back || (!was_found || is_mixed_up) && hold.is_idle(side);
        let gives_back = is_to_be_given_back || is_mixed_up && hold.mark_doubtful(side);
        self.is_gone(id, gives_back);
    }

    fn left(&mut self, id: u64, doubtful: bool) {
        let Some(attempt) = self.attempts.get(&id) else { return };
        let Some(hold) = self.holds.get_mut(&attempt.hold) else { return };
        let gives_back = hold.attempt_failed(attempt.terms.side, doubtful);
        self.is_gone(id, gives_back);
    }

    fn is_gone(&mut self, id: u64, gives_back: bool) {
        let now = self.now;
        let Some(attempt) = self.attempts.get(&id) else { return };
        let (hold, side) = (attempt.hold, attempt.terms.side);
        let lease = self.holds.get(&hold).map_or(Duration::ZERO, |hold| attempt.lease(hold, false, now));
        if gives_back {
            self.give(hold, side, Extent::All, lease, None, Lane::Own, None);
        }
        self.forget_attempt(id);
    }

    fn forget_attempt(&mut self, id: u64) -> Option<Attempt> {
        self.leave_crowd(id);
        let attempt = self.attempts.remove(&id)?;
        self.leaving -= usize::from(attempt.tell.is_none());
        for (at, timer) in [(attempt.end, Timer::End(id)), (attempt.wakes_at, Timer::Attempt(id))] {
            at.map(|at| self.timers.remove(&(at, timer)));
        }
        self.leaves_hold(attempt.hold);
        Some(attempt)
    }

    fn leave_crowd(&mut self, id: u64) {
        let Some(attempt) = self.attempts.get_mut(&id) else { return };
        let (Some(waits), Some(hold)) = (attempt.crowd.take(), self.holds.get(&attempt.hold)) else { return };
        if self.crowds.get_mut(&hold.key).is_some_and(|crowd| crowd.leave(waits)) {
            self.crowds.remove(&hold.key);
        }
    }

    /// A release has ended, behind which others of its owner wait.
    pub(super) fn release_is_over(&mut self, hold: HoldId) {
        let behind = |attempt: &Attempt| attempt.hold == hold && matches!(attempt.state, State::BehindRelease);
        let waiting: Vec<_> = self.attempts.iter().filter(|(_, it)| behind(it)).map(|(id, _)| *id).collect();
        for id in waiting {
            self.asks(id);
        }
    }
}

fn is_granted(answer: &Result<Reply, Fault>) -> bool {
    match answer {
        Ok(Reply::Nil) => true,
        Ok(Reply::List(pair)) => pair.first() == Some(&Reply::Nil),
        _ => false,
    }
}

/// Those of this program that want one lock. A newcomer behind others need not try first: that would only tell what is
/// known. But it must not come before one of them that tries still, and is to wait next.
#[derive(Default)]
pub(super) struct Crowd {
    trying: usize,
    waiting: usize,
}

impl Crowd {
    /// Returns whether it is behind others, so that it need not try.
    fn join(&mut self) -> bool {
        let waits = self.trying == 0 && self.waiting > 0;
        *self.count(waits) += 1;
        waits
    }

    fn waits(&mut self) {
        self.trying -= 1;
        self.waiting += 1;
    }

    /// Returns whether nobody is left.
    fn leave(&mut self, waits: bool) -> bool {
        *self.count(waits) -= 1;
        self.trying + self.waiting == 0
    }

    fn count(&mut self, waits: bool) -> &mut usize {
        if waits { &mut self.waiting } else { &mut self.trying }
    }
}
