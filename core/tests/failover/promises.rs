//! What must hold in each state.

use super::protocol::{Action, Rules, State};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// Two are never certain at one time that they have the lock.
    OneHolder,
    /// A token is larger than all that were given before it.
    TokensGrow,
    /// Whoever is certain of a confirmed lease is its holder at the master too, for as long: a renewal there succeeds.
    ConfirmedIsKept,
    /// When nothing fails any more, somebody gets the lock.
    LocksGoOn,
}

impl Rules {
    pub fn broken_in(&self, state: &State) -> Option<Promise> {
        let master = &state.servers[state.current];
        let is_kept = |(place, believes): (usize, u8)| {
            believes == 0 || master.lock.is_some_and(|lock| lock.holder == place && lock.left >= believes)
        };
        let believed = state.clients.map(|client| client.believes);
        let promises = [
            (Promise::OneHolder, believed.contains(&0)),
            (Promise::TokensGrow, !state.is_token_old),
            (Promise::ConfirmedIsKept, !self.confirmed || believed.into_iter().enumerate().all(is_kept)),
            // Neither tokens nor confirmations keep anybody out.
            (Promise::LocksGoOn, self.fenced.is_some() || self.confirmed || self.goes_on(*state)),
        ];
        promises.into_iter().find(|(_, holds)| !holds).map(|(promise, _)| promise)
    }

    /// All servers run and are linked, both clients are done, and one asks again and again.
    fn goes_on(&self, mut state: State) -> bool {
        use Action::{Acknowledge, Answer, Ask, Follow, GiveUp, Join, Release, Restart, Thaw, Tick};
        let mut take = |action| state = self.after(state, action).unwrap_or(state);
        for one in 0..2 {
            for action in [Restart { server: one, keeps: true }, Thaw(one), Join(one), Release(one), GiveUp(one)] {
                take(action);
            }
        }
        take(Follow);
        let current = state.current;
        (0..=self.grace + self.lease + self.lag + 2).any(|_| {
            for action in [Tick, Acknowledge(current), Ask(0, current), Answer(0)] {
                state = self.after(state, action).unwrap_or(state);
            }
            state.servers[current].lock.is_some_and(|lock| lock.holder == 0 && lock.left == self.lease)
        })
    }
}
