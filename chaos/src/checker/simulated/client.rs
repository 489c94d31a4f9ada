//! What a simulated client is, and what it does next.

use super::lock::Time;
use crate::history::{Answer, Request, Side};
use rlock_testing::Random;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Commands,
    Scripts,
    Guards,
    /// By tickets.
    Sessions,
}

#[derive(Clone, Debug)]
pub struct Client {
    pub name: String,
    pub kind: Kind,
    pub number: u64,
    /// Of its attempt.
    pub lock: usize,
    pub holder: String,
    pub side: Side,
    pub lease_ms: u64,
    pub holds: u32,
    /// The number of the call that a guard came of.
    pub guard: u64,
    pub guarded_until: Time,
    /// When a guard's work is done.
    pub done_at: Time,
    pub is_stalled: bool,
    /// The request of the ticket that it waits by.
    pub pending: Option<usize>,
}

/// Longer than a session lives on by itself.
pub const LONG_LEASE_MS: u64 = 4_000;

pub enum Next {
    /// A new attempt, after so long.
    Rest(Time),
    /// Goes on with what it holds, after so long.
    Hold(Time),
    Send(Request),
}

impl Client {
    pub fn new(name: String, kind: Kind) -> Self {
        Self {
            name,
            kind,
            number: 0,
            lock: 0,
            holder: String::new(),
            side: Side::Plain,
            lease_ms: 0,
            holds: 0,
            guard: 0,
            guarded_until: 0,
            done_at: 0,
            is_stalled: false,
            pending: None,
        }
    }

    pub fn begin(&mut self, lock: usize, side: Side, random: &mut Random) {
        self.lock = lock;
        self.side = side;
        self.holder = format!("{}/{}", self.name, self.number);
        self.lease_ms = random.one_of(&[40, 80, 150, 300]);
        if self.kind == Kind::Sessions && random.is(15) {
            self.lease_ms = LONG_LEASE_MS;
        }
        self.holds = 0;
    }

    pub fn acquire(&self, wait_ms: Option<u64>, random: &mut Random) -> Request {
        let (side, lease_ms, fenced) = (self.side, self.lease_ms, random.is(50));
        let by_script = self.kind == Kind::Scripts;
        Request::Acquire { side, lease_ms, wait_ms, fenced, by_script, replicas: 0, session: None }
    }

    pub fn first_attempt(&self, random: &mut Random) -> Request {
        let wait_ms = match self.kind {
            Kind::Scripts => None,
            _ => random.one_of(&[None, Some(0), Some(50), Some(400), Some(1_000)]),
        };
        self.acquire(wait_ms, random)
    }

    /// It has the lock, and some time has passed.
    pub fn act(&self, random: &mut Random) -> Next {
        match random.below(100) {
            0..15 if self.holds < 3 => Next::Send(self.acquire(None, random)),
            15..40 => {
                let shorter = random.is(30);
                Next::Send(Request::Renew { lease_ms: if shorter { self.lease_ms / 2 } else { self.lease_ms } })
            }
            40..45 => Next::Hold(self.lease_ms * 1_500),
            // It dies.
            45..48 => Next::Rest(10_000),
            48..52 => Next::Send(Request::Release { side: self.side, all: true }),
            _ => Next::Send(Request::Release { side: self.side, all: false }),
        }
    }

    pub fn after(&mut self, request: &Request, answer: &Answer, random: &mut Random) -> Next {
        let rest = Next::Rest(random.between((0, 20_000)));
        match (request, answer) {
            (Request::Acquire { wait_ms: Some(_), .. }, Answer::Granted { .. }) if self.kind == Kind::Sessions => {
                self.holds += 1;
                Next::Send(Request::Renew { lease_ms: self.lease_ms })
            }
            (Request::Cancel { .. }, Answer::Cancelled(Some(false))) => {
                Next::Send(Request::Release { side: self.side, all: true })
            }
            (Request::Acquire { .. }, Answer::Granted { .. }) => {
                self.holds += 1;
                Next::Hold(random.between((100, 12_000)))
            }
            (Request::Acquire { .. }, Answer::Refused { .. }) if self.holds > 0 => Next::Hold(1_000),
            (Request::Acquire { .. }, Answer::Refused { .. }) if self.kind != Kind::Sessions && random.is(40) => {
                Next::Send(self.first_attempt(random))
            }
            (Request::Acquire { .. }, Answer::Unknown(_)) => {
                Next::Send(Request::Release { side: self.side, all: true })
            }
            (Request::Renew { .. }, Answer::Renewed(true)) if self.lease_ms == LONG_LEASE_MS && random.is(60) => {
                Next::Hold(LONG_LEASE_MS * 400)
            }
            (Request::Renew { .. }, Answer::Renewed(true) | Answer::Unknown(_)) => {
                Next::Hold(random.between((100, 15_000)))
            }
            (Request::Release { all: false, .. }, Answer::Released(Some(_))) if self.holds > 1 => {
                self.holds -= 1;
                Next::Hold(random.between((100, 5_000)))
            }
            _ => rest,
        }
    }
}
