//! The calls, and the ways to send them.

use super::{ANSWER, ByHand};
use crate::clients::speech::{self, Hold, Strange};
use crate::clients::wire::Command;
use crate::clients::wish::Wish;
use crate::clients::{commands, scripts};
use crate::history::{Answer, Request, Side};
use rlock_testing::Reply;
use std::time::Duration;
use tokio::time::Instant;

/// Of a hundred attempts, those in a transaction, and those together with a renewal in one piece.
const IN_A_TRANSACTION: u8 = 3;
const IN_ONE_PIECE: u8 = 3;

/// How long the server waits for replicas.
const WAIT_MS: u64 = 500;

impl ByHand {
    pub(super) async fn acquire(&mut self, hold: &Hold, wish: &Wish) -> Answer {
        let is_at_once = self.is_native() && wish.wait_ms.is_none();
        let in_a_transaction = is_at_once && self.random.is(IN_A_TRANSACTION);
        if is_at_once && !in_a_transaction && !hold.is_of_several() && self.random.is(IN_ONE_PIECE) {
            return self.acquire_and_renew_in_one_piece(hold, wish).await;
        }
        let mut commands = vec![self.to_acquire(hold, wish)];
        if in_a_transaction {
            commands.insert(0, vec!["MULTI".to_owned()]);
            commands.push(vec!["EXEC".to_owned()]);
        }
        let (until, fenced) = (self.until_granted(wish), self.is_fenced(wish));
        self.call(hold, self.acquire_request(hold, wish, None), &commands, until, |replies| {
            let reply = if in_a_transaction { of_a_transaction(replies) } else { &replies[0] };
            speech::acquired_each(reply, fenced, hold)
        })
        .await
    }

    /// Once more, by who has it.
    pub(super) async fn enter_again(&mut self, hold: &Hold) -> Answer {
        let fenced = self.random.is(self.client.habits.fenced);
        let wish = hold.wished_again(fenced);
        self.acquire(hold, &wish).await
    }

    /// Nothing, if it cannot be renewed in this client's way.
    pub(super) async fn renew(&mut self, hold: &Hold) -> Option<Answer> {
        let command = if self.is_native() { commands::renew(hold) } else { scripts::renew(hold)? };
        let (until, request) = (self.round.answers(ANSWER), Request::Renew { lease_ms: hold.lease_ms });
        Some(self.call(hold, request, &[command], until, |replies| Ok(vec![speech::renewed(&replies[0])?])).await)
    }

    /// `certain_until`: before that it is certain that there is something to be given back.
    pub(super) async fn release(&mut self, hold: &Hold, all: bool, certain_until: Instant) -> Answer {
        let (all, is_script) = (all && self.is_native(), !self.is_native());
        let command = if is_script { scripts::release(hold) } else { commands::release(hold, all) };
        let until = self.round.answers(ANSWER);
        let tells_nothing = is_script && hold.side == Side::Write;
        let request = Request::Release { side: hold.side, all };
        self.call(hold, request, &[command], until, |replies| match speech::released(&replies[0])? {
            Answer::Released(Some(1)) if tells_nothing && certain_until <= Instant::now() => {
                Ok(vec![Answer::Unknown("1, as also if there is no lock".to_owned())])
            }
            answer => Ok(vec![answer]),
        })
        .await
    }

    /// Whether as many replicas have what this client did last as were asked for.
    pub(super) async fn is_confirmed(&mut self, hold: &Hold, replicas: u32) -> bool {
        if replicas == 0 {
            return true;
        }
        let command = ["WAIT".to_owned(), replicas.to_string(), WAIT_MS.to_string()].to_vec();
        let reply = self.connections.ask_there(&hold.lock, command, self.round.answers(ANSWER)).await;
        matches!(reply, Ok(Reply::Int(confirmed)) if confirmed >= i64::from(replicas))
    }

    async fn acquire_and_renew_in_one_piece(&mut self, hold: &Hold, wish: &Wish) -> Answer {
        let commands = [commands::acquire(hold, None, wish.fenced), commands::renew(hold)];
        let until = self.round.answers(ANSWER);
        let numbers = [self.acquire_request(hold, wish, None), Request::Renew { lease_ms: hold.lease_ms }]
            .map(|request| self.diary.called(&hold.lock, &hold.holder, request));
        let replies = self.connections.ask(&hold.lock, &commands, until).await;
        let answers = match &replies {
            Ok(replies) => [speech::acquired(&replies[0], wish.fenced), speech::renewed(&replies[1])]
                .map(|answer| self.plain(answer)),
            Err(why) => [(); 2].map(|()| Answer::Unknown(why.clone())),
        };
        for (number, answer) in numbers.into_iter().zip(&answers) {
            self.diary.answered(number, answer.clone());
        }
        let [acquired, _] = answers;
        acquired
    }

    /// Records a call, sends it, and records what came of it. What is not answered by then is not known.
    async fn call(
        &mut self,
        hold: &Hold,
        request: Request,
        commands: &[Command],
        until: Instant,
        read: impl Fn(&[Reply]) -> Result<Vec<Answer>, Strange>,
    ) -> Answer {
        let numbers = self.diary.called_each(hold, &request);
        let mut answers = match self.connections.ask(&hold.lock, commands, until).await {
            Ok(replies) => self.plain_each(hold, read(&replies)),
            Err(why) => vec![Answer::Unknown(why); numbers.len()],
        };
        self.diary.answered_each(&numbers, &answers);
        answers.swap_remove(0)
    }

    /// The answers for each lock of a hold.
    pub(super) fn plain_each(&self, hold: &Hold, answers: Result<Vec<Answer>, Strange>) -> Vec<Answer> {
        answers.unwrap_or_else(|strange| vec![self.plain(Err(strange)); hold.locks().count()])
    }

    /// Of a reply that makes no sense it is not known what was done.
    pub(super) fn plain(&self, answer: Result<Answer, Strange>) -> Answer {
        answer.unwrap_or_else(|strange: Strange| {
            strange.tell(&self.diary.journal, &self.client.name);
            Answer::Unknown(strange.0)
        })
    }

    pub(super) fn acquire_request(&self, hold: &Hold, wish: &Wish, session: Option<String>) -> Request {
        let (&Hold { side, limit, lease_ms, .. }, &Wish { wait_ms, replicas, .. }) = (hold, wish);
        let (fenced, by_script) = (self.is_fenced(wish), !self.is_native());
        Request::Acquire {
            side,
            limit,
            beside: hold.beside.clone(),
            lease_ms,
            wait_ms,
            fenced,
            by_script,
            replicas,
            session,
        }
    }

    /// The command, or the script.
    pub(super) fn to_acquire(&self, hold: &Hold, wish: &Wish) -> Command {
        if self.is_native() { commands::acquire(hold, wish.wait_ms, wish.fenced) } else { scripts::acquire(hold) }
    }

    pub(super) fn is_fenced(&self, wish: &Wish) -> bool {
        wish.fenced && self.is_native()
    }

    pub(super) fn until_granted(&self, wish: &Wish) -> Instant {
        match (wish.gives_up_after, wish.wait_ms) {
            (Some(time), _) => self.round.waits(time),
            (None, Some(limit)) => self.round.waits(Duration::from_millis(limit) + ANSWER),
            (None, None) => self.round.answers(ANSWER),
        }
    }
}

/// The reply that counts. A server that refuses MULTI does at once what follows.
fn of_a_transaction(replies: &[Reply]) -> &Reply {
    match replies {
        [_, Reply::Text(queued), Reply::List(each)] if queued == "QUEUED" && each.len() == 1 => &each[0],
        [_, Reply::Text(queued), refused] if queued == "QUEUED" => refused,
        [_, at_once, _] => at_once,
        _ => unreachable!("as many replies as commands"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_says_it_in_one_of_three_places() {
        let [ok, queued] = ["OK", "QUEUED"].map(|it| Reply::Text(it.to_owned()));
        let no = Reply::Error("EXECABORT".to_owned());
        let done = Reply::List(vec![Reply::Int(5)]);
        assert_eq!(of_a_transaction(&[ok.clone(), queued.clone(), done]), &Reply::Int(5));
        assert_eq!(of_a_transaction(&[ok, queued, no.clone()]), &no);
        assert_eq!(of_a_transaction(&[no.clone(), Reply::Int(7), no]), &Reply::Int(7));
    }
}
