//! The search for an order: depth first, by what is answered next, and never twice from the same place.
//!
//! What was refused, or found nothing, changes nothing, so it is put where it is possible first, and never moved. That
//! does not push on the time before which nothing else can be: so it takes nothing from those that come later.

use super::state::{Event, State};
use crate::checker::spans::Spans;
use crate::history::Moment;
use std::collections::HashSet;
use std::time::Duration;

pub enum Found {
    Order,
    NoOrder(Stuck),
    Undecided,
}

/// Where the search got furthest.
pub struct Stuck {
    pub explained: usize,
    /// What was put last, in that order.
    pub before: Vec<usize>,
    /// What had to come next, and could not.
    pub blocked: usize,
}

/// `changed` is when somebody may have done anything to the lock.
pub fn search(events: &[Event], changed: &Spans<()>, budget: u64) -> Found {
    let mut search = Search::over(events, changed);
    let mut left = budget;
    loop {
        if search.is_done() {
            return Found::Order;
        }
        if left == 0 {
            return Found::Undecided;
        }
        left -= 1;
        if !search.step() {
            return Found::NoOrder(search.stuck);
        }
    }
}

struct Search<'a> {
    events: &'a [Event],
    changed: &'a Spans<()>,
    /// Of those that certainly happened and are not put yet.
    open: Open,
    /// Those of which nobody knows whether they happened.
    doubtful: Vec<usize>,
    is_put: Vec<bool>,
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
    choices: Vec<Choice>,
    tried: usize,
}

/// Which event, if it is not only that somebody did something, and what comes of it.
#[derive(Clone, Copy)]
struct Choice {
    event: Option<usize>,
    state: State,
    now: Moment,
}

impl<'a> Search<'a> {
    fn over(events: &'a [Event], changed: &'a Spans<()>) -> Self {
        let mut search = Self {
            events,
            changed,
            open: Open::of(events),
            doubtful: (0..events.len()).filter(|place| !events[*place].is_known()).collect(),
            is_put: vec![false; events.len()],
            put: Vec::new(),
            print: 0,
            frames: Vec::new(),
            seen: HashSet::new(),
            stuck: Stuck { explained: 0, before: Vec::new(), blocked: 0 },
        };
        search.enter(State::Free, Moment(0), 0);
        search
    }

    fn is_done(&self) -> bool {
        self.open.is_empty()
    }

    /// Tries the next choice of the latest frame, or leaves it. False when there is none left.
    fn step(&mut self) -> bool {
        let Some(frame) = self.frames.last_mut() else { return false };
        let Some(choice) = frame.choices.get(frame.tried).copied() else {
            let base = frame.base;
            self.frames.pop();
            self.take_back(base);
            return !self.frames.is_empty();
        };
        frame.tried += 1;
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
        if self.put.len() > self.stuck.explained || self.frames.is_empty() {
            self.note();
        }
        let choices = self.choices(state, now);
        self.frames.push(Frame { base, choices, tried: 0 });
    }

    fn put_what_changes_nothing(&mut self, state: State, now: Moment) {
        loop {
            let deadline = self.open.deadline(self.events);
            let allowed: Vec<usize> = self
                .open
                .until(self.events, deadline)
                .filter(|place| {
                    let event = &self.events[*place];
                    state.allows(event, (event.called.max(now), deadline))
                })
                .collect();
            if allowed.is_empty() {
                return;
            }
            for event in allowed {
                self.put(event);
            }
        }
    }

    /// By when they are answered: what must come soon is tried first, then what may not have happened at all.
    fn choices(&self, state: State, now: Moment) -> Vec<Choice> {
        let deadline = self.open.deadline(self.events);
        let mut places: Vec<usize> = self.open.until(self.events, deadline).collect();
        places.sort_by_key(|place| self.events[*place].done);
        let doubtful = self.doubtful.iter().copied().take_while(|place| self.events[*place].called <= deadline);
        let doubtful = doubtful.filter(|place| !self.is_put[*place]);
        let mut choices = Vec::new();
        for place in places.into_iter().chain(doubtful) {
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
        self.is_put[event] = true;
        self.put.push(event);
        self.print ^= print(event);
        if self.events[event].is_known() {
            self.open.take(event);
        }
    }

    fn take_back(&mut self, base: usize) {
        while self.put.len() > base {
            let event = self.put.pop().expect("there are more than that");
            self.is_put[event] = false;
            self.print ^= print(event);
            if self.events[event].is_known() {
                self.open.give_back(event);
            }
        }
    }

    fn note(&mut self) {
        if let Some(blocked) = self.open.most_urgent(self.events) {
            let latest = self.put.len().saturating_sub(20);
            self.stuck = Stuck { explained: self.put.len(), before: self.put[latest..].to_vec(), blocked };
        }
    }
}

/// A number for each event, such that no two sets have the same when theirs are joined by XOR.
fn print(event: usize) -> u128 {
    let mut random = rlock_testing::Random::from(event as u64 ^ 0x5bd1_e995_9d1b_54a3);
    u128::from(random.draw()) << 64 | u128::from(random.draw())
}

/// A list from which any can be taken, and given back in the reverse order, in no time.
struct Open {
    next: Vec<usize>,
    previous: Vec<usize>,
    /// The list's place before its first, and behind its last.
    border: usize,
}

impl Open {
    fn of(events: &[Event]) -> Self {
        let border = events.len();
        let mut open = Self { next: vec![border; border + 1], previous: vec![border; border + 1], border };
        for place in (0..border).filter(|place| events[*place].is_known()) {
            let last = open.previous[border];
            open.next[last] = place;
            open.previous[place] = last;
            open.next[place] = border;
            open.previous[border] = place;
        }
        open
    }

    fn is_empty(&self) -> bool {
        self.next[self.border] == self.border
    }

    fn take(&mut self, place: usize) {
        let (previous, next) = (self.previous[place], self.next[place]);
        self.next[previous] = next;
        self.previous[next] = previous;
    }

    fn give_back(&mut self, place: usize) {
        let (previous, next) = (self.previous[place], self.next[place]);
        self.next[previous] = place;
        self.previous[next] = place;
    }

    /// By when one of them was answered, so that it must be put before anything later.
    fn deadline(&self, events: &[Event]) -> Moment {
        self.most_urgent(events).map_or(Moment(u64::MAX), |place| events[place].done)
    }

    fn most_urgent(&self, events: &[Event]) -> Option<usize> {
        let mut urgent: Option<usize> = None;
        let mut place = self.next[self.border];
        while place != self.border && urgent.is_none_or(|urgent| events[place].called <= events[urgent].done) {
            if urgent.is_none_or(|urgent| events[place].done < events[urgent].done) {
                urgent = Some(place);
            }
            place = self.next[place];
        }
        urgent
    }

    /// Those that were called by then, in order of their calls.
    fn until<'s>(&'s self, events: &'s [Event], deadline: Moment) -> impl Iterator<Item = usize> + 's {
        let behind = |place: usize| Some(place).filter(|place| *place != self.border);
        std::iter::successors(behind(self.next[self.border]), move |place| behind(self.next[*place]))
            .take_while(move |place| events[*place].called <= deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::super::state::Deed;
    use super::*;

    /// At these times, by a holder each, for 5 ms.
    fn taken(at: &[u64]) -> Vec<Event> {
        let take = |(place, at): (usize, &u64)| Event {
            place,
            holder: u32::try_from(place).expect("a few"),
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
