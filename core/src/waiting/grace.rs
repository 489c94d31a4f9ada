//! The grace of this server: when it runs, and which waiters are served at its end.
//!
//! It begins with the first thing that a server does once it can serve, not while it still loads its data. It goes by a
//! monotonic clock: a wall clock that is set forward would end it too soon. When it is over, all locks are checked, in the turns
//! of the server, and each goes to its first waiter.

use super::engine::Engine;
use super::host::{GraceNews, Host};
use crate::lock::{Grace, UnixMs};

#[derive(Debug, Default)]
pub(super) struct GraceClock {
    pub begun: Begun,
    /// Whether its beginning was reported.
    pub is_told: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Begun {
    #[default]
    No,
    /// It begins as soon as the server can serve.
    AtOnce,
    /// It began at this time of the monotonic clock: the next ms, so that no part of a ms is missing at the end.
    Since(i64),
}

impl GraceClock {
    pub fn left_ms(&self, length_ms: i64, steady_ms: i64) -> i64 {
        match self.begun {
            Begun::No => 0,
            Begun::AtOnce => length_ms,
            Begun::Since(since) => length_ms.saturating_sub(steady_ms.saturating_sub(since).max(0)).max(0),
        }
    }

    /// The ms left; a grace that is over, or whose length was set to 0, is forgotten.
    pub fn look(&mut self, length_ms: i64, steady_ms: i64) -> i64 {
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
    /// This server was started, or has become a master: a grace begins, or begins again if one runs already.
    pub fn begin_grace(&mut self) {
        self.grace.begun = Begun::AtOnce;
        self.grace.is_told = false;
    }

    /// The grace as it is now.
    #[inline]
    pub(super) fn grace<H: Host<Client = C>>(&mut self, host: &H) -> Grace {
        let length_ms = host.grace_ms();
        let left_ms = if self.grace.begun == Begun::No { 0 } else { self.look_at_grace(host) };
        Grace { length_ms, left_ms }
    }

    /// Notes whether the grace is over, and returns the ms left.
    pub fn look_at_grace<H: Host<Client = C>>(&mut self, host: &H) -> i64 {
        let ran = self.grace.begun != Begun::No;
        let left_ms = self.grace.look(host.grace_ms(), host.steady_ms());
        if ran && left_ms == 0 {
            self.all_changed();
        }
        left_ms
    }

    /// What has become of the grace since the last call.
    pub fn take_grace_news<H: Host<Client = C>>(&mut self, host: &H) -> Option<GraceNews> {
        let runs = matches!(self.grace.begun, Begun::Since(_));
        let is_news = runs != std::mem::replace(&mut self.grace.is_told, runs);
        let left_ms = || self.grace.left_ms(host.grace_ms(), host.steady_ms());
        is_news.then(|| if runs { GraceNews::Begins { left_ms: left_ms() } } else { GraceNews::IsOver })
    }

    /// Whether a grace runs, is to begin, or is over without a report.
    #[must_use]
    pub fn has_news_of_grace(&self) -> bool {
        self.grace.is_told || self.grace.begun != Begun::No
    }

    /// The ms left of the grace, for INFO and INSPECT: at least 1 until its end is noted. Until then a longer one may be set.
    #[must_use]
    pub fn grace_left_ms(&self, length_ms: i64, steady_ms: i64) -> i64 {
        let least_ms = i64::from(self.grace.begun != Begun::No && length_ms > 0);
        self.grace.left_ms(length_ms, steady_ms).max(least_ms)
    }

    /// When the engine has something to do next, the beginning or end of a grace included. A time in the past means at once.
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_over_is_told_of_until_it_is_noted() {
        let mut engine = Engine::<()>::default();
        engine.grace.begun = Begun::Since(1_000);
        assert_eq!([1_099, 1_100, 9_000].map(|now| engine.grace_left_ms(100, now)), [1, 1, 1]);
        assert_eq!(engine.grace_left_ms(0, 9_000), 0, "set to nothing there is none");
        engine.grace.look(100, 9_000);
        assert_eq!(engine.grace_left_ms(100_000, 9_000), 0);
    }

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
}
