//! The tickets of one session, by few connections: one that hears of grants, and one that gives back and asks again.
//! All the grants that come in one answer are seen to in one write.

use super::{Process, key};
use crate::line::{Line, packed};
use crate::session;
use std::path::Path;
use std::rc::Rc;
use std::time::Instant;
use tokio::io::{AsyncRead, AsyncWriteExt};
use tokio::net::unix::OwnedWriteHalf;

/// A process that gives back each lock as soon as it hears that it has it.
pub async fn work(process: Rc<Process>) {
    let mut session = Session::open(&process.socket).await;
    let mut asking = Asking::begin(process).await;
    let mut granted = Vec::new();
    loop {
        session.hear(&mut granted).await;
        asking.heard(&granted);
        asking.once_more(&granted).await;
        session.poll().await;
    }
}

/// The connection that hears of grants.
struct Session {
    line: Line,
    /// Up to which event.
    heard: String,
}

impl Session {
    async fn open(socket: &Path) -> Self {
        let mut line = Line::connect(socket).await;
        line.send(&packed(&session::OPENING)).await;
        let mut session = Self { line, heard: "0".to_owned() };
        session.poll().await;
        session
    }

    async fn poll(&mut self) {
        self.line.send(&packed(&session::poll(&self.heard))).await;
    }

    /// The waits of the next answer's tickets, all of which are granted.
    async fn hear(&mut self, granted: &mut Vec<usize>) {
        granted.clear();
        let events = number(self.line.next().await);
        for _ in 0..events {
            assert_eq!(self.line.next().await, "*5\r\n", "a grant has five parts");
            self.heard.clear();
            self.heard.push_str(self.line.next().await.trim_start_matches(':').trim_end());
            self.line.skip(1).await;
            granted.push(Wait::of(self.line.next().await));
            self.line.skip(1).await;
            assert_eq!(self.line.next().await, "granted\r\n", "nothing else happens to a ticket here");
            self.line.skip(2).await;
        }
    }
}

/// How many there are: `*12`.
fn number(line: &str) -> usize {
    line[1..].trim_end().parse().expect("a number")
}

/// The connection that gives back and asks again.
struct Asking {
    commands: OwnedWriteHalf,
    waits: Vec<Wait>,
    process: Rc<Process>,
    packed: Vec<u8>,
}

impl Asking {
    /// All of them wait.
    async fn begin(process: Rc<Process>) -> Self {
        let scene = process.scene;
        let mut waits: Vec<_> = (0..scene.waits()).map(|number| Wait::new(number, scene.lock_of(number))).collect();
        let mut line = Line::connect(&process.socket).await;
        for wait in &mut waits {
            wait.next_ticket();
            line.send(&wait.again[wait.release..]).await;
            assert_eq!(line.next().await, "+WAITING\r\n", "all locks are held");
        }
        let (answers, commands) = line.split();
        process.spawn(read_on(answers));
        Self { commands, waits, process, packed: Vec::new() }
    }

    fn heard(&self, granted: &[usize]) {
        let now = Instant::now();
        granted.iter().for_each(|&wait| self.process.record.grant(self.waits[wait].lock, now));
    }

    async fn once_more(&mut self, granted: &[usize]) {
        self.packed.clear();
        for &wait in granted {
            self.waits[wait].next_ticket();
            self.packed.extend_from_slice(&self.waits[wait].again);
        }
        let now = Instant::now();
        granted.iter().for_each(|&wait| self.process.record.release(self.waits[wait].lock, now));
        self.commands.write_all(&self.packed).await.expect("the server takes commands");
    }
}

/// Who gives back is told so, and who asks waits: nobody gets a lock at once that others wait for.
async fn read_on<S: AsyncRead + Unpin>(mut answers: Line<S>) {
    loop {
        assert_eq!(answers.next().await, ":1\r\n", "what is given back was held");
        assert_eq!(answers.next().await, "+WAITING\r\n", "others wait already");
    }
}

/// One of the process's waits, which it begins again and again.
struct Wait {
    lock: usize,
    /// What gives the lock back, and from there on what asks for it again.
    again: Vec<u8>,
    release: usize,
    tickets: usize,
}

/// Tickets are numbers: that of the wait, and how often it has begun.
const OF_THE_WAIT: usize = 5;
const OF_ITS_TICKETS: usize = 9;

impl Wait {
    fn new(number: usize, lock: usize) -> Self {
        let (key, holder) = (key(lock), session::holder(number));
        let ticket = format!("{number:0OF_THE_WAIT$}{:0OF_ITS_TICKETS$}", 0);
        let mut again = packed(&["RLOCK.RELEASE", &key, &holder]);
        let release = again.len();
        again.extend(packed(&session::ask(&key, &holder, "0", &ticket)));
        Self { lock, again, release, tickets: 0 }
    }

    fn of(ticket: &str) -> usize {
        ticket[..OF_THE_WAIT].parse().expect("a wait's number")
    }

    /// The ticket is what the command ends with.
    fn next_ticket(&mut self) {
        self.tickets += 1;
        let end = self.again.len() - "\r\n".len();
        let mut rest = self.tickets;
        for digit in self.again[end - OF_ITS_TICKETS..end].iter_mut().rev() {
            *digit = b'0' + u8::try_from(rest % 10).expect("a digit");
            rest /= 10;
        }
    }
}
