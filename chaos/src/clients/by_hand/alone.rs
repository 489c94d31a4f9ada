//! What becomes of a grant when its session ends: tried by one client alone, on a lock that nobody else wants, so that nothing
//! else can have ended the hold, or taken the lock.
//!
//! It holds the lock, waits for it by ticket as somebody else, gives it back, and so is granted it, and told. Then it
//! acknowledges that or not, renews it or not, and lets the session end: the hold must stay.

use super::tickets::Asked;
use super::{ANSWER, ByHand, CONNECT};
use crate::clients::session::Heard;
use crate::clients::speech::Hold;
use crate::clients::wish::Wish;
use crate::history::{Answer, Side};
use crate::plan::LEASE_ALONE_MS;
use std::time::Duration;
use tokio::time::{sleep, timeout_at};

/// So long it waits, for others to see it do so.
const SEEN: Duration = Duration::from_millis(300);

/// How much later than it ends by itself a session has certainly ended, if nothing goes wrong.
const LATER: Duration = Duration::from_millis(300);

/// Of a hundred grants, those that are renewed.
const RENEWS: u8 = 30;

impl ByHand {
    pub(super) async fn try_alone(&mut self) {
        let side = if self.random.is(50) { Side::Plain } else { Side::Write };
        let lock = format!("alone:{}:{side:?}", self.client.name);
        let fenced = self.random.is(self.client.habits.fenced);
        if !self.connections.are_open(&lock, self.round.answers(CONNECT)).await {
            return;
        }
        let port = self.connections.port(&lock);
        if !self.open_session(port).await {
            return;
        }
        let (holder, beside) = (self.diary.new_holder(), Vec::new());
        let first = Hold { lock, beside, holder, side, limit: 0, lease_ms: LEASE_ALONE_MS };
        let wish = first.wished_again(fenced);
        match self.acquire(&first, &wish).await {
            Answer::Granted { .. } => {}
            Answer::Unknown(_) => return self.give_back_all(&first).await,
            _ => return,
        }
        let second = Hold { holder: self.diary.new_holder(), ..first.clone() };
        let Asked::Waits(numbers) = self.ask_once(&second, &Wish { wait_ms: Some(0), ..wish }).await else {
            self.give_back_all(&first).await;
            return self.give_back_all(&second).await;
        };
        sleep(SEEN).await;
        self.give_back_all(&first).await;
        let outcome = self.hear_of(&second).await;
        self.diary.answered_each(&numbers, std::slice::from_ref(&outcome));
        match outcome {
            Answer::Granted { .. } => self.end_alone(&second).await,
            _ => self.take_back(&[second]).await,
        }
    }

    async fn hear_of(&mut self, hold: &Hold) -> Answer {
        let patience = self.round.answers(ANSWER);
        while let Some(session) = &mut self.session {
            match timeout_at(patience, session.hear()).await {
                Ok(Heard::Event(event)) if event.ticket == hold.holder => return event.outcome,
                Ok(Heard::Event(_) | Heard::Open) => {}
                Ok(Heard::Gone) | Err(_) => break,
            }
        }
        Answer::Unknown("not told".to_owned())
    }

    async fn end_alone(&mut self, hold: &Hold) {
        if self.random.is(RENEWS) {
            self.renew(hold).await;
        }
        let Some(ttl) = self.session.take().map(|left| left.ttl()) else { return };
        // Not shortened by the end of the round, unless that comes before anything could be learned.
        self.round.pause(ttl + LATER).await;
        self.renew(hold).await;
        self.give_back_all(hold).await;
    }
}
