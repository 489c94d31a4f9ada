//! A server, a client that does everything except wait, and the waiters: blocked clients, and tickets of one session, in
//! turn.

use rlock_testing::{Client, Event, Reply, Server, Session, list, start_waiting, wait_until};
use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

/// The kind of a scene's first waiter: the second waiter is of the other kind, and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First {
    Client,
    Ticket,
}

pub struct Scene<'a> {
    pub server: &'a Server,
    /// The client of commands that name no other.
    client: Client,
    first: First,
    session: Rc<RefCell<Delivered>>,
    waits: usize,
}

/// A session, and its events so far.
pub struct Delivered {
    session: Session,
    events: Vec<Event>,
}

pub enum Waiter {
    Blocked(Client),
    Ticket(String, Rc<RefCell<Delivered>>),
}

/// What a wait came to.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// With the token, if one was asked for.
    Granted(Option<i64>),
    /// With the ms that were left of the lock.
    TimeIsUp(i64),
    /// With the answer of another holder's work. A ticket's event does not have it.
    Answered(Option<String>),
    Error(String),
    /// The connection was closed instead.
    CutOff,
}

pub const GRANTED: Outcome = Outcome::Granted(None);

impl<'a> Scene<'a> {
    pub fn at(server: &'a Server, first: First) -> Self {
        let received = Delivered { session: Session::open(server, "the-waiting-process"), events: Vec::new() };
        Self { server, client: server.client(), first, session: Rc::new(RefCell::new(received)), waits: 0 }
    }

    /// The same at another server.
    pub fn moved_to<'b>(&self, server: &'b Server) -> Scene<'b> {
        Scene::at(server, self.first)
    }

    /// The whole name of the session.
    pub fn session_name(&self) -> String {
        self.session.borrow().session.name.clone()
    }

    fn next(&self) -> First {
        if (self.waits % 2 == 0) == (self.first == First::Client) { First::Client } else { First::Ticket }
    }

    /// Has the next waiter send its command, and returns once it waits.
    pub fn wait(&mut self, command: &str) -> Waiter {
        self.wait_as(self.next(), command)
    }

    /// The same, for a waiter of this kind.
    pub fn wait_as(&mut self, kind: First, command: &str) -> Waiter {
        self.waits += 1;
        match kind {
            First::Client => Waiter::Blocked(start_waiting(self.server, command)),
            First::Ticket => {
                let name = self.waits.to_string();
                self.session.borrow_mut().session.wait_for(command, &name);
                Waiter::Ticket(name, Rc::clone(&self.session))
            }
        }
    }

    /// Has the next waiter send a command that does not have to wait.
    pub fn ask(&mut self, command: &str) -> Reply {
        self.ask_as(self.next(), command)
    }

    /// The same, for a waiter of this kind.
    pub fn ask_as(&mut self, kind: First, command: &str) -> Reply {
        self.waits += 1;
        match kind {
            First::Client => self.server.client().say(command),
            First::Ticket => self.session.borrow_mut().session.ask(command, &self.waits.to_string()),
        }
    }
}

impl Deref for Scene<'_> {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl DerefMut for Scene<'_> {
    fn deref_mut(&mut self) -> &mut Client {
        &mut self.client
    }
}

impl Waiter {
    /// Returns once the waiter has its outcome.
    pub fn outcome(&mut self) -> Outcome {
        match self {
            Self::Blocked(client) => client.try_receive().map_or(Outcome::CutOff, |reply| Outcome::from(&reply)),
            Self::Ticket(name, received) => {
                let Delivered { session, events } = &mut *received.borrow_mut();
                let mut at = None;
                wait_until("the session gets the event of the ticket", || {
                    at = events.iter().position(|event| event.ticket == *name);
                    if at.is_none() {
                        events.extend(session.fetch("WAIT 100"));
                    }
                    at.is_some()
                });
                Outcome::from(&events.remove(at.expect("it is there")))
            }
        }
    }

    /// # Panics
    /// If it is not granted the lock, or gets a token.
    #[track_caller]
    pub fn is_granted(&mut self) {
        assert_eq!(self.outcome(), GRANTED);
    }

    /// Gives up: the client is gone, or the ticket taken back.
    pub fn leave(self, watch: &mut Client) {
        let waiters = watch.figure("waiters");
        match self {
            Self::Blocked(client) => drop(client),
            Self::Ticket(name, received) => {
                assert_eq!(received.borrow_mut().session.cancel(&name), list([Reply::Int(1)]));
            }
        }
        wait_until("it has left", || watch.figure("waiters") < waiters);
    }
}

impl Outcome {
    /// The token of a grant.
    #[track_caller]
    pub fn token(&self) -> i64 {
        match self {
            Self::Granted(Some(token)) => *token,
            other => panic!("no grant with a token: {other:?}"),
        }
    }

    /// Whether it is an error that begins with this code.
    pub fn is_error(&self, code: &str) -> bool {
        matches!(self, Self::Error(line) if line.starts_with(&format!("{code} ")))
    }
}

impl From<&Reply> for Outcome {
    fn from(reply: &Reply) -> Self {
        match reply {
            Reply::Nil => GRANTED,
            Reply::Int(left) => Self::TimeIsUp(*left),
            Reply::Error(line) => Self::Error(line.clone()),
            Reply::List(pair) => match pair[..] {
                [Reply::Nil, Reply::Int(token)] => Self::Granted(Some(token)),
                [Reply::Int(left), Reply::Nil] => Self::TimeIsUp(left),
                _ => panic!("no answer to a wait: {reply:?}"),
            },
            Reply::Text(answer) => Self::Answered(Some(answer.clone())),
        }
    }
}

impl From<&Event> for Outcome {
    fn from(event: &Event) -> Self {
        match (event.outcome.as_str(), &event.value) {
            ("granted", Reply::Nil) => GRANTED,
            ("granted", token) => Self::Granted(Some(token.as_int())),
            ("timeout", left) => Self::TimeIsUp(left.as_int()),
            ("answered", Reply::Nil) => Self::Answered(None),
            (_, line) => Self::Error(line.as_text().to_owned()),
        }
    }
}
