//! When a grace runs, by a clock that nobody sets: a wall clock that is put forward would end it too soon.
//!
//! It begins with the first thing that a server does once it can serve, not while it still loads its data. When it is
//! over, all locks are looked at, in the turns of the server, and each goes to the waiter whose turn it is. That may be one
//! who has the lock already, behind others who wait for it in vain; so those are noted.

use super::agenda::{Deferral, Reentry};
use super::engine::Engine;
use super::host::{GraceNews, Host};
use super::queue::LockId;
use super::waiter::Names;
use crate::lock::{Grace, UnixMs};
use std::collections::BTreeSet;

/// With fewer entries, removing those of dropped locks is not worth the work.
const FEW: usize = 64;

#[derive(Debug, Default)]
pub(super) struct GraceClock {
    begun: Begun,
    /// Whether it was told that one runs.
    is_told: bool,
    /// Those who wait for a lock that is theirs already.
    reentries: BTreeSet<Deferral>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Begun {
    #[default]
    No,
    /// As soon as the server can serve.
    AtOnce,
    /// By the clock that nobody sets; from the next ms on, so that no part of one is missing at the end.
    Since(i64),
}

impl GraceClock {
    /// Whether nothing runs, and nothing is to be told.
    #[inline]
    fn is_idle(&self) -> bool {
        self.begun == Begun::No && !self.is_told
    }

    fn left_ms(&self, length_ms: i64, steady_ms: i64) -> i64 {
        match self.begun {
            Begun::No => 0,
            Begun::AtOnce => length_ms,
            Begun::Since(since) => length_ms.saturating_sub(steady_ms.saturating_sub(since).max(0)).max(0),
        }
    }

    /// What is left; one that is over, or that was set to nothing, is no more.
    fn look(&mut self, length_ms: i64, steady_ms: i64) -> i64 {
        let left_ms = self.left_ms(length_ms, steady_ms);
        match self.begun {
            _ if left_ms == 0 => self.begun = Begun::No,
            Begun::AtOnce => self.begun = Begun::Since(steady_ms.saturating_add(1)),
            Begun::No | Begun::Since(_) => {}
        }
        left_ms
    }
}

impl<C> Engine<C> {
    /// This server was started, or has become a master: a grace begins, from its beginning if one runs already.
    pub fn begin_grace(&mut self) {
        // Those who wait for a lock that is theirs already are let in when this one is over.
        self.grace.begun = Begun::AtOnce;
        self.grace.is_told = false;
    }

    /// This server is a replica now.
    pub(super) fn end_grace(&mut self) {
        self.grace.begun = Begun::No;
        self.grace.reentries.clear();
    }

    /// The grace as it is now.
    #[inline]
    pub(super) fn grace<H: Host<Client = C>>(&mut self, host: &H) -> Grace {
        let length_ms = host.grace_ms();
        let left_ms = if self.grace.is_idle() { 0 } else { self.look_at_grace(host) };
        Grace { length_ms, left_ms }
    }

    /// Notes whether the grace is over, and returns what is left.
    pub fn look_at_grace<H: Host<Client = C>>(&mut self, host: &H) -> i64 {
        let left_ms = self.grace.look(host.grace_ms(), host.steady_ms());
        let runs = left_ms > 0;
        if runs != std::mem::replace(&mut self.grace.is_told, runs) {
            host.tell_grace(if runs { GraceNews::Begins { left_ms } } else { GraceNews::IsOver });
            if !runs {
                self.database_changed(None);
                let reentries = std::mem::take(&mut self.grace.reentries).into_iter();
                let reentries = reentries.map(|Deferral { lock, holder }| Reentry { lock, holder, after: None });
                self.agenda.reentries.extend(reentries);
            }
        }
        left_ms
    }

    /// Whether a grace runs, or is to begin, or is over and that is not told.
    #[must_use]
    pub fn has_news_of_grace(&self) -> bool {
        !self.grace.is_idle()
    }

    /// What is left of the grace, for those who look on: 1 until it is noted that it is over, as until then a longer one
    /// may be set.
    #[must_use]
    pub fn grace_left_ms(&self, length_ms: i64, steady_ms: i64) -> i64 {
        let least_ms = i64::from(self.grace.begun != Begun::No && length_ms > 0);
        self.grace.left_ms(length_ms, steady_ms).max(least_ms)
    }

    /// When something is to be done next, be it that the grace begins or is over. A time that has long passed means at once.
    #[must_use]
    pub fn wakes_next_at<H: Host<Client = C>>(&self, host: &H) -> Option<UnixMs> {
        let now = host.now();
        let of_grace = match self.grace.begun {
            Begun::No => self.grace.is_told.then_some(UnixMs::MIN),
            Begun::AtOnce => Some(UnixMs::MIN),
            Begun::Since(_) => Some(now.saturating_add(self.grace.left_ms(host.grace_ms(), host.steady_ms()))),
        };
        [self.wakes_at(now), of_grace].into_iter().flatten().min()
    }

    /// Notes that only the grace keeps a waiter from a lock that its holder has.
    pub(super) fn reenters_after_grace(&mut self, lock: LockId, holder: Names) {
        let Self { grace, queues, .. } = self;
        grace.reentries.insert(Deferral { lock, holder });
        if grace.reentries.len() > FEW && grace.reentries.len() / 2 > queues.length() {
            grace.reentries.retain(|reentry| queues.name(reentry.lock).is_some());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_from_when_the_server_can_serve() {
        let mut clock = GraceClock { begun: Begun::AtOnce, ..GraceClock::default() };
        assert_eq!(clock.left_ms(100, 5_000), 100, "it has not begun");
        assert_eq!(clock.look(100, 9_000), 100);
        assert_eq!([9_000, 9_001, 9_100, 9_101].map(|now| clock.look(100, now)), [100, 100, 1, 0]);
        assert_eq!(clock.look(100_000, 9_101), 0, "one that is over does not come back");
    }

    #[test]
    fn its_length_is_what_is_set_now_and_nothing_ends_it_for_good() {
        let mut clock = GraceClock { begun: Begun::Since(1_000), ..GraceClock::default() };
        assert_eq!(
            [(100, 1_010), (500, 1_010), (50, 1_010)].map(|(length, now)| clock.look(length, now)),
            [90, 490, 40]
        );
        assert_eq!((clock.look(0, 1_010), clock.look(500, 1_010)), (0, 0));
    }

    #[test]
    fn one_that_is_over_is_told_of_until_it_is_noted() {
        let mut engine = Engine::<()>::default();
        engine.grace.begun = Begun::Since(1_000);
        assert_eq!([1_099, 1_100, 9_000].map(|now| engine.grace_left_ms(100, now)), [1, 1, 1]);
        assert_eq!(engine.grace_left_ms(0, 9_000), 0, "set to nothing there is none");
        engine.grace.look(100, 9_000);
        assert_eq!(engine.grace_left_ms(100_000, 9_000), 0);
    }
}
