//! When a grace runs, by a monotonic clock: a wall clock that is set forward would end it too soon.

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
    /// As soon as the server can serve.
    AtOnce,
    /// By the monotonic clock; from the next ms on, so that no part of one is missing at the end.
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
}
