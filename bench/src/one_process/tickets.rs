//! The tickets of one session, by few connections: one that hears of grants, and one that gives back and asks again.
//! All the grants that come in one answer are seen to in one write.

use super::{Process, key};
use crate::contenders::LONG_LEASE;
use crate::line::{Line, packed};
use crate::session;
use std::cell::RefCell;
use std::collections::VecDeque;
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

/// A process that renews what it hears that it has, and goes on when it has the answer.
pub async fn work_after_renewal(process: Rc<Process>) {
    let mut session = Session::open(&process.socket).await;
    let asking = Asking::begin(Rc::clone(&process)).await;
    let renewals: Vec<_> = asking.waits.iter().map(|wait| wait.renewal.clone()).collect();
    let (answers, mut renewing) = Line::connect(&process.socket).await.split();
    let under_way = Rc::new(RefCell::new(VecDeque::new()));
    process.spawn(work_when_renewed(answers, Rc::clone(&under_way), asking));
    let mut granted = Vec::new();
    loop {
        session.hear(&mut granted).await;
        let commands: Vec<_> = granted.iter().flat_map(|&wait| renewals[wait].iter().copied()).collect();
        under_way.borrow_mut().extend(&granted);
        renewing.write_all(&commands).await.expect("the server takes commands");
        session.poll().await;
    }
}

/// The waits under way are renewed in their order.
async fn work_when_renewed<S: AsyncRead + Unpin>(
    mut answers: Line<S>,
    under_way: Rc<RefCell<VecDeque<usize>>>,
    mut asking: Asking,
) {
    let mut renewed = Vec::new();
    loop {
        renewed.clear();
        while renewed.is_empty() || answers.has_next() {
            assert_eq!(answers.next().await, ":1\r\n", "what was granted is held");
            renewed.extend(under_way.borrow_mut().pop_front());
        }
        asking.heard(&renewed);
        asking.once_more(&renewed).await;
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
            assert_eq!(self.line.next().await, "*4\r\n", "an event has four parts");
            self.heard.clear();
            self.heard.push_str(self.line.next().await.trim_start_matches(':').trim_end());
            self.line.skip(1).await;
            granted.push(Wait::of(self.line.next().await));
            self.line.skip(1).await;
            assert_eq!(self.line.next().await, "granted\r\n", "nothing else happens to a ticket here");
            self.line.skip(1).await;
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
    renewal: Vec<u8>,
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
        let renewal = packed(&["RLOCK.RENEW", &key, &holder, LONG_LEASE]);
        Self { lock, again, release, renewal, tickets: 0 }
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
