//! What becomes of a grant when its session ends: tried by one client alone, on a lock that nobody else wants, so that nothing
//! else can have ended the hold, or taken the lock.
//!
//! It holds the lock, waits for it by ticket as somebody else, gives it back, and so is granted it, and told. Then it
//! acknowledges that, or renews it, or does neither, and lets the session end: the hold must stay.

use super::{ANSWER, ByHand, CONNECT};
use crate::clients::session::Heard;
use crate::clients::speech::Hold;
use crate::clients::wish::Wish;
use crate::history::{Answer, Side};
use crate::plan::LEASE_ALONE_MS;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

/// So long it waits, for others to see it do so.
const SEEN: Duration = Duration::from_millis(300);

/// How much later than it ends by itself a session has certainly ended, if nothing goes wrong.
const LATER: Duration = Duration::from_millis(300);

/// How often it is looked whether what was acknowledged is known to be.
const LOOKS: Duration = Duration::from_millis(20);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Left,
    Acknowledged,
    Renewed,
}

impl ByHand {
    pub(super) async fn try_alone(&mut self) {
        let ending = self.random.one_of(&[Ending::Left, Ending::Acknowledged, Ending::Renewed]);
        let side = if self.random.is(50) { Side::Plain } else { Side::Write };
        let lock = format!("alone:{}:{side:?}", self.client.name);
        let wish = Wish {
            lock: lock.clone(),
            side,
            lease_ms: LEASE_ALONE_MS,
            wait_ms: None,
            gives_up_after: None,
            fenced: self.random.is(self.client.habits.fenced),
            replicas: 0,
        };
        if !self.connections.are_open(&lock, self.round.answers(CONNECT)).await {
            return;
        }
        let port = self.connections.port(&lock);
        if !self.open_session_that(port, ending == Ending::Acknowledged).await {
            return;
        }
        let first = Hold { lock: lock.clone(), holder: self.diary.new_holder(), side, lease_ms: LEASE_ALONE_MS };
        match self.acquire(&first, &wish).await {
            Answer::Granted { .. } => {}
            Answer::Unknown(_) => return self.give_back_all(&first).await,
            _ => return,
        }
        let second = Hold { holder: self.diary.new_holder(), ..first.clone() };
        self.wait_and_be_granted(first, second, Wish { wait_ms: Some(0), ..wish }, ending).await;
    }

    async fn wait_and_be_granted(&mut self, first: Hold, second: Hold, wish: Wish, ending: Ending) {
        let Some(number) = self.ask_for_ticket(&second, &wish).await else {
            self.give_back_all(&first).await;
            return self.give_back_all(&second).await;
        };
        sleep(SEEN).await;
        self.give_back_all(&first).await;
        match self.hear_of(&second).await {
            Some((seq, outcome @ Answer::Granted { .. })) => {
                self.diary.answered(number, outcome);
                self.end_alone(&second, seq, ending).await;
            }
            heard => {
                let outcome = heard.map_or(Answer::Unknown("not told".to_owned()), |(_, outcome)| outcome);
                self.diary.answered(number, outcome);
                self.take_back(&[second]).await;
            }
        }
    }

    async fn hear_of(&mut self, hold: &Hold) -> Option<(u64, Answer)> {
        let patience = self.round.answers(ANSWER);
        loop {
            match timeout_at(patience, self.session()?.hear()).await {
                Ok(Heard::Event(event)) if event.ticket == hold.holder => return Some((event.seq, event.outcome)),
                Ok(Heard::Event(_) | Heard::Open) => {}
                Ok(Heard::Gone) | Err(_) => return None,
            }
        }
    }

    async fn end_alone(&mut self, hold: &Hold, seq: u64, ending: Ending) {
        let is_safe = match ending {
            Ending::Left => true,
            Ending::Acknowledged => self.is_acknowledged(seq).await,
            Ending::Renewed => matches!(self.renew(hold).await, Some(Answer::Renewed(true))),
        };
        let Some(ttl) = self.session().map(|session| session.ttl()) else { return };
        self.leave_session();
        if is_safe {
            // Not shortened by the end of the round, unless that comes before anything could be learned.
            self.round.pause(ttl + LATER).await;
            self.renew(hold).await;
        }
        self.give_back_all(hold).await;
    }

    async fn is_acknowledged(&mut self, seq: u64) -> bool {
        let until = Instant::now() + Duration::from_secs(2);
        while Instant::now() < until {
            let Some(session) = self.session() else { return false };
            session.acknowledge(seq);
            if session.has_acknowledged(seq) {
                return true;
            }
            sleep(LOOKS).await;
        }
        false
    }
}
