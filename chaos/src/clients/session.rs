//! A session with one server: a connection that is polled all the time, by a task of its own, so that its client may do
//! something else meanwhile; and what that client can do to it.
//!
//! Two polls are always under way, so that one waits in the server while the answer to the other is read. A connection that
//! breaks, or on which nothing is heard for too long, is made anew. Each poll is recorded, and all that it is told.

use super::speech;
use super::wire::{Command, Wire};
use crate::history::{Event, Journal, Moment, Poll, Record, Told};
use rlock_testing::Random;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::time::{sleep, timeout};

/// How many polls are under way at a time.
const UNDER_WAY: usize = 2;

/// Until somebody is asked again who takes no connections, or answers with an error.
const PAUSE: Duration = Duration::from_millis(20);

/// Of a hundred connections made anew, those whose first poll does not wait.
const ASKS_FIRST: u8 = 80;

/// Of a hundred connections that broke: those that are made anew later than at once, and of these those that are too late.
const IS_SLOW: u8 = 30;
const IS_TOO_SLOW: u8 = 20;

/// Of a hundred answers with events, those that are lost with their connection, as far as this client knows.
const LOSES_EVENTS: u8 = 5;

/// What all calls of a session have in common.
pub struct Terms {
    pub name: String,
    pub port: u16,
    pub ttl_ms: u64,
    /// Each event is acknowledged with the next poll, and not only when its client is done with it.
    pub acks_at_once: bool,
}

pub struct Session {
    shared: Arc<Shared>,
    orders: UnboundedSender<Order>,
    heard: UnboundedReceiver<Heard>,
}

/// What its client and the task that polls know of it.
struct Shared {
    terms: Terms,
    journal: Journal,
    calls: AtomicU64,
    acked: AtomicU64,
}

/// What its client hears of it.
#[derive(Clone, Debug, PartialEq)]
pub enum Heard {
    /// It is polled, on a connection that was not there before.
    Open,
    Event(Event),
    /// The server does not know it any more.
    Gone,
}

#[derive(Clone, Copy)]
pub enum Order {
    /// Cuts the connection, which is made anew after that time.
    Break(Duration),
    /// Neither reads nor polls for that time.
    Silence(Duration),
}

impl Session {
    /// Heard as open as soon as the server has answered.
    pub fn open(terms: Terms, journal: &Journal, random: Random) -> Self {
        let ((orders, obeyed), (tell, heard)) = (mpsc::unbounded_channel(), mpsc::unbounded_channel());
        let (calls, acked) = Default::default();
        let shared = Arc::new(Shared { terms, journal: journal.clone(), calls, acked });
        let poller = Poller { shared: Arc::clone(&shared), orders: obeyed, tell, random, connection: 0 };
        tokio::spawn(poller.poll());
        Self { shared, orders, heard }
    }

    pub fn terms(&self) -> &Terms {
        &self.shared.terms
    }

    /// Whether the server does not know it any more, so that nobody polls it.
    pub fn is_gone(&self) -> bool {
        self.heard.is_closed()
    }

    /// What is heard next. Nothing is lost if it is dropped before.
    pub async fn hear(&mut self) -> Heard {
        self.heard.recv().await.unwrap_or(Heard::Gone)
    }

    /// All events up to this are done with.
    pub fn acknowledge(&self, seq: u64) {
        self.shared.acked.fetch_max(seq, Relaxed);
    }

    pub fn order(&self, order: Order) {
        // Nobody obeys any more if it is gone.
        let _ = self.orders.send(order);
    }

    pub fn ttl(&self) -> Duration {
        self.terms().ttl()
    }

    /// Records that it is about to be ended: the number of that call, and the command.
    pub fn ending(&self) -> (u64, Command) {
        let number = self.shared.calls((0, 0), true);
        (number, vec!["RLOCK.CANCEL".to_owned(), self.terms().name.clone()])
    }

    pub fn heard(&self, number: u64, told: Told) {
        self.shared.answered(number, told);
    }
}

impl Terms {
    fn ttl(&self) -> Duration {
        Duration::from_millis(self.ttl_ms)
    }
}

impl Shared {
    fn calls(&self, (connection, ack): (u64, u64), ends: bool) -> u64 {
        let number = self.calls.fetch_add(1, Relaxed) + 1;
        let (at, session, ttl_ms) = (Moment::now(), self.terms.name.clone(), self.terms.ttl_ms);
        self.journal.write(&Record::Polled(Poll { at, session, number, connection, ack, ttl_ms, ends }));
        number
    }

    fn answered(&self, number: u64, told: Told) {
        self.journal.write(&Record::Heard { at: Moment::now(), session: self.terms.name.clone(), number, told });
    }
}

/// The task that polls, until its session is dropped or gone.
struct Poller {
    shared: Arc<Shared>,
    orders: UnboundedReceiver<Order>,
    tell: UnboundedSender<Heard>,
    random: Random,
    connection: u64,
}

impl Poller {
    async fn poll(mut self) {
        while let Some(wire) = self.connect().await {
            match self.converse(wire).await {
                Some(time) => sleep(time).await,
                None => return,
            }
        }
    }

    /// After a connection that broke. Mostly none.
    fn pause(&mut self) -> Duration {
        let (slow, too_slow) = (self.random.is(IS_SLOW), self.random.is(IS_TOO_SLOW));
        let ttl = self.shared.terms.ttl();
        match (slow, too_slow) {
            (false, _) => Duration::ZERO,
            (true, false) => ttl / 2,
            (true, true) => ttl * 5 / 4,
        }
    }

    async fn connect(&mut self) -> Option<Wire> {
        loop {
            if self.orders.is_closed() {
                return None;
            }
            if let Ok(Ok(wire)) = timeout(self.patience(), Wire::connect(self.shared.terms.port)).await {
                self.connection += 1;
                return Some(wire);
            }
            sleep(PAUSE).await;
        }
    }

    /// Longer than a poll waits in the server, and so short that there is time for another connection.
    fn patience(&self) -> Duration {
        self.shared.terms.ttl() * 2 / 3
    }

    /// Until the connection is not used any more, and for how long there is to be none then. None: nobody wants the session
    /// any more, or the server does not have it.
    async fn converse(&mut self, mut wire: Wire) -> Option<Duration> {
        let mut under_way = VecDeque::new();
        let mut is_open = false;
        let asks_first = self.connection == 1 || self.random.is(ASKS_FIRST);
        loop {
            while under_way.len() < UNDER_WAY {
                let waits = !under_way.is_empty() || is_open || !asks_first;
                match self.send(&mut wire, waits).await {
                    Some(poll) => under_way.push_back(poll),
                    None => return Some(self.pause()),
                }
            }
            let patience = self.patience();
            tokio::select! {
                biased;
                order = self.orders.recv() => match order {
                    None => return None,
                    Some(Order::Break(time)) => return Some(time),
                    Some(Order::Silence(time)) => sleep(time).await,
                },
                reply = timeout(patience, wire.receive()) => {
                    let (Ok(Ok(reply)), Some(number)) = (reply, under_way.pop_front()) else { return Some(self.pause()) };
                    let told = speech::told(&reply).unwrap_or_else(|strange| {
                        strange.tell(&self.shared.journal, &self.shared.terms.name);
                        Told::Failed(strange.0)
                    });
                    if matches!(&told, Told::Events(events) if !events.is_empty()) && self.random.is(LOSES_EVENTS) {
                        return Some(self.pause());
                    }
                    self.shared.answered(number, told.clone());
                    match told {
                        Told::Events(events) => {
                            if !is_open {
                                let _ = self.tell.send(Heard::Open);
                                is_open = true;
                            }
                            self.pass_on(events);
                        }
                        Told::NoSession => return None,
                        // The server has lost it, and a poll that acknowledged nothing has opened another of that name.
                        Told::Failed(line) if line.starts_with("ERR ACK ") => return None,
                        _ => sleep(PAUSE).await,
                    }
                }
            }
        }
    }

    async fn send(&mut self, wire: &mut Wire, waits: bool) -> Option<u64> {
        let ack = self.shared.acked.load(Relaxed);
        let number = self.shared.calls((self.connection, ack), false);
        let mut command = vec!["RLOCK.EVENTS".to_owned(), self.shared.terms.name.clone()];
        let mut option = |word: &str, value: u64| command.extend([word.to_owned(), value.to_string()]);
        if ack > 0 {
            option("ACK", ack);
        }
        if waits {
            option("WAIT", 0);
        }
        option("TTL", self.shared.terms.ttl_ms);
        let sent = timeout(self.patience(), wire.send(&[command])).await;
        matches!(sent, Ok(Ok(()))).then_some(number)
    }

    fn pass_on(&self, events: Vec<Event>) {
        for event in events {
            if self.shared.terms.acks_at_once {
                self.shared.acked.fetch_max(event.seq, Relaxed);
            }
            // Nobody listens any more if the session is dropped.
            let _ = self.tell.send(Heard::Event(event));
        }
    }
}
