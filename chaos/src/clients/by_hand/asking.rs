//! The calls, and the ways to send them.

use super::{ANSWER, ByHand};
use crate::clients::speech::{self, Hold, Strange};
use crate::clients::wire::Command;
use crate::clients::wish::Wish;
use crate::clients::{commands, scripts};
use crate::history::{Answer, By, Request, Side};
use rlock_testing::Reply;
use std::time::Duration;
use tokio::time::Instant;

impl ByHand {
    pub(super) async fn acquire(&mut self, hold: &Hold, wish: &Wish) -> Answer {
        let (until, fenced) = (self.until_granted(wish), wish.fenced && hold.by == By::Acquire);
        let command = match hold.by {
            By::Script => scripts::acquire(hold),
            By::Acquire | By::Once => commands::acquire(hold, wish.wait_ms, fenced),
        };
        let read = |reply: &Reply| match hold.by {
            By::Once => Ok(vec![speech::once(reply)?]),
            By::Acquire | By::Script => speech::acquired_each(reply, fenced, hold),
        };
        self.call(hold, request_for(hold, wish.wait_ms, fenced), command, until, read).await
    }

    /// Acquires the lock again for the same holder.
    pub(super) async fn enter_again(&mut self, hold: &Hold) -> Answer {
        let fenced = self.random.is(self.client.habits.fenced);
        let wish = hold.wished_again(fenced);
        self.acquire(hold, &wish).await
    }

    /// None: this kind of client has no renewal for this side.
    pub(super) async fn renew(&mut self, hold: &Hold) -> Option<Answer> {
        let command = if self.is_native() { commands::renew(hold) } else { scripts::renew(hold)? };
        let (until, request) = (self.round.answers(ANSWER), Request::Renew { lease_ms: hold.lease_ms });
        Some(self.call(hold, request, command, until, |reply| Ok(vec![speech::renewed(reply)?])).await)
    }

    /// `certain_until`: before that moment the lock is certainly held.
    pub(super) async fn release(&mut self, hold: &Hold, all: bool, certain_until: Instant) -> Answer {
        let (all, is_script) = (all && self.is_native(), !self.is_native());
        let command = if is_script { scripts::release(hold) } else { commands::release(hold, all) };
        let until = self.round.answers(ANSWER);
        let tells_nothing = is_script && hold.side == Side::Write;
        let request = Request::Release { side: hold.side, all };
        self.call(hold, request, command, until, |reply| match speech::released(reply)? {
            Answer::Released(Some(1)) if tells_nothing && certain_until <= Instant::now() => {
                Ok(vec![Answer::Unknown("1, as also if there is no lock".to_owned())])
            }
            answer => Ok(vec![answer]),
        })
        .await
    }

    /// Records a call, sends it, and records its outcome. Without an answer in time, the outcome is unknown.
    pub(super) async fn call(
        &mut self,
        hold: &Hold,
        request: Request,
        command: Command,
        until: Instant,
        read: impl Fn(&Reply) -> Result<Vec<Answer>, Strange>,
    ) -> Answer {
        let numbers = self.diary.called_each(hold, &request);
        let mut answers = match self.connections.ask(&hold.lock, command, until).await {
            Ok(reply) => self.plain(hold, read(&reply)),
            Err(why) => vec![Answer::Unknown(why); numbers.len()],
        };
        self.diary.answered_each(&numbers, &answers);
        answers.swap_remove(0)
    }

    /// The answers for each lock of a hold. If a reply makes no sense, the outcome is unknown.
    fn plain(&self, hold: &Hold, answers: Result<Vec<Answer>, Strange>) -> Vec<Answer> {
        answers.unwrap_or_else(|strange| {
            strange.report(&self.diary.journal, &self.client.name);
            vec![Answer::Unknown(strange.0); hold.locks().count()]
        })
    }

    pub(super) fn until_granted(&self, wish: &Wish) -> Instant {
        match (wish.gives_up_after, wish.wait_ms) {
            (Some(time), _) => self.round.waits(time),
            (None, Some(limit)) => self.round.waits(Duration::from_millis(limit) + ANSWER),
            (None, None) => self.round.answers(ANSWER),
        }
    }
}

pub(super) fn request_for(hold: &Hold, wait_ms: Option<u64>, fenced: bool) -> Request {
    let Hold { side, by, limit, lease_ms, .. } = *hold;
    Request::Acquire { side, limit, beside: hold.beside.clone(), lease_ms, wait_ms, fenced, by }
}
