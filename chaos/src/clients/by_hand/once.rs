//! ONCE by ticket, and ANSWER.
//!
//! For a server, a leader that dies before, during or after its work without ANSWER is like any dying holder. Only a leader
//! that dies right after it has sent ANSWER is special.

use super::asking::request_for;
use super::holding::TRIES;
use super::{ANSWER, ByHand, CONNECT, PAUSE_OF_A_FAILURE_MS};
use crate::clients::speech::{self, Hold};
use crate::clients::wish::Wish;
use crate::clients::{commands, wire};
use crate::history::{Answer, Request};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long a session lives without a call for its events. A call takes at most a third of it.
const TTL_MS: u64 = 3_000;

/// Percentage of leaders with work that fails: they release the lock without an answer.
const FAILS: u8 = 20;

/// Percentage of dying leaders that send ANSWER first.
const ANSWERS_BEFORE_IT_DIES: u8 = 50;

/// Percentage of callers that send ANSWER although they do not lead.
const ANSWERS_IN_VAIN: u8 = 5;

impl ByHand {
    /// Waits by a ticket of a session of its own. If the event is `answered`, asks again for the value.
    pub(super) async fn once_by_ticket(&mut self, hold: &Hold, wish: &Wish) -> Answer {
        let until = self.until_granted(wish);
        let session = format!("session-of-chaos-{}", hold.holder);
        match self.connections.ask(&hold.lock, commands::open_session(&session, TTL_MS), until).await {
            Ok(reply) if speech::event(&reply) == Ok(None) => {}
            Ok(other) => return Answer::Failed(format!("no session: {other:?}")),
            Err(why) => return Answer::Failed(why),
        }
        let number = self.diary.called(&hold.lock, &hold.holder, request_for(hold, wish.wait_ms, false));
        let answer = match self.outcome(hold, wish, &session, until).await {
            Ok(answer) => answer,
            Err(why) => Answer::Unknown(why),
        };
        self.diary.answered(number, answer.clone());
        // If this does not reach the server, the session ends by its TTL.
        let until = self.round.answers(CONNECT);
        let _ = self.connections.ask(&hold.lock, commands::end_session(&session), until).await;
        match answer {
            Answer::Answered => self.acquire(hold, &Wish { wait_ms: None, ..wish.clone() }).await,
            answer => answer,
        }
    }

    /// # Errors
    /// The reason why the outcome is unknown.
    async fn outcome(&mut self, hold: &Hold, wish: &Wish, session: &str, until: Instant) -> Result<Answer, String> {
        let command: wire::Command =
            [commands::acquire(hold, wish.wait_ms, false), commands::by_ticket(session)].concat();
        let first = self.connections.ask(&hold.lock, command, until).await?;
        if first != rlock_testing::Reply::Text("WAITING".to_owned()) {
            return self.known(speech::once(&first));
        }
        loop {
            let reply = self.connections.ask(&hold.lock, commands::next_event(session), until).await?;
            if let Some(answer) = self.known(speech::event(&reply))? {
                return Ok(answer);
            }
        }
    }

    /// # Errors
    /// If the command cannot have this reply, the outcome is unknown.
    fn known<T>(&self, answer: Result<T, speech::Strange>) -> Result<T, String> {
        answer.map_err(|strange| {
            strange.report(&self.diary.journal, &self.client.name);
            strange.0
        })
    }

    /// After the work: sends ANSWER until it is answered, unless the work fails. If false, the lock is still to be released.
    pub(super) async fn leaves_an_answer(&mut self, hold: &Hold) -> bool {
        let Some((value, keep_ms)) = self.new_answer(hold, 100 - FAILS) else { return false };
        for _ in 0..TRIES {
            if !self.connections.are_open(&hold.lock, self.round.answers(CONNECT)).await {
                continue;
            }
            if let Answer::Stored(_) = self.answer(hold, (&value, keep_ms), self.round.answers(ANSWER)).await {
                return true;
            }
            sleep(Duration::from_millis(self.random.between(PAUSE_OF_A_FAILURE_MS))).await;
        }
        false
    }

    /// Some dying leaders send ANSWER and do not wait for the reply.
    pub(super) async fn may_answer_and_die(&mut self, hold: &Hold) {
        if let Some((value, keep_ms)) = self.new_answer(hold, ANSWERS_BEFORE_IT_DIES) {
            self.answer(hold, (&value, keep_ms), Instant::now()).await;
        }
    }

    /// Some callers that do not lead send ANSWER, which the server must refuse.
    pub(super) async fn answer_in_vain(&mut self, hold: &Hold) {
        if let Some((value, keep_ms)) = self.new_answer(hold, ANSWERS_IN_VAIN) {
            self.answer(hold, (&value, keep_ms), self.round.answers(ANSWER)).await;
        }
    }

    /// A new answer in this percentage of cases, if the lock is one with answers.
    fn new_answer(&mut self, hold: &Hold, of_a_hundred: u8) -> Option<(String, u64)> {
        let keep_ms = hold.keep_ms.filter(|_| self.random.is(of_a_hundred))?;
        Some((self.diary.new_answer(&hold.holder), self.random.between(keep_ms)))
    }

    async fn answer(&mut self, hold: &Hold, (value, keep_ms): (&str, u64), until: Instant) -> Answer {
        let request = Request::Answer { value: value.to_owned(), keep_ms };
        let command = commands::answer(hold, value, keep_ms);
        self.call(hold, request, command, until, |reply| Ok(vec![speech::stored(reply)?])).await
    }
}
