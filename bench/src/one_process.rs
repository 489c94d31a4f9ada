//! A process that waits for many locks at once: with the tickets of one session, or with one blocked client for each
//! wait.
//!
//! With tickets it has two connections: it gets grants on one, and releases and asks again on the other. It handles all
//! grants of one reply in one write.

use crate::Part;
use crate::by_clock::{self, Scene, Turn, Way};
use crate::figures::Figures;
use crate::hand_over;
use crate::line::{Line, packed};
use crate::plan::Plan;
use crate::row::Row;
use crate::session;
use futures_util::future::join;
use rlock_testing::make_room_for;
use std::path::Path;
use std::rc::Rc;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::task::spawn_local;

pub const PART: Part = Part {
    name: "one process",
    how: "As for hand-over, but all waiters are of one process, which waits by the tickets of one session. Many \
              locks at once are what sessions are for; with one lock only one hand-over is under way at any time.",
    measure,
    rows,
};

/// With the bar of each.
const SCENES: [(Scene, f64); 2] = [(Scene { locks: 100, waiters: 8 }, 3.5), (Scene { locks: 1, waiters: 64 }, 1.0)];

static WAYS: [Way; 2] = {
    let [blocked, ..] = hand_over::WAYS;
    let [again, ..] = hand_over::WAYS;
    [Way { id: "tickets", begin: |_, turn| vec![spawn_local(process(Rc::clone(turn)))], ..again }, blocked]
};

fn measure(plan: &Plan, figures: &mut Figures) {
    for (scene, _) in SCENES {
        make_room_for(scene.waits()).unwrap_or_else(|reason| panic!("{reason}"));
        by_clock::measure(plan, figures, &id(scene), scene, &WAYS);
    }
}

fn id(scene: Scene) -> String {
    format!("process.{}", scene.locks)
}

fn rows(_: &Plan) -> Vec<Row> {
    let row = |(scene, bar): (Scene, f64)| {
        let what = format!("tickets, locks × waiters: {} × {}", scene.locks, scene.waiters);
        let [ours, other] = ["tickets", "rlock"].map(|way| format!("{}.{way}", id(scene)));
        Row::compare(&what, &ours, "a blocked client each", &other).bar(bar)
    };
    SCENES.map(row).into()
}

/// The process. It releases each lock as soon as it gets it.
async fn process(turn: Rc<Turn>) {
    let mut session = Session::open(&turn.socket).await;
    let (mut asking, replies) = Asking::begin(&turn).await;
    let mut granted = Vec::new();
    let work = async {
        loop {
            session.hear(&mut granted).await;
            granted.iter().for_each(|&wait| turn.grants.give(wait));
            asking.again(&granted).await;
            session.poll().await;
        }
    };
    join(work, read_on(replies)).await;
}

/// The connection for grants.
struct Session {
    line: Line,
    /// The last event.
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

    /// Reads the next reply, and collects the waits of its tickets. All of them are granted.
    async fn hear(&mut self, granted: &mut Vec<usize>) {
        granted.clear();
        // `*12`
        let events: usize = self.line.next().await[1..].trim_end().parse().expect("a number");
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

/// The connection that releases and asks again.
struct Asking {
    commands: OwnedWriteHalf,
    waits: Vec<Wait>,
    packed: Vec<u8>,
}

impl Asking {
    /// Begins all waits.
    async fn begin(turn: &Turn) -> (Self, Line<OwnedReadHalf>) {
        let scene = turn.scene;
        let mut waits: Vec<_> = (0..scene.waits()).map(|number| Wait::new(number, &scene.lock_of(number))).collect();
        let mut line = Line::connect(&turn.socket).await;
        for wait in &mut waits {
            wait.next_ticket();
            line.send(&wait.again[wait.release..]).await;
            assert_eq!(line.next().await, "+WAITING\r\n", "all locks are held");
        }
        let (replies, commands) = line.split();
        (Self { commands, waits, packed: Vec::new() }, replies)
    }

    async fn again(&mut self, granted: &[usize]) {
        self.packed.clear();
        for &wait in granted {
            self.waits[wait].next_ticket();
            self.packed.extend_from_slice(&self.waits[wait].again);
        }
        self.commands.write_all(&self.packed).await.expect("the server takes commands");
    }
}

/// Each lock has other waiters, so no request is granted at once.
async fn read_on(mut replies: Line<OwnedReadHalf>) {
    loop {
        assert_eq!(replies.next().await, ":1\r\n", "the process held what it releases");
        assert_eq!(replies.next().await, "+WAITING\r\n", "others wait already");
    }
}

/// One of the process's waits, which it begins again and again.
struct Wait {
    /// The release of the lock, and from `release` on the next request.
    again: Vec<u8>,
    release: usize,
    tickets: usize,
}

/// A ticket has two numbers: that of the wait, and how often the wait has begun. These are their digits.
const OF_THE_WAIT: usize = 5;
const OF_ITS_TICKETS: usize = 9;

impl Wait {
    fn new(number: usize, lock: &str) -> Self {
        let holder = session::holder(number);
        let ticket = format!("{number:0OF_THE_WAIT$}{:0OF_ITS_TICKETS$}", 0);
        let mut again = packed(&["RLOCK.RELEASE", lock, &holder]);
        let release = again.len();
        again.extend(packed(&session::ask(lock, &holder, "0", &ticket)));
        Self { again, release, tickets: 0 }
    }

    fn of(ticket: &str) -> usize {
        ticket[..OF_THE_WAIT].parse().expect("a wait's number")
    }

    /// Counts up the ticket, with which the command ends.
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
