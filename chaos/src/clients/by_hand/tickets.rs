//! Waits by tickets of a session: several at once, on one connection for commands and one that is polled.
//!
//! A ticket bears the holder's name. What is granted to it begins with the renewal that follows, as after any wait. Of what
//! was not answered it asks once more with the same ticket, or takes the ticket back, and releases what CANCEL says was granted
//! to it; and it does to its session what happens
//! to sessions: breaks the connection, does not read, ends it with tickets in it.

use super::{ByHand, CONNECT, PAUSE_OF_A_FAILURE_MS};
use crate::clients::session::{Heard, Order, Session, Terms};
use crate::clients::speech::{self, Hold, Strange};
use crate::clients::wire::Command;
use crate::clients::wish::Wish;
use crate::history::{Answer, Event, Request, Told};
use rlock_testing::{Random, Reply};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// How long an answer may take that no wait is in.
const ASKED: Duration = Duration::from_secs(1);

/// How often an attempt is made with the same ticket, or in another session because that one was lost.
const TRIES: u32 = 3;

const TTLS_MS: [u64; 3] = [1_000, 1_500, 2_000];

/// Of a hundred sessions, those that acknowledge at once; of a hundred attempts, those with several tickets.
const ACKS_AT_ONCE: u8 = 50;
const SEVERAL: u8 = 15;
const MOST: (u64, u64) = (2, 4);

/// Of a hundred lost answers, those after which the same is asked again; of a hundred reconnections and of a hundred lost
/// sessions, those after which it is.
const ASKS_AGAIN: u8 = 60;
const ASKS_AFTER_A_BREAK: u8 = 30;

/// Of a hundred waits, those in which somebody breaks the connection, stops reading, takes back all or ends the session. And
/// of a hundred grants of sessions that do not acknowledge at once, those that are taken back.
const BREAKS: u64 = 15;
const IS_SILENT: u64 = BREAKS + 4;
const TAKES_BACK: u64 = IS_SILENT + 8;
const ENDS: u64 = TAKES_BACK + 3;
const TAKES_BACK_A_GRANT: u8 = 5;

/// For how long a connection is broken, in twentieths of the time for which a session lives on by itself.
const BREAKS_TWENTIETHS: [u32; 6] = [0, 1, 2, 5, 10, 25];

/// A ticket that waits.
struct Waiting {
    hold: Hold,
    wish: Wish,
    /// Of its latest calls, one for each lock.
    numbers: Vec<u64>,
    asked: Instant,
    /// When it is given up.
    until: Instant,
}

/// What came of asking.
pub enum Asked {
    Answered(Answer),
    Waits(Vec<u64>),
    NoSession,
}

/// What happens to a session while it is waited.
#[derive(Clone, Copy)]
enum Interlude {
    Order(Order),
    TakeBack,
    End,
}

impl ByHand {
    /// As many at once as can be in one session.
    fn wishes(&mut self, first: Wish) -> Vec<Wish> {
        let mut wishes = vec![first];
        if self.random.is(SEVERAL) {
            let port = self.connections.port(&wishes[0].lock);
            for _ in 1..self.random.between(MOST) {
                let wish = Wish::of(&self.client, &mut self.random);
                if wish.wait_ms.is_some() && self.connections.port(&wish.lock) == port {
                    wishes.push(wish);
                }
            }
        }
        wishes
    }

    pub(super) async fn attempt_by_tickets(&mut self, first: Wish) {
        let mut waiting = Vec::new();
        self.has_died = false;
        for wish in self.wishes(first) {
            if !self.connections.are_open(&wish.lock, self.round.answers(CONNECT)).await {
                self.pause(PAUSE_OF_A_FAILURE_MS).await;
                continue;
            }
            let holder = self.diary.new_holder();
            let hold = Hold::of(&wish, holder);
            waiting.extend(self.ask_by_ticket(hold, wish, TRIES).await);
        }
        self.wait_for_tickets(waiting).await;
    }

    /// Asks, and goes on with what comes of it, unless that is that it has to wait. Fewer tries than all are those of one who
    /// has asked before.
    async fn ask_by_ticket(&mut self, hold: Hold, mut wish: Wish, tries: u32) -> Option<Waiting> {
        let asked = Instant::now();
        for tried in 0..tries {
            wish.is_repeated |= tried > 0 || tries < TRIES;
            if !self.is_in_session(&hold.lock).await {
                self.pause(PAUSE_OF_A_FAILURE_MS).await;
                if wish.is_repeated {
                    self.in_doubt(&hold).await;
                }
                return None;
            }
            match self.ask_once(&hold, &wish).await {
                Asked::Waits(numbers) => {
                    let until = self.until_granted(&wish);
                    return Some(Waiting { hold, wish, numbers, asked, until });
                }
                Asked::NoSession => self.session = None,
                Asked::Answered(Answer::Unknown(_)) if self.may_ask_again() && self.random.is(ASKS_AGAIN) => {}
                Asked::Answered(Answer::Unknown(_)) => {
                    self.take_back(std::slice::from_ref(&hold)).await;
                    return None;
                }
                Asked::Answered(answer) => {
                    self.go_on(answer, hold, &wish, asked).await;
                    return None;
                }
            }
        }
        self.take_back(&[hold]).await;
        None
    }

    /// Whether a ticket that it may have waited by is still known there. Of one whose event was acknowledged, before this client
    /// has looked at it, nobody knows any more: it would wait anew.
    fn may_ask_again(&self) -> bool {
        self.session.as_ref().is_some_and(|session| !session.terms().acks_at_once)
    }

    pub(super) async fn ask_once(&mut self, hold: &Hold, wish: &Wish) -> Asked {
        let Some(session) = self.session_name() else { return Asked::NoSession };
        let mut command = self.to_acquire(hold, wish);
        command.extend(["SESSION".to_owned(), session.clone(), hold.holder.clone()]);
        let request = self.acquire_request(hold, wish, Some(session));
        let fenced = self.is_fenced(wish);
        let numbers = self.diary.called_each(hold, &request);
        let reply = self.connections.ask(&hold.lock, command, self.round.answers(ASKED)).await;
        let mut answers = match reply {
            Ok(Reply::Text(word)) if word == "WAITING" => {
                numbers.iter().for_each(|number| self.diary.queued(*number));
                return Asked::Waits(numbers);
            }
            Ok(reply) => self.plain_each(hold, speech::acquired_each(&reply, fenced, hold)),
            Err(why) => vec![Answer::Unknown(why); numbers.len()],
        };
        self.diary.answered_each(&numbers, &answers);
        match answers.swap_remove(0) {
            Answer::Failed(line) if line.starts_with("NOSESSION ") => Asked::NoSession,
            answer => Asked::Answered(answer),
        }
    }

    /// Until all of them have come to an end.
    async fn wait_for_tickets(&mut self, mut waiting: Vec<Waiting>) {
        let mut interlude = (!waiting.is_empty()).then(|| self.interlude()).flatten();
        while !waiting.is_empty() {
            let Some(session) = &mut self.session else {
                self.lose(&mut waiting).await;
                continue;
            };
            let due = waiting.iter().map(|it| it.until).min().unwrap_or_else(Instant::now);
            let until = interlude.map_or(due, |(at, _)| due.min(at));
            match timeout_at(until, session.hear()).await {
                Ok(Heard::Event(event)) => self.told(&mut waiting, event).await,
                Ok(Heard::Open) => self.polled_again(&mut waiting).await,
                Ok(Heard::Gone) => self.session = None,
                Err(_) => match interlude.take_if(|(at, _)| *at <= Instant::now()) {
                    Some((_, interlude)) => self.play(interlude, &mut waiting).await,
                    None => self.give_up(&mut waiting, |it| it.until <= Instant::now()).await,
                },
            }
        }
    }

    /// When, and what. Mostly nothing.
    fn interlude(&mut self) -> Option<(Instant, Interlude)> {
        let (ttl, random) = (self.session.as_ref()?.ttl(), &mut self.random);
        let what = match random.below(100) {
            ..BREAKS => Interlude::Order(Order::Break(ttl * random.one_of(&BREAKS_TWENTIETHS) / 20)),
            BREAKS..IS_SILENT => Interlude::Order(Order::Silence(ttl * random.one_of(&[1, 2]))),
            IS_SILENT..TAKES_BACK => Interlude::TakeBack,
            TAKES_BACK..ENDS => Interlude::End,
            _ => return None,
        };
        Some((Instant::now() + Duration::from_millis(random.between((0, 150))), what))
    }

    async fn play(&mut self, interlude: Interlude, waiting: &mut Vec<Waiting>) {
        let Some(session) = &self.session else { return };
        match interlude {
            Interlude::Order(order) => session.order(order),
            Interlude::TakeBack => self.give_up(waiting, |_| true).await,
            Interlude::End => {
                self.unknown(waiting, "the session was ended");
                self.end_session().await;
                for it in waiting.drain(..) {
                    self.in_doubt(&it.hold).await;
                }
            }
        }
    }

    /// What became of a ticket. What is told again nobody waits for any more.
    async fn told(&mut self, waiting: &mut Vec<Waiting>, event: Event) {
        let Some(place) = waiting.iter().position(|it| it.hold.holder == event.ticket) else { return };
        let Waiting { hold, wish, numbers, asked, .. } = waiting.swap_remove(place);
        let outcomes = speech::each(&hold, &event.outcome, &event.tokens).ok_or_else(|| Strange(format!("{event:?}")));
        self.diary.answered_each(&numbers, &self.plain_each(&hold, outcomes));
        let name = self.session_name();
        if event.is_grant() && self.may_ask_again() && self.random.is(TAKES_BACK_A_GRANT) {
            self.take_back(&[hold]).await;
        } else {
            self.go_on(event.outcome, hold, &wish, asked).await;
        }
        if let Some(session) = self.session.as_ref().filter(|session| Some(&session.terms().name) == name.as_ref()) {
            session.acknowledge(event.seq);
        }
    }

    /// The session may have been lost meanwhile, and opened anew. So it may ask again: what waits there is not queued twice.
    async fn polled_again(&mut self, waiting: &mut Vec<Waiting>) {
        for it in std::mem::take(waiting) {
            if !self.may_ask_again() || !self.random.is(ASKS_AFTER_A_BREAK) {
                waiting.push(it);
                continue;
            }
            self.unknown(std::slice::from_ref(&it), "asked again");
            let until = it.until;
            let again = self.ask_by_ticket(it.hold, it.wish, 1).await;
            waiting.extend(again.map(|again| Waiting { until: until.min(again.until), ..again }));
        }
    }

    /// The session is gone, or this client has left it. In another one it asks as the same holder.
    async fn lose(&mut self, waiting: &mut Vec<Waiting>) {
        self.unknown(waiting, "the session was lost");
        let has_died = std::mem::take(&mut self.has_died);
        for it in std::mem::take(waiting) {
            if !has_died && !self.round.is_over() && self.random.is(ASKS_AGAIN) {
                waiting.extend(self.ask_by_ticket(it.hold, it.wish, 1).await);
            } else if !has_died {
                self.in_doubt(&it.hold).await;
            }
        }
    }

    async fn give_up(&mut self, waiting: &mut Vec<Waiting>, which: impl Fn(&Waiting) -> bool) {
        let (given_up, kept): (Vec<_>, Vec<_>) = std::mem::take(waiting).into_iter().partition(which);
        *waiting = kept;
        self.unknown(&given_up, "given up");
        let holds: Vec<Hold> = given_up.into_iter().map(|it| it.hold).collect();
        self.take_back(&holds).await;
    }

    /// What becomes of them is not waited for any more.
    fn unknown(&self, waiting: &[Waiting], why: &str) {
        for number in waiting.iter().flat_map(|it| &it.numbers) {
            self.diary.answered(*number, Answer::Unknown(why.to_owned()));
        }
    }

    /// Their tickets; and what was granted to these, or may have been.
    pub(super) async fn take_back(&mut self, holds: &[Hold]) {
        if holds.is_empty() {
            return;
        }
        let mut answers = Vec::new();
        for _ in 0..TRIES {
            answers = self.cancel(holds).await;
            if !matches!(answers.first(), Some(Answer::Unknown(_))) {
                break;
            }
            self.pause(PAUSE_OF_A_FAILURE_MS).await;
        }
        for (place, hold) in holds.iter().enumerate() {
            match answers.get(place) {
                Some(Answer::Cancelled(1)) => {}
                Some(Answer::Cancelled(2)) => self.give_back(hold, false, Instant::now()).await,
                _ => self.in_doubt(hold).await,
            }
        }
    }

    /// What came of each; nothing if there is no session that they could be in.
    async fn cancel(&mut self, holds: &[Hold]) -> Vec<Answer> {
        let Some(terms) = self.session.as_ref().map(Session::terms) else { return Vec::new() };
        let (session, port) = (terms.name.clone(), terms.port);
        let tickets = holds.iter().map(|hold| hold.holder.clone());
        let command: Command = ["RLOCK.CANCEL".to_owned(), session.clone()].into_iter().chain(tickets).collect();
        let request = Request::Cancel { session };
        let numbers: Vec<_> = holds.iter().map(|hold| self.diary.called_each(hold, &request)).collect();
        let answers = match self.connections.ask_at(port, command, self.round.answers(ASKED)).await {
            Ok(reply) => speech::cancelled(&reply, holds.len())
                .unwrap_or_else(|strange| vec![self.plain(Err(strange)); holds.len()]),
            Err(why) => vec![Answer::Unknown(why); holds.len()],
        };
        for (numbers, answer) in numbers.iter().zip(&answers) {
            numbers.iter().for_each(|number| self.diary.answered(*number, answer.clone()));
        }
        answers
    }

    fn session_name(&self) -> Option<String> {
        self.session.as_ref().map(|session| session.terms().name.clone())
    }

    /// Whether there is a session with the server that has this lock, as far as is known.
    async fn is_in_session(&mut self, lock: &str) -> bool {
        let port = self.connections.port(lock);
        if self.session.as_ref().is_some_and(|session| session.terms().port == port && !session.is_gone()) {
            return true;
        }
        self.open_session(port).await
    }

    /// Leaves the one that there was.
    pub(super) async fn open_session(&mut self, port: u16) -> bool {
        self.sessions_opened += 1;
        let random = &mut self.random;
        let terms = Terms {
            name: format!("{:016x}/{}/{}", random.draw(), self.client.name, self.sessions_opened),
            port,
            ttl_ms: random.one_of(&TTLS_MS),
            acks_at_once: random.is(ACKS_AT_ONCE),
        };
        let mut session = Session::open(terms, &self.diary.journal, Random::from(random.draw()));
        let opened = timeout_at(self.round.answers(CONNECT), session.hear()).await;
        let is_open = opened == Ok(Heard::Open);
        self.session = is_open.then_some(session);
        is_open
    }

    /// By saying so. A try is enough: it ends by itself.
    pub(super) async fn end_session(&mut self) {
        let Some(session) = self.session.take() else { return };
        let (number, command) = session.ending();
        if let Ok(reply) = self.connections.ask_at(session.terms().port, command, self.round.answers(ASKED)).await {
            session.heard(number, speech::told(&reply).unwrap_or_else(|strange| Told::Failed(strange.0)));
        }
    }
}
