//! What a plain lock may answer, and what becomes of it: as little as is certain. Where the true lock had one state at
//! one moment, this one has a span for when the lease ends, so whatever the true one does is allowed here too.

use crate::history::{Answer, Moment, Operation, Request};
use std::time::Duration;

/// How much earlier than its ms a lease may end by our clock, and how much later something may still find it there.
const EARLY: Duration = Duration::from_millis(2);
const LATE: Duration = Duration::from_millis(10);
/// What is left of a lease was measured in ms, by a clock that stands still for a while.
const LEFT_ROUGHNESS: Duration = Duration::from_millis(5);

pub struct Event {
    /// Which step it is of.
    pub place: usize,
    /// A number that nobody else has.
    pub holder: usize,
    pub called: Moment,
    /// The end of time, if nobody knows whether it was done at all.
    pub done: Moment,
    pub deed: Deed,
    /// Of a holder that uses scripts: the shortest lease and the longest.
    pub leases: Option<(u64, u64)>,
}

#[derive(Clone, Copy)]
pub enum Deed {
    /// It has the lock, or has it once more.
    Take { lease_ms: u64 },
    /// By a script: somebody else has it, for so long still.
    RefusedScript { left_ms: i64 },
    /// Its lease begins anew.
    Renew { lease_ms: u64 },
    /// One hold is given back, and others are left.
    GiveOne,
    /// All holds that there were are given back.
    GiveLast { all: bool },
    /// It was refused by a command, or had nothing to renew or to give back.
    Denied,
    /// No lock answers like that.
    Impossible,
    /// Of which nobody knows how many were left.
    GiveUnknown { all: bool },
}

impl Deed {
    pub fn of(step: &Operation) -> Option<Self> {
        let deed = match (&step.call.request, step.known_answer()) {
            _ if step.failed() => return None,
            (Request::Acquire { lease_ms, .. }, None | Some(Answer::Granted { .. } | Answer::Failed(_))) => {
                Self::Take { lease_ms: *lease_ms }
            }
            (Request::Acquire { by_script: true, .. }, Some(Answer::Refused { left_ms })) => {
                Self::RefusedScript { left_ms: *left_ms }
            }
            (Request::Acquire { .. }, Some(Answer::Refused { .. })) => Self::Denied,
            (Request::Renew { lease_ms }, None | Some(Answer::Renewed(true))) => Self::Renew { lease_ms: *lease_ms },
            (Request::Renew { .. }, Some(Answer::Renewed(false))) => Self::Denied,
            (Request::Release { .. }, Some(Answer::Released(None))) => Self::Denied,
            // There is nobody else in a plain lock, for whom something could be left.
            (Request::Release { all: true, .. }, Some(Answer::Released(Some(0)))) => Self::Impossible,
            (Request::Release { .. }, Some(Answer::Released(Some(0)))) => Self::GiveOne,
            (Request::Release { all, .. }, Some(Answer::Released(Some(_)))) => Self::GiveLast { all: *all },
            (Request::Release { all, .. }, None) => Self::GiveUnknown { all: *all },
            _ => return None,
        };
        Some(deed)
    }
}

impl Event {
    pub fn is_known(&self) -> bool {
        self.done != Moment(u64::MAX)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    Free,
    Held(Hold),
    /// Somebody has done something to it.
    Anything,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hold {
    holder: usize,
    count: u32,
    /// When its lease ends, at the earliest and at the latest.
    ends: (Moment, Moment),
}

/// When something is done: not before and not after these.
pub type Span = (Moment, Moment);

/// A state that may follow, and when at the earliest. At most three.
pub type Next = (State, Moment);

impl State {
    /// Whether it may answer like that and stay as it is.
    pub fn allows(&self, event: &Event, at: Span) -> bool {
        match (event.deed, self) {
            // A command is refused wherever somebody waits, but never re-entry.
            (Deed::Denied, _) => !self.is_surely_held_by(event.holder, at),
            (Deed::RefusedScript { .. }, Self::Anything) => true,
            (Deed::RefusedScript { left_ms }, Self::Held(hold)) => {
                hold.holder != event.holder && hold.may_last(at) && hold.may_have_left(left_ms, at)
            }
            _ => false,
        }
    }

    /// What may become of it.
    pub fn after(&self, event: &Event, at: Span) -> Vec<Next> {
        let own = |hold: &Hold| hold.holder == event.holder && hold.may_last(at);
        match (event.deed, self) {
            (Deed::Take { lease_ms }, _) => self.taken(event.holder, lease_ms, at),
            (Deed::Renew { lease_ms }, Self::Held(hold)) if own(hold) => {
                vec![(Self::Held(hold.renewed(lease_ms, at)), at.0)]
            }
            (Deed::GiveLast { all } | Deed::GiveUnknown { all }, Self::Held(hold))
                if own(hold) && (all || hold.count == 1) =>
            {
                vec![(Self::Free, at.0)]
            }
            (Deed::GiveOne | Deed::GiveUnknown { .. }, Self::Held(hold)) if own(hold) && hold.count > 1 => {
                vec![(Self::Held(hold.given_one(event, at)), at.0)]
            }
            (Deed::Renew { .. } | Deed::GiveOne, Self::Anything) => vec![(Self::Anything, at.0)],
            (Deed::GiveLast { .. }, Self::Anything) => vec![(Self::Free, at.0)],
            _ => Vec::new(),
        }
    }

    fn taken(&self, holder: usize, lease_ms: u64, at: Span) -> Vec<Next> {
        let fresh = |from: Moment| {
            let ends = ends((from, at.1), lease_ms);
            (Self::Held(Hold { holder, count: 1, ends }), from)
        };
        match self {
            Self::Free => vec![fresh(at.0)],
            Self::Anything => vec![fresh(at.0), (Self::Anything, at.0)],
            Self::Held(hold) => {
                let mut next = Vec::new();
                if hold.holder == holder && hold.may_last(at) {
                    let again = hold.renewed(lease_ms, at);
                    next.push((Self::Held(Hold { count: hold.count + 1, ..again }), at.0));
                }
                let over = at.0.max(hold.ends.0 - EARLY);
                if over <= at.1 {
                    next.push(fresh(over));
                }
                next
            }
        }
    }

    fn is_surely_held_by(&self, holder: usize, at: Span) -> bool {
        matches!(self, Self::Held(hold) if hold.holder == holder && at.1 < hold.ends.0 - EARLY)
    }
}

impl Hold {
    fn may_last(&self, at: Span) -> bool {
        at.0 <= self.ends.1 + LATE
    }

    fn may_have_left(&self, left_ms: i64, at: Span) -> bool {
        let Ok(left) = u64::try_from(left_ms) else { return false };
        let left = Duration::from_millis(left);
        let (least, most) = (self.ends.0.since(at.1 + LEFT_ROUGHNESS), self.ends.1.since(at.0) + LEFT_ROUGHNESS);
        least <= left && left <= most
    }

    fn renewed(self, lease_ms: u64, at: Span) -> Self {
        let latest = at.1.min(self.ends.1 + LATE);
        Self { ends: ends((at.0, latest), lease_ms), ..self }
    }

    fn given_one(self, event: &Event, at: Span) -> Self {
        let mut left = Self { count: self.count - 1, ..self };
        if let Some((shortest, longest)) = event.leases {
            left.ends.0 = left.ends.0.min(at.0 + Duration::from_millis(shortest));
            left.ends.1 = left.ends.1.max(at.1 + Duration::from_millis(longest));
        }
        left
    }
}

fn ends((from, until): Span, lease_ms: u64) -> Span {
    let lease = Duration::from_millis(lease_ms);
    (from + lease, until + lease)
}
