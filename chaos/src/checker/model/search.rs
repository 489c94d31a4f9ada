//! The search for an order: depth first, by what is answered next, and never twice from the same place.
//!
//! What was refused, or found nothing, changes nothing, so it is put where it is possible first, and never moved. That
//! does not push on the time before which nothing else can be: so it takes nothing from those that come later.

use super::state::{Event, State};
use crate::checker::spans::Spans;
use crate::history::Moment;
use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

pub enum Found {
    Order,
    NoOrder(Stuck),
    Undecided,
}

/// Where the search got furthest.
#[derive(Default)]
pub struct Stuck {
    pub explained: usize,
    /// What was put last, in that order.
    pub before: Vec<usize>,
    /// What had to come next, and could not.
    pub blocked: usize,
}

/// So many of what was put last.
const SHOWN: usize = 6;

/// `changed` is when somebody may have done anything to the lock.
pub fn search(events: &[Event], changed: &Spans<()>, budget: u64) -> Found {
    let mut search = Search {
        events,
        changed,
        open: (0..events.len()).filter(|place| events[*place].is_known()).collect(),
        doubtful: (0..events.len()).filter(|place| !events[*place].is_known()).collect(),
        put: Vec::new(),
        print: 0,
        frames: Vec::new(),
        seen: HashSet::new(),
        stuck: Stuck::default(),
    };
    search.enter(State::Free, Moment(0), 0);
    for _ in 0..budget {
        if search.open.is_empty() {
            return Found::Order;
        }
        if !search.step() {
            return Found::NoOrder(search.stuck);
        }
    }
    if search.open.is_empty() { Found::Order } else { Found::Undecided }
}

struct Search<'a> {
    /// In order of their calls.
    events: &'a [Event],
    changed: &'a Spans<()>,
    /// Those that certainly happened and are not put yet.
    open: BTreeSet<usize>,
    /// Those of which nobody knows whether they happened, and that are not put either.
    doubtful: BTreeSet<usize>,
    put: Vec<usize>,
    /// What stands for the set of all that are put.
    print: u128,
    frames: Vec<Frame>,
    seen: HashSet<(u128, State, Moment)>,
    stuck: Stuck,
}

struct Frame {
    /// How many are put below this.
    base: usize,
    choices: std::vec::IntoIter<Choice>,
}

/// Which event, if it is not only that somebody did something, and what comes of it.
struct Choice {
    event: Option<usize>,
    state: State,
    now: Moment,
}

impl Search<'_> {
    /// Tries the next choice of the latest frame, or leaves it. False when there is none left.
    fn step(&mut self) -> bool {
        let Some(frame) = self.frames.last_mut() else { return false };
        let Some(choice) = frame.choices.next() else {
            let base = frame.base;
            self.frames.pop();
            self.take_back(base);
            return !self.frames.is_empty();
        };
        let base = self.put.len();
        if let Some(event) = choice.event {
            self.put(event);
        }
        if self.seen.insert((self.print, choice.state, choice.now)) {
            self.enter(choice.state, choice.now, base);
        } else {
            self.take_back(base);
        }
        true
    }

    fn enter(&mut self, state: State, now: Moment, base: usize) {
        self.put_what_changes_nothing(state, now);
        let explained = self.put.len();
        let is_furthest = explained > self.stuck.explained || self.frames.is_empty();
        if let Some(blocked) = self.most_urgent().filter(|_| is_furthest) {
            let before = self.put[explained.saturating_sub(SHOWN)..].to_vec();
            self.stuck = Stuck { explained, before, blocked };
        }
        let choices = self.choices(state, now).into_iter();
        self.frames.push(Frame { base, choices });
    }

    fn put_what_changes_nothing(&mut self, state: State, now: Moment) {
        loop {
            let deadline = self.deadline();
            let is_allowed = |place: &usize| {
                let event = &self.events[*place];
                state.allows(event, (event.called.max(now), deadline))
            };
            let allowed: Vec<usize> = self.called_by(deadline, &self.open).filter(is_allowed).collect();
            if allowed.is_empty() {
                return;
            }
            allowed.into_iter().for_each(|event| self.put(event));
        }
    }

    /// By when they are answered: what must come soon is tried first, then what may not have happened at all.
    fn choices(&self, state: State, now: Moment) -> Vec<Choice> {
        let deadline = self.deadline();
        let mut places: Vec<usize> = self.called_by(deadline, &self.open).collect();
        places.sort_by_key(|place| self.events[*place].done);
        let mut choices = Vec::new();
        for place in places.into_iter().chain(self.called_by(deadline, &self.doubtful)) {
            let event = &self.events[place];
            let next = state.after(event, (event.called.max(now), deadline));
            choices.extend(next.into_iter().map(|(state, now)| Choice { event: Some(place), state, now }));
        }
        choices.extend(self.change(state, now, deadline));
        choices
    }

    /// As early as it can be: that leaves most to come.
    fn change(&self, state: State, now: Moment, deadline: Moment) -> Option<Choice> {
        let instant = Duration::from_nanos(1);
        let began = self.changed.touching(now - instant, deadline + instant).map(|(began, ..)| *began).min()?;
        let choice = Choice { event: None, state: State::Anything, now: now.max(began) };
        (state != State::Anything).then_some(choice)
    }

    fn put(&mut self, event: usize) {
        self.put.push(event);
        self.print ^= print(event);
        self.of_its_kind(event).remove(&event);
    }

    fn take_back(&mut self, base: usize) {
        for event in self.put.split_off(base) {
            self.print ^= print(event);
            self.of_its_kind(event).insert(event);
        }
    }

    fn of_its_kind(&mut self, event: usize) -> &mut BTreeSet<usize> {
        if self.events[event].is_known() { &mut self.open } else { &mut self.doubtful }
    }

    /// By when an open one was answered, so that it must be put before anything later.
    fn deadline(&self) -> Moment {
        self.most_urgent().map_or(Moment(u64::MAX), |place| self.events[place].done)
    }

    fn most_urgent(&self) -> Option<usize> {
        let mut urgent: Option<usize> = None;
        for &place in &self.open {
            match urgent.map(|urgent| self.events[urgent].done) {
                Some(done) if self.events[place].called > done => break,
                Some(done) if self.events[place].done >= done => {}
                _ => urgent = Some(place),
            }
        }
        urgent
    }

    /// Of these, those that were called by then, in order of their calls.
    fn called_by(&self, deadline: Moment, events: &BTreeSet<usize>) -> impl Iterator<Item = usize> {
        events.iter().copied().take_while(move |place| self.events[*place].called <= deadline)
    }
}

/// A number for each event, such that no two sets have the same when theirs are joined by XOR.
fn print(event: usize) -> u128 {
    let mut random = rlock_testing::Random::from(event as u64 ^ 0x5bd1_e995_9d1b_54a3);
    u128::from(random.draw()) << 64 | u128::from(random.draw())
}

#[cfg(test)]
mod tests {
    use super::super::state::Deed;
    use super::*;

    /// At these times, by a holder each, for 5 ms.
    fn taken(at: &[u64]) -> Vec<Event> {
        let take = |(place, at): (usize, &u64)| Event {
            place,
            holder: place,
            called: Moment(*at),
            done: Moment(*at + 1),
            deed: Deed::Take { lease_ms: 5 },
            leases: None,
        };
        at.iter().enumerate().map(take).collect()
    }

    fn found(events: &[Event], budget: u64) -> Found {
        search(events, &Spans::from(Vec::new()), budget)
    }

    #[test]
    fn what_takes_too_long_is_undecided() {
        let events = taken(&[0, 20_000_000, 40_000_000]);
        assert!(matches!(found(&events, 100), Found::Order));
        assert!(matches!(found(&events, 2), Found::Undecided));
    }

    #[test]
    fn says_what_could_not_be_next() {
        let Found::NoOrder(stuck) = found(&taken(&[0, 20_000_000, 20_000_100]), 100) else { panic!("there is none") };
        assert_eq!((stuck.explained, stuck.blocked, stuck.before), (2, 2, vec![0, 1]));
    }
}
