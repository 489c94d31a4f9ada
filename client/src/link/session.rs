//! A session with one server: all waits of this program there, by tickets, on one connection that is polled.
//!
//! Two polls are always under way, so that one waits in the server while the answer to the other is read. When the
//! connection breaks, the server keeps the places for a while. So it is made anew at once; only if that fails are those
//! who wait told, since their locks may be elsewhere by then. They ask again by the same tickets, which queues nothing
//! twice, and wait on if the connection comes back in time.
//!
//! **An event is acknowledged with the next poll.** From then on a grant is its lease's business. When that ends is told
//! from when the server began the very poll that it answers, so each poll keeps when it was sent: the lease lasts for as
//! long after that at least. A grant that nobody expects, as its request came after it had been given up, is cancelled
//! before it is acknowledged.

use super::connection::send;
use super::connections::Connections;
use super::fault::Fault;
use super::opening::Opened;
use super::request::{self, Event, Verdict};
use crate::server_line;
use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use redis::{Cmd, Value};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use uuid::Uuid;

/// How long the server keeps the places of a session that says nothing. So long its waiters can hold others up when
/// this machine is gone without a word; so soon it is noticed here that the connection is.
const TTL: Duration = Duration::from_secs(3);

/// A poll waits in the server for a third of the TTL. An answer that takes longer than this is not waited for.
const POLL_MAX: Duration = Duration::from_millis(TTL.as_millis() as u64 / 2);

const POLLS: usize = 2;

const PAUSE_MIN: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(320);

pub(crate) struct Session {
    /// Only this program knows it.
    pub name: String,
    connections: Weak<Connections>,
    state: watch::Sender<State>,
    tickets: Mutex<Tickets>,
    /// The last event that has come.
    told: AtomicU64,
}

#[derive(Clone, Debug)]
enum State {
    Opening,
    Open,
    /// It is being opened again.
    Broken(Fault),
    Over(Fault),
}

struct Tickets {
    last: u64,
    waiting: HashMap<u64, Waiting>,
    /// Since when nobody waits.
    idle_since: Instant,
}

enum Waiting {
    /// Whom to tell, once.
    Listens(oneshot::Sender<Told>),
    /// It was told that the connection broke, and has not asked again yet.
    Wavers,
    /// What has become of it meanwhile, for when it asks again: the server will not say it once more.
    Missed(Result<Verdict, Fault>),
}

/// What a ticket is told.
pub(crate) enum Told {
    /// The server's word.
    Event(Result<Verdict, Fault>),
    /// Nobody knows whether it waits still. The same ticket can be asked by again.
    Broken(Fault),
}

/// One wait. For the session it is there until this is dropped.
pub(crate) struct Ticket {
    pub session: Arc<Session>,
    pub number: u64,
    told: oneshot::Receiver<Told>,
}

impl Session {
    /// Opened in the background.
    pub(super) fn begin(connections: &Arc<Connections>) -> Arc<Self> {
        let tickets = Tickets { last: 0, waiting: HashMap::new(), idle_since: Instant::now() };
        let session = Arc::new(Self {
            name: Uuid::new_v4().to_string(),
            connections: Arc::downgrade(connections),
            state: watch::Sender::new(State::Opening),
            tickets: Mutex::new(tickets),
            told: AtomicU64::new(0),
        });
        connections.thread.detach(session.clone().poll());
        session
    }

    /// When the server knows it. An error once it is over, or could not be opened again just now.
    pub(super) async fn opened(&self) -> Result<(), Fault> {
        let mut state = self.state.subscribe();
        let mut has_changed = false;
        loop {
            match &*state.borrow_and_update() {
                State::Open => return Ok(()),
                State::Over(fault) => return Err(fault.clone()),
                State::Broken(fault) if has_changed => return Err(fault.clone()),
                State::Opening | State::Broken(_) => {}
            }
            // Never an error while this is there.
            let _ = state.changed().await;
            has_changed = true;
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(*self.state.borrow(), State::Open)
    }

    pub(crate) fn is_over(&self) -> bool {
        matches!(*self.state.borrow(), State::Over(_))
    }

    /// The server's no ends it.
    fn heed(&self, fault: &Fault) {
        if fault.is_no_session() || !fault.may_pass() {
            self.ends(fault);
        }
    }

    /// The server does not know it.
    pub(super) fn ends(&self, fault: &Fault) {
        self.becomes(State::Over, fault);
    }

    /// Its end, or a break in which it may end. All who wait are told.
    fn becomes(&self, state: fn(Fault) -> State, fault: &Fault) {
        let mut tickets = self.tickets();
        self.state.send_replace(state(fault.clone()));
        for waiting in tickets.waiting.values_mut().filter(|waiting| matches!(waiting, Waiting::Listens(_))) {
            if let Waiting::Listens(tell) = std::mem::replace(waiting, Waiting::Wavers) {
                // Nobody listens any more to one that is being taken back.
                let _ = tell.send(Told::Broken(fault.clone()));
            }
        }
    }

    pub(crate) fn ticket(self: &Arc<Self>) -> Ticket {
        let mut tickets = self.tickets();
        tickets.last += 1;
        let number = tickets.last;
        Ticket { session: self.clone(), number, told: self.expect(&mut tickets, number) }
    }

    fn expect(&self, tickets: &mut Tickets, number: u64) -> oneshot::Receiver<Told> {
        let (tell, told) = oneshot::channel();
        match (tickets.waiting.remove(&number), &*self.state.borrow()) {
            (Some(Waiting::Missed(outcome)), _) => _ = tell.send(Told::Event(outcome)),
            (_, State::Over(fault)) => _ = tell.send(Told::Broken(fault.clone())),
            _ => _ = tickets.waiting.insert(number, Waiting::Listens(tell)),
        }
        told
    }

    /// Until it is over, or nobody waits for long enough.
    async fn poll(self: Arc<Self>) {
        let (mut pause, mut heard) = (PAUSE_MIN, None);
        while let Some(connections) = self.connections.upgrade() {
            let connected = connections.open().await;
            drop(connections);
            let fault = match connected {
                Ok(connection) => self.converse(connection, heard.is_some()).await,
                Err(fault) => fault,
            };
            if self.is_over() {
                return;
            }
            if self.is_open() {
                // Those who wait need not know of it, if there is another connection at once.
                self.state.send_replace(State::Opening);
                (heard, pause) = (Some(Instant::now()), PAUSE_MIN);
                continue;
            }
            match heard {
                Some(heard) if heard.elapsed() < TTL && fault.may_pass() => self.becomes(State::Broken, &fault),
                _ => return self.becomes(State::Over, &fault),
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
        // Nobody asks this server any more.
        self.becomes(State::Over, &Fault::Unreachable(Fault::broken_at_once()));
    }

    /// On one connection, until it breaks or the session is over. It is open from the first answer on.
    async fn converse(&self, mut opened: Opened, was_open: bool) -> Fault {
        // A poll that acknowledges nothing would open another one of this name, in which nobody waits.
        if was_open && self.told.load(Relaxed) == 0 {
            if let Err(fault) = send(&mut opened, &request::cancel(&self.name, &[0]), POLL_MAX).await {
                return self.told_fault(fault);
            }
        }
        let mut polls = FuturesOrdered::new();
        let mut is_open = false;
        loop {
            while polls.len() < POLLS {
                // The first one is to tell at once that it is open.
                polls.push_back(poll(opened.clone(), self.call(is_open || !polls.is_empty())));
            }
            let next = timeout(POLL_MAX, polls.next()).await;
            let answered = next.ok().flatten().unwrap_or_else(|| Err(Fault::Silent(Fault::timed_out())));
            match answered.and_then(|(answer, sent_at)| request::told(answer, sent_at)) {
                Ok(events) => self.tell(events).await,
                Err(fault) => return self.told_fault(fault),
            }
            is_open = true;
            if !self.goes_on() {
                return Fault::Unreachable(Fault::broken_at_once());
            }
        }
    }

    /// Of a poll, and what it says of the session.
    fn told_fault(&self, fault: Fault) -> Fault {
        let fault = match fault {
            Fault::Refused(error) if server_line::is_unknown_command(&error) => Fault::TooOld(error),
            fault => fault,
        };
        self.heed(&fault);
        fault
    }

    fn call(&self, waits: bool) -> Cmd {
        request::events(&self.name, self.told.load(Relaxed), waits, TTL)
    }

    async fn tell(&self, events: Vec<Event>) {
        // What was told on a former connection, whose acknowledgement was lost, is told once more.
        let told = self.told.load(Relaxed);
        let Some(last) = events.last().map(|event| event.seq).filter(|last| *last > told) else { return };
        let mut unexpected = Vec::new();
        {
            let mut tickets = self.tickets();
            for Event { ticket, outcome, .. } in events.into_iter().filter(|event| event.seq > told) {
                match tickets.waiting.get_mut(&ticket) {
                    Some(waiting) => match std::mem::replace(waiting, Waiting::Wavers) {
                        // Nobody listens any more to one that is being taken back.
                        Waiting::Listens(tell) => _ = tell.send(Told::Event(outcome)),
                        Waiting::Wavers | Waiting::Missed(_) => *waiting = Waiting::Missed(outcome),
                    },
                    None if matches!(outcome, Ok(Verdict::Granted { .. })) => unexpected.push(ticket),
                    None => {}
                }
            }
        }
        if !unexpected.is_empty() {
            // If this fails, there is the lease, which is short.
            let _ = self.cancel(&unexpected).await;
        }
        self.told.store(last, Relaxed);
    }

    /// Says that it is open, unless nobody has waited for long enough, or its client is gone.
    fn goes_on(&self) -> bool {
        let Some(connections) = self.connections.upgrade() else { return false };
        let tickets = self.tickets();
        let is_unused = tickets.waiting.is_empty() && tickets.idle_since.elapsed() >= connections.limits().idle;
        let goes_on = !self.is_over() && !is_unused;
        self.state.send_if_modified(|state| match (goes_on, &state) {
            (true, State::Open) | (_, State::Over(_)) => false,
            (true, _) => {
                *state = State::Open;
                true
            }
            (false, _) => {
                // The server ends it a while after this connection.
                *state = State::Over(Fault::Unreachable(Fault::broken_at_once()));
                true
            }
        });
        goes_on
    }

    async fn cancel(&self, tickets: &[u64]) -> Result<Value, Fault> {
        match self.connections.upgrade() {
            Some(connections) => connections.send(&request::cancel(&self.name, tickets)).await,
            None => Err(Fault::Unreachable(Fault::broken_at_once())),
        }
    }

    fn tickets(&self) -> MutexGuard<'_, Tickets> {
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The answer, and the time right before it was asked for: another poll that was sent earlier may be under way still.
async fn poll(mut opened: Opened, call: Cmd) -> Result<(Value, Instant), Fault> {
    let sent_at = Instant::now();
    let answer = send(&mut opened, &call, TTL).await?;
    Ok((answer, sent_at))
}

impl Ticket {
    /// What becomes of it.
    pub(crate) async fn told(&mut self) -> Told {
        let lost = || Told::Broken(Fault::Unreachable(Fault::broken_at_once()));
        (&mut self.told).await.unwrap_or_else(|_| lost())
    }

    /// Before it is asked by again. What it was told meanwhile, and nobody has heard, it is told again.
    pub(crate) fn expect(&mut self) {
        let mut tickets = self.session.tickets();
        match self.told.try_recv() {
            // It listens still.
            Err(TryRecvError::Empty) => return,
            Ok(Told::Event(outcome)) => _ = tickets.waiting.insert(self.number, Waiting::Missed(outcome)),
            Ok(Told::Broken(_)) | Err(TryRecvError::Closed) => {}
        }
        self.told = self.session.expect(&mut tickets, self.number);
    }

    /// Takes it back. Returns whether it was found: then nothing of it is held or queued.
    pub(crate) async fn cancel(&self) -> Result<bool, Fault> {
        let answer = self.session.cancel(&[self.number]).await;
        if let Err(fault) = &answer {
            self.session.heed(fault);
        }
        Ok(matches!(answer?, Value::Int(1)))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut tickets = self.session.tickets();
        tickets.waiting.remove(&self.number);
        if tickets.waiting.is_empty() {
            tickets.idle_since = Instant::now();
        }
    }
}
