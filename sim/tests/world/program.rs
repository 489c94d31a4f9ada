//! A program with the shipped client: what its callers want, what they have, and what was reported to them.

use crate::clock::Clock;
use crate::server::{Name, text};
use crate::world::{LIMIT, PERMITS, READ, WRITE, names};
use rlock_client_core::{
    Aim, Answer, Answering, CallerId, Engine, Error, Event, Grant, GuardId, Lane, Lasting, Loss, Replicas, Settings,
    Side, Standing, Terms, Until, Wish,
};
use std::collections::BTreeMap;
use std::iter;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    pub what: usize,
    pub owner: Option<u64>,
    pub lease: Duration,
    pub is_kept: bool,
    /// None: until it is granted. Zero: without waiting.
    pub within: Option<Duration>,
    pub fenced: bool,
    pub callers_lane: bool,
    /// Whether a replica must confirm the lock.
    pub confirmed: bool,
    /// Whether it wants the answer, or else the lead under which the answer is made.
    pub once: bool,
}

impl Wanted {
    pub fn of(what: usize) -> Self {
        let (owner, within, lease) = (None, None, Duration::from_secs(6));
        let (fenced, callers_lane, confirmed, once) = (false, false, false, false);
        Self { what, owner, lease, is_kept: true, within, fenced, callers_lane, confirmed, once }
    }
}

pub struct Caller {
    pub wanted: Wanted,
    pub holder: Name,
    /// By when it must get an answer.
    pub by: Option<Instant>,
}

pub struct Guard {
    pub grant: Grant,
    pub key: Name,
    pub holder: Name,
    pub is_named: bool,
    pub is_kept: bool,
    pub is_confirmed: bool,
    /// Its caller does the work for an answer.
    pub is_lead: bool,
    pub side: Side,
    /// Until when it was known to hold, when that was last checked.
    pub until: Option<Instant>,
    /// The server that replied so.
    pub backed_by: usize,
    pub is_lost: bool,
}

/// What the engine has reported about a guard.
struct Lease {
    until: Instant,
    lost: Option<Loss>,
}

pub struct Releasing {
    caller: CallerId,
    pub key: Name,
    pub holder: Name,
    pub is_named: bool,
    pub is_kept: bool,
    pub released_before: u64,
    pub was_known_to_hold: bool,
    /// The answer that is stored with the release.
    pub answer: Option<Name>,
}

pub struct Program {
    pub number: usize,
    pub is_dead: bool,
    pub engine: Engine,
    pub clock: Clock,
    base: Instant,
    pub settings: Settings,
    pub attempts: BTreeMap<u64, Caller>,
    pub guards: BTreeMap<u64, Guard>,
    pub releases: Vec<Releasing>,
    settles: Vec<CallerId>,
    answers: BTreeMap<CallerId, Answer>,
    leases: BTreeMap<GuardId, Lease>,
    callers: u64,
    /// Where the master is, as far as it knows.
    pub believed_master: usize,
    /// The time limit of the look-up that is under way.
    pub looks_by: Option<Duration>,
    /// The grants in their order: the locks, and the holder.
    pub granted: Vec<(Name, Name)>,
    pub answered: Vec<Name>,
    pub refused: Vec<Option<Error>>,
    pub released: Vec<Result<(), Error>>,
}

/// Something that a caller has learnt.
pub enum Heard {
    Granted { guards: Vec<u64> },
    Answered { key: &'static str, value: Name },
    Refused { by: Option<Instant>, until_granted: bool, error: Option<Error> },
    Released(Releasing, Result<(), Error>),
}

/// If several locks are granted together, the numbers of their guards differ by this.
const NEXT_OF_SEVERAL: u64 = 1_000_000;

/// Callers that are not attempts are numbered from here on.
const CALLERS: CallerId = 1_000_000_000;

impl Program {
    pub fn new(number: usize, clock: Clock, engine: impl FnOnce(Settings, String, Instant) -> Engine) -> Self {
        let base = Instant::now() + Duration::from_secs(1_000);
        let settings = Settings { idle: Duration::from_secs(2), ..Settings::default() };
        let (attempts, guards, releases, settles, answers, leases) = Default::default();
        let (granted, answered, refused, released) = Default::default();
        Self {
            number,
            is_dead: false,
            engine: engine(settings, format!("session-of-program-{number}"), base),
            clock,
            base,
            settings,
            attempts,
            guards,
            releases,
            settles,
            answers,
            leases,
            callers: 0,
            believed_master: 0,
            looks_by: None,
            granted,
            answered,
            refused,
            released,
        }
    }

    pub fn now(&self, at: Duration) -> Instant {
        self.base + self.clock.steady(at)
    }

    /// When the engine is to be woken.
    pub fn next(&self) -> Option<Duration> {
        self.engine.next().map(|at| self.clock.reaches(at.saturating_duration_since(self.base)))
    }

    /// `id`: a number that no other attempt of any program has.
    pub fn acquire(&mut self, id: u64, wanted: Wanted, at: Duration) -> Event<'static> {
        let now = self.now(at);
        let mut keys = names(wanted.what).iter().map(|name| Arc::from(name.as_bytes()));
        let key: Arc<[u8]> = keys.next().expect("one at least");
        // Each program has its own owners: two owners with the same name would share a hold.
        let holder = match wanted.owner {
            None => format!("holder-{id}"),
            Some(owner) => format!("owner-{}-{owner}", self.number),
        };
        let until = match wanted.within {
            None => Until::Granted,
            Some(Duration::ZERO) => Until::Now,
            Some(within) => Until::Time(now + within),
        };
        let lease = if wanted.is_kept { Lasting::Kept(wanted.lease) } else { Lasting::Fixed(wanted.lease) };
        let replicas = wanted.confirmed.then_some(Replicas { wanted: 1, timeout: Duration::from_millis(300) });
        let permits = (wanted.what == PERMITS).then_some(LIMIT);
        let terms = Terms { side: side(wanted.what), permits, max: None, lease, fenced: wanted.fenced, replicas };
        let by = match wanted.within {
            None => None,
            Some(Duration::ZERO) => Some(now + self.settings.answer),
            // The server's reply that the time is up may take a moment.
            Some(within) => Some(now + within + Duration::from_millis(5)),
        };
        let lane = if wanted.callers_lane { Lane::Caller(0) } else { Lane::Own };
        let (named, more) = (wanted.owner.is_some(), keys.collect());
        let aim = if wanted.once { Aim::Answer } else { Aim::Lock };
        let wish = Wish { aim, key, more, holder: Arc::from(holder.clone().into_bytes()), named, terms, until };
        self.attempts.insert(id, Caller { wanted, holder, by });
        Event::Acquire { caller: id, wish, lane }
    }

    /// Does what a future does when it is dropped.
    pub fn abandon(&mut self, id: u64) -> Option<Event<'static>> {
        self.attempts.remove(&id).map(|_| Event::Abandon(id))
    }

    pub fn release(
        &mut self,
        guard: u64,
        is_awaited: bool,
        released_before: u64,
        at: Duration,
    ) -> Option<Event<'static>> {
        let Guard { grant, key, holder, is_named, is_kept, .. } = self.guards.remove(&guard)?;
        let was_known_to_hold = !self.left(&grant, at).is_zero();
        self.leases.remove(&grant.guard);
        let caller = is_awaited.then(|| self.caller());
        if let Some(caller) = caller {
            self.releases.push(Releasing {
                caller,
                key,
                holder,
                is_named,
                is_kept,
                released_before,
                was_known_to_hold,
                answer: None,
            });
        }
        Some(Event::Release { grant, lane: Lane::Own, caller })
    }

    /// The work under a lead has ended: with an answer that no other leader makes.
    pub fn answer(&mut self, guard: u64, keep: Duration, released_before: u64, at: Duration) -> Option<Event<'static>> {
        let Event::Release { grant, lane, caller: Some(caller) } = self.release(guard, true, released_before, at)?
        else {
            return None;
        };
        let releasing = self.releases.last_mut()?;
        let answer = answer_of(&releasing.holder);
        let answering = Answering { value: Arc::from(answer.as_bytes()), keep };
        releasing.answer = Some(answer);
        Some(Event::Answer { grant, answering, lane, caller })
    }

    /// It takes no further step, and nothing is heard of it any more.
    pub fn dies(&mut self) {
        self.is_dead = true;
        self.looks_by = None;
        self.attempts.clear();
        self.guards.clear();
        self.releases.clear();
        self.settles.clear();
        self.answers.clear();
        self.leases.clear();
    }

    pub fn settle(&mut self) -> Event<'static> {
        let caller = self.caller();
        self.settles.push(caller);
        Event::Settle(caller)
    }

    pub fn is_settled(&self) -> bool {
        self.settles.is_empty()
    }

    fn caller(&mut self) -> CallerId {
        self.callers += 1;
        CALLERS + self.callers
    }

    /// For how long a guard is known to hold, as far as its caller knows.
    pub fn left(&self, grant: &Grant, at: Duration) -> Duration {
        let lease = self.leases.get(&grant.guard).filter(|lease| lease.lost.is_none());
        lease.map_or(Duration::ZERO, |lease| lease.until.saturating_duration_since(self.now(at)))
    }

    pub fn is_notified_of_loss(&self, grant: &Grant) -> bool {
        self.leases.get(&grant.guard).is_some_and(|lease| lease.lost.is_some())
    }

    pub fn notified(&mut self, caller: CallerId, answer: Answer) {
        if let Answer::Acquired(Ok(Some(grant))) = &answer {
            let began = |it: &Grant| (it.guard, Lease { until: it.until, lost: None });
            self.leases.extend(grant.all().map(began));
        }
        assert!(self.answers.insert(caller, answer).is_none(), "{caller} is answered twice");
    }

    pub fn stands(&mut self, guard: GuardId, standing: Standing) {
        let Some(lease) = self.leases.get_mut(&guard) else { return };
        match standing {
            Standing::Until(until) => lease.until = until,
            Standing::Troubled(_) => {}
            Standing::Lost(loss) => lease.lost = Some(loss),
        }
    }

    /// The answers that callers got since the last call. `from`: the server of the last reply.
    pub fn hears(&mut self, from: usize) -> Vec<Heard> {
        let mut heard = Vec::new();
        for (id, answer) in std::mem::take(&mut self.answers) {
            match answer {
                Answer::Acquired(outcome) => heard.push(self.hears_outcome(id, outcome, from)),
                Answer::Released(result) => {
                    if let Some(place) = self.releases.iter().position(|it| it.caller == id) {
                        heard.push(Heard::Released(self.releases.remove(place), result));
                    }
                }
                Answer::Answered(value) => {
                    let caller = self.attempts.remove(&id).unwrap_or_else(|| panic!("{id} is answered, and has gone"));
                    heard.push(Heard::Answered { key: names(caller.wanted.what)[0], value: text(&value) });
                }
                Answer::Replied(_) => self.settles.retain(|caller| *caller != id),
            }
        }
        heard
    }

    fn hears_outcome(&mut self, id: u64, outcome: rlock_client_core::Outcome, from: usize) -> Heard {
        let Some(Caller { wanted, holder, by }) = self.attempts.remove(&id) else {
            panic!("{id} is answered, and has gone");
        };
        let refused = |error| Heard::Refused { by, until_granted: wanted.within.is_none(), error };
        let mut grant = match outcome {
            Ok(Some(grant)) => grant,
            Ok(None) => return refused(None),
            Err(error) => return refused(Some(error)),
        };
        let keys = names(wanted.what);
        self.granted.push((keys.join("+"), holder.clone()));
        let more = std::mem::take(&mut grant.more);
        assert_eq!(more.len() + 1, keys.len(), "all are granted");
        let mut guards = Vec::new();
        for (number, (key, grant)) in (0..).zip(keys.iter().zip(iter::once(grant).chain(more))) {
            assert_eq!(grant.token.is_some(), wanted.fenced, "{key} has {:?}", grant.token);
            let guard = Guard {
                key: (*key).to_owned(),
                holder: holder.clone(),
                is_named: wanted.owner.is_some(),
                is_kept: wanted.is_kept,
                is_confirmed: wanted.confirmed,
                is_lead: wanted.once,
                side: side(wanted.what),
                grant,
                until: None,
                backed_by: from,
                is_lost: false,
            };
            guards.push(id + number * NEXT_OF_SEVERAL);
            self.guards.insert(id + number * NEXT_OF_SEVERAL, guard);
        }
        Heard::Granted { guards }
    }

    /// The visible state: if it is the same after two histories, both can go on in the same ways.
    pub fn seen(&self, at: Duration) -> String {
        let guards: Vec<_> = self.guards.iter().map(|(id, it)| (*id, self.left(&it.grant, at))).collect();
        let attempts: Vec<_> = self.attempts.keys().collect();
        let notified =
            (self.granted.len(), self.answered.len(), self.refused.len(), self.released.len(), self.releases.len());
        format!("{guards:?} {attempts:?} {notified:?} {:?} {:?}", self.engine.kept(), self.engine.due(self.now(at)))
    }
}

pub fn answer_of(holder: &str) -> Name {
    format!("answer-of-{holder}")
}

fn side(what: usize) -> Side {
    match what {
        READ => Side::Read,
        WRITE => Side::Write,
        _ => Side::Plain,
    }
}
