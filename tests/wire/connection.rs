//! A connection that keeps accounts: what was sent, what is still to be answered, and whether each answer is allowed.

use crate::contract::{self, Command};
use rlock_testing::resp::{Frame, Protocol, Received, packed};
use rlock_testing::{PATIENCE, Server, ServerVersion};
use std::collections::VecDeque;
use std::io::{ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::sync::LazyLock;
use std::time::Instant;

pub struct Connection {
    stream: UnixStream,
    protocol: Protocol,
    to_write: Vec<u8>,
    received: Received,
    /// Commands that were sent, and are not answered yet.
    unanswered: VecDeque<Command>,
    /// The commands that wait for EXEC, after MULTI.
    queued: Option<Vec<Command>>,
    /// The database that it has selected, which no other client may change.
    database: i64,
    pub id: i64,
    /// Whether each command is owed one answer: not if it has asked the server to be silent, or to monitor everything.
    pub is_counted: bool,
    /// Whether the server may close it.
    pub may_be_closed: bool,
    is_closed: bool,
}

impl Connection {
    pub fn to(server: &Server) -> Self {
        let stream = UnixStream::connect(server.socket()).expect("the server accepts connections");
        stream.set_nonblocking(true).expect("a socket that does not block");
        let mut connection = Self {
            stream,
            protocol: Protocol::Resp2,
            to_write: Vec::new(),
            received: Received::default(),
            unanswered: VecDeque::new(),
            queued: None,
            database: 0,
            id: 0,
            is_counted: true,
            may_be_closed: false,
            is_closed: false,
        };
        let Frame::Int(id) = connection.say("CLIENT ID") else { panic!("an id is a number") };
        connection.id = id;
        connection
    }

    /// Sends a command, given as words with spaces between them, and waits for its reply.
    pub fn say(&mut self, command: &str) -> Frame {
        self.ask(&command.split(' ').map(|word| word.as_bytes().to_vec()).collect())
    }

    pub fn ask(&mut self, command: &Command) -> Frame {
        self.ask_all(std::slice::from_ref(command)).remove(0)
    }

    /// Sends commands in one piece, and waits for their replies.
    pub fn ask_all(&mut self, commands: &[Command]) -> Vec<Frame> {
        commands.iter().for_each(|command| self.owe(command.clone()));
        self.send(&commands.iter().map(|command| packed(command)).collect::<Vec<_>>().concat());
        let (mut replies, deadline) = (Vec::new(), Instant::now() + PATIENCE);
        while replies.len() < commands.len() {
            let command = &commands[replies.len()];
            assert!(!self.is_closed, "{}: the connection is closed", words_of(command));
            assert!(Instant::now() < deadline, "{} is not answered", words_of(command));
            let before = replies.len();
            self.write();
            self.read(|reply| replies.push(reply));
            if replies.len() == before {
                std::thread::sleep(std::time::Duration::from_micros(50));
            }
        }
        replies
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.to_write.extend_from_slice(bytes);
        self.write();
    }

    /// Notes a command that was sent whole.
    pub fn owe(&mut self, command: Command) {
        if self.is_counted {
            self.unanswered.push_back(command);
        }
    }

    /// Whether the server still has to answer. Babble does not count: Redis 8.0 reads a protocol error after a wait only
    /// when more bytes come.
    pub fn owes(&self) -> bool {
        !self.is_closed && self.unanswered.iter().any(|command| *command != babble())
    }

    /// Writes and reads as much as is possible without waiting.
    pub fn turn(&mut self) {
        self.write();
        self.read(drop);
    }

    pub fn close(&mut self) {
        (self.is_closed, self.may_be_closed) = (true, true);
        self.to_write.clear();
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
    }

    /// For messages: how many commands are unanswered, and the first of them.
    pub fn state(&self) -> String {
        let first = self.unanswered.front().map_or_else(String::new, |command| words_of(command));
        format!("client {}: {} unanswered, the first is {first}", self.id, self.unanswered.len())
    }

    fn write(&mut self) {
        while !self.to_write.is_empty() && !self.is_closed {
            match self.stream.write(&self.to_write) {
                Ok(count) => drop(self.to_write.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // Nothing more is written; what the server still has to say is read first.
                Err(_) => self.to_write.clear(),
            }
        }
    }

    fn read(&mut self, mut each: impl FnMut(Frame)) {
        while !self.is_closed {
            match self.received.read(&mut self.stream) {
                Ok(1..) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Ok(0) | Err(_) => self.is_closed = true,
            }
        }
        loop {
            match self.received.take(self.next_protocol()) {
                Ok(Some(frame)) => {
                    self.account(&frame);
                    if !matches!(frame, Frame::Push(_)) {
                        each(frame);
                    }
                }
                Ok(None) => break,
                Err(malformed) => panic!("{malformed:?}; {}", self.state()),
            }
        }
        let was_cut = self.is_closed && !(self.may_be_closed || self.unanswered.is_empty() && self.received.is_empty());
        assert!(!was_cut, "closed before all was answered: {}", self.state());
    }

    /// HELLO is answered in the protocol that it asks for, or by an error, which is alike in both.
    fn next_protocol(&self) -> Protocol {
        let is_hello = self.unanswered.front().is_some_and(|command| command[0] == b"HELLO");
        if is_hello { resp3() } else { self.protocol }
    }

    fn account(&mut self, reply: &Frame) {
        assert!(!reply.mentions("internal error in rlock"), "{reply:?} to {}", self.state());
        if !self.is_counted {
            return;
        }
        if let Frame::Push(message) = reply {
            let is_answer = message.first().is_some_and(|kind| kind.text() == b"subscribe");
            if is_answer && self.unanswered.front().is_some_and(|command| command[0] == b"SUBSCRIBE") {
                self.unanswered.pop_front();
            }
            return;
        }
        let Some(command) = self.unanswered.pop_front() else { panic!("{reply:?} is an answer to nothing") };
        match self.queued.take() {
            Some(queued) => self.account_in_transaction(queued, command, reply),
            None => {
                self.check(&command, reply);
                match command[0].as_slice() {
                    b"MULTI" if reply.is("OK") => self.queued = Some(Vec::new()),
                    b"HELLO" if reply.error().is_none() => {
                        self.protocol = if command[1] == b"3" { resp3() } else { Protocol::Resp2 };
                    }
                    b"RESET" if reply.is("RESET") => self.protocol = Protocol::Resp2,
                    _ => {}
                }
            }
        }
    }

    fn account_in_transaction(&mut self, mut queued: Vec<Command>, command: Command, reply: &Frame) {
        match (command[0].as_slice(), reply) {
            (b"DISCARD", reply) if reply.is("OK") => {}
            (b"EXEC", Frame::Nil | Frame::Error(_)) => {}
            (b"EXEC", Frame::List(replies)) => {
                assert_eq!(replies.len(), queued.len(), "as many replies as commands: {replies:?}");
                queued.iter().zip(replies).for_each(|(command, reply)| self.check(command, reply));
            }
            (_, Frame::Error(_)) => {
                check_refused(&command, reply);
                self.queued = Some(queued);
            }
            (_, reply) if reply.is("QUEUED") => {
                queued.push(command);
                self.queued = Some(queued);
            }
            _ => panic!("{reply:?} to {} in a transaction", words_of(&command)),
        }
    }

    /// The reply to a command that was run.
    fn check(&mut self, command: &Command, reply: &Frame) {
        check(command, reply);
        match command.iter().map(Vec::as_slice).collect::<Vec<_>>()[..] {
            [b"SELECT", number] if reply.is("OK") => {
                self.database = String::from_utf8_lossy(number).parse().expect("a database has a number");
            }
            [b"RESET"] if reply.is("RESET") => self.database = 0,
            [b"CLIENT", b"INFO"] if reply.error().is_none() => {
                let info = String::from_utf8_lossy(reply.text());
                let selected = info.split(' ').find_map(|field| field.strip_prefix("db="));
                assert_eq!(
                    selected,
                    Some(&*self.database.to_string()),
                    "another database is selected: {}",
                    self.state()
                );
            }
            _ => {}
        }
    }
}

/// The placeholder for bytes that are not a command.
pub fn babble() -> Command {
    vec![b"(babble)".to_vec()]
}

fn resp3() -> Protocol {
    static IS_STRICT: LazyLock<bool> = LazyLock::new(|| ServerVersion::under_test().has_what_redis_has(7, 2));
    if *IS_STRICT { Protocol::Resp3 } else { Protocol::LooseResp3 }
}

fn check(command: &Command, reply: &Frame) {
    if let Some(fault) = contract::fault(command, reply) {
        panic!("{fault}: {reply:?} to {}", words_of(command));
    }
}

/// Before it queues a command, the server checks only its number of words, rights and the like: other errors in its words
/// are found later.
fn check_refused(command: &Command, reply: &Frame) {
    let line = reply.error().unwrap_or_default();
    if contract::ours(command).is_some() && !line.starts_with("ERR wrong number of arguments") {
        assert!(!line.starts_with("ERR"), "{reply:?} to {} in a transaction", words_of(command));
        check(command, reply);
    }
}

/// A command in readable form; long words are shortened.
pub fn words_of(command: &[Vec<u8>]) -> String {
    let word = |word: &Vec<u8>| match word.len() {
        0 => "''".to_owned(),
        1..=120 => word.escape_ascii().to_string(),
        length => format!("<{length} bytes of {}>", char::from(word[0])),
    };
    command.iter().map(word).collect::<Vec<_>>().join(" ")
}
