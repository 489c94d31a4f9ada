//! Clients that send every command themselves, so that each of their steps is recorded. If a command was not answered,
//! they do not know its outcome: they release the lock, or die.

mod asking;
mod holding;
mod once;

use super::connections::Connections;
use super::diary::Diary;
use super::round::Round;
use super::route::Route;
use super::speech::Hold;
use super::wish::Wish;
use crate::history::{Answer, Journal};
use crate::plan::{Address, Client, ClientKind};
use rlock_testing::Random;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long an answer may take that does not include a wait.
const ANSWER: Duration = Duration::from_secs(3);

/// How long it may take to get a connection.
const CONNECT: Duration = Duration::from_millis(500);

/// Pauses, in ms: after a refusal, after a failure, and before a release in doubt, because the server first has to
/// notice that the connection of the request is closed.
const PAUSE_MS: (u64, u64) = (1, 10);
const PAUSE_OF_A_FAILURE_MS: (u64, u64) = (5, 50);
const PAUSE_OF_A_DOUBT_MS: (u64, u64) = (5, 30);

/// Of the clients that may die, the percentage that die when they do not know whether they have the lock.
const DIES_OF_A_DOUBT: u8 = 20;

pub struct ByHand {
    client: Client,
    round: Round,
    connections: Connections,
    random: Random,
    diary: Diary,
}

impl ByHand {
    pub fn new(client: Client, address: &Address, journal: &Journal, round: Round) -> Self {
        let mut random = Random::from(client.seed);
        let route = Route::to(address, client.line, Random::from(random.draw()));
        let connections = Connections::new(route);
        let diary = Diary::new(journal.clone(), client.name.clone());
        Self { client, round, connections, random, diary }
    }

    pub async fn live(mut self) {
        while !self.round.is_over() {
            let wish = Wish::of(&self.client, &mut self.random);
            if self.is_native() {
                self.attempt(&wish).await;
            } else {
                self.attempt_again_and_again(&wish).await;
            }
            self.pause(self.client.habits.rest_ms).await;
        }
    }

    /// Whether it uses the commands: it can wait in the server, get tokens, and release all holds at once. Others use scripts.
    fn is_native(&self) -> bool {
        self.client.kind != ClientKind::Scripts
    }

    /// Asks until the wait would be over, each time under a new name, so that one call explains each holder in a
    /// sample.
    async fn attempt_again_and_again(&mut self, wish: &Wish) {
        let limit = wish.gives_up_after.or(wish.wait_ms.map(Duration::from_millis)).unwrap_or_default();
        let until = Instant::now() + limit;
        let once = Wish { wait_ms: None, gives_up_after: None, ..wish.clone() };
        while self.attempt(&once).await && Instant::now() < until && !self.round.is_over() {}
    }

    /// Returns whether another holder has the lock.
    async fn attempt(&mut self, wish: &Wish) -> bool {
        if !self.connections.are_open(&wish.lock, self.round.answers(CONNECT)).await {
            self.pause(PAUSE_OF_A_FAILURE_MS).await;
            return false;
        }
        let hold = Hold::of(wish, self.diary.new_holder());
        let asked = Instant::now();
        let answer =
            if wish.by_ticket { self.once_by_ticket(&hold, wish).await } else { self.acquire(&hold, wish).await };
        if matches!(answer, Answer::Refused { .. } | Answer::Got { .. }) {
            self.answer_in_vain(&hold).await;
        }
        match answer {
            Answer::Refused { .. } => {
                self.pause(PAUSE_MS).await;
                return true;
            }
            Answer::Granted { .. } => self.granted(hold, wish, asked).await,
            Answer::Unknown(_) => self.in_doubt(&hold).await,
            Answer::Got { .. } => self.pause(PAUSE_MS).await,
            _ => self.pause(PAUSE_OF_A_FAILURE_MS).await,
        }
        false
    }

    /// It is not known whether the lock is held, or will be.
    async fn in_doubt(&mut self, hold: &Hold) {
        if self.client.habits.dies > 0 && self.random.is(DIES_OF_A_DOUBT) {
            return;
        }
        // The end of the round does not shorten this: the lock still has to be released.
        sleep(Duration::from_millis(self.random.between(PAUSE_OF_A_DOUBT_MS))).await;
        self.release_all(hold).await;
    }

    async fn pause(&mut self, ms: (u64, u64)) {
        self.round.pause(Duration::from_millis(self.random.between(ms))).await;
    }
}
