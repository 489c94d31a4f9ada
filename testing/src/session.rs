//! A process that waits by tickets, as the server sees it: a session, and the connection on which it gets its events.

use crate::{Client, Reply, Server, wait_until};

/// What became of a ticket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub seq: i64,
    pub ticket: String,
    pub outcome: String,
    pub value: Reply,
}

impl Event {
    /// A grant, with its token if there is one.
    #[must_use]
    pub fn granted(seq: i64, ticket: &str, token: Option<i64>) -> Self {
        let value = token.map_or(Reply::Nil, Reply::Int);
        Self { seq, ticket: ticket.to_owned(), outcome: "granted".to_owned(), value }
    }

    /// Whether it is an error that begins with this code.
    #[must_use]
    pub fn is_error(&self, code: &str) -> bool {
        self.outcome == "error" && self.value.as_text().starts_with(&format!("{code} "))
    }
}

impl Reply {
    /// The events of a reply to RLOCK.EVENTS.
    ///
    /// # Panics
    /// If it is no such reply.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        let event = |event: &Reply| {
            let [seq, ticket, outcome, value, ends_in @ ..] = event.as_list() else { panic!("no event: {event:?}") };
            let [ticket, outcome] = [ticket, outcome].map(|text| text.as_text().to_owned());
            assert_eq!(
                ends_in.len(),
                usize::from(outcome == "granted"),
                "what a grant has, and nothing else: {event:?}"
            );
            Event { seq: seq.as_int(), ticket, outcome, value: value.clone() }
        };
        self.as_list().iter().map(event).collect()
    }

    /// Of each grant among them: the ms from the beginning of the call until its lease ends.
    ///
    /// # Panics
    /// If one of the events is no grant.
    #[must_use]
    pub fn grants_end_in(&self) -> Vec<i64> {
        self.as_list().iter().map(|event| event.as_list()[4].as_int()).collect()
    }
}

pub struct Session {
    /// Its whole name.
    pub name: String,
    /// The connection on which it gets its events.
    pub connection: Client,
    /// Another one, for everything else.
    pub other: Client,
}

impl Session {
    /// One that stays attended for a minute after each call, and does not end before a test does.
    #[must_use]
    pub fn open(server: &Server, name: &str) -> Self {
        Self::open_for(server, name, 600_000)
    }

    /// One that ends so many ms after its last sign of life.
    ///
    /// # Panics
    /// If the session is not new.
    #[must_use]
    pub fn open_for(server: &Server, name: &str, ttl_ms: i64) -> Self {
        let name = format!("the-session-of-{name}");
        let mut session = Self { name, connection: server.client(), other: server.client() };
        assert_eq!(session.fetch(&format!("TTL {ttl_ms}")), []);
        session
    }

    /// A new connection takes the place of the one for events. It has sent nothing yet.
    pub fn reconnect(&mut self, server: &Server) {
        self.connection = server.client();
    }

    /// The same. Returns after the server has noticed that the session is unattended.
    pub fn hang_up(&mut self, server: &Server) {
        let unattended = self.other.figure("sessions_unattended");
        self.reconnect(server);
        wait_until("it is noticed", || self.other.figure("sessions_unattended") > unattended);
    }

    /// Asks for a lock by a ticket.
    pub fn ask(&mut self, command: &str, ticket: &str) -> Reply {
        self.other.say(&format!("{command} SESSION {} {ticket}", self.name))
    }

    /// The same, for a lock that the ticket has to wait for.
    ///
    /// # Panics
    /// If the ticket does not have to wait.
    pub fn wait_for(&mut self, command: &str, ticket: &str) {
        assert_eq!(self.ask(command, ticket), Reply::Text("WAITING".to_owned()), "{command} by {ticket}");
    }

    /// Calls for events with these options, and reads the answer.
    pub fn call(&mut self, options: &str) -> Reply {
        self.connection.say(&format!("RLOCK.EVENTS {} {options}", self.name))
    }

    /// The events of such a call.
    pub fn fetch(&mut self, options: &str) -> Vec<Event> {
        self.call(options).events()
    }

    /// Calls for events until there are so many, and acknowledges them.
    ///
    /// # Panics
    /// If there are not so many in time, or more.
    pub fn until_fetched(&mut self, count: usize) -> Vec<Event> {
        let mut events = Vec::new();
        wait_until(&format!("{count} events are events"), || {
            events.extend(self.fetch("WAIT 100"));
            events.len() >= count
        });
        assert_eq!(events.len(), count, "{events:?}");
        if let Some(last) = events.last() {
            assert_eq!(self.fetch(&format!("ACK {}", last.seq)), []);
        }
        events
    }

    /// Sends a call for events that waits, and returns once it does. There must be no event yet.
    pub fn arm(&mut self, options: &str) {
        let id = self.connection.say("CLIENT ID").as_int();
        self.connection
            .send(&format!("RLOCK.EVENTS {} {options}", self.name).split_ascii_whitespace().collect::<Vec<_>>());
        self.other.until_blocked(id);
    }

    /// Cancels tickets, or ends the session.
    pub fn cancel(&mut self, tickets: &str) -> Reply {
        self.other.say(&format!("RLOCK.CANCEL {} {tickets}", self.name))
    }
}

impl Server {
    /// A server with the module, a connection to it, and ann: a process that waits by tickets.
    #[must_use]
    pub fn with_session() -> (Self, Client, Session) {
        let (server, client) = Self::with_client();
        let ann = Session::open(&server, "ann");
        (server, client, ann)
    }
}

impl Client {
    /// Returns once the client of this number is blocked.
    pub fn until_blocked(&mut self, id: i64) {
        wait_until("the client is blocked", || {
            self.say(&format!("CLIENT LIST ID {id}")).as_text().contains(" flags=b")
        });
    }
}
