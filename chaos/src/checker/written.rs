//! Small histories written by hand, in ms, on one lock: what a check must accept and what it must report.

use super::{Failovers, Promise, check};
use crate::history::{
    Answer, By, Call, Holding, Moment, Promotion, Reach, Record, Request, Sample, Side, Trouble, Waiting, WaitsBy,
};
use std::time::Duration;

/// The kind of all failovers here.
const BY: &str = "killed";

#[derive(Default)]
pub struct Written {
    records: Vec<Record>,
    calls: u64,
    /// The lock of the calls and samples. None: `l`.
    lock: Option<&'static str>,
}

fn ms(time: u64) -> Moment {
    Moment(0) + Duration::from_millis(10_000 + time)
}

fn asking(side: Side, lease_ms: u64, wait_ms: Option<u64>) -> Request {
    by(By::Acquire, (side, lease_ms, wait_ms))
}

fn by(by: By, (side, lease_ms, wait_ms): (Side, u64, Option<u64>)) -> Request {
    let (limit, beside) = Default::default();
    Request::Acquire { side, limit, beside, lease_ms, wait_ms, fenced: false, by }
}

pub fn permit(lease_ms: u64, of: u32) -> Request {
    with(acquire(Side::Permit, lease_ms), of, &[])
}

pub fn wait_for(mut request: Request, time_ms: u64) -> Request {
    if let Request::Acquire { wait_ms, .. } = &mut request {
        *wait_ms = Some(time_ms);
    }
    request
}

pub fn with(mut request: Request, of: u32, others: &[&str]) -> Request {
    if let Request::Acquire { limit, beside, .. } = &mut request {
        (*limit, *beside) = (of, others.iter().map(|lock| (*lock).to_owned()).collect());
    }
    request
}

pub fn acquire(side: Side, lease_ms: u64) -> Request {
    asking(side, lease_ms, None)
}

pub fn take(lease_ms: u64) -> Request {
    acquire(Side::Plain, lease_ms)
}

pub fn wait(lease_ms: u64, wait_ms: u64) -> Request {
    asking(Side::Plain, lease_ms, Some(wait_ms))
}

pub fn script(lease_ms: u64) -> Request {
    by(By::Script, (Side::Plain, lease_ms, None))
}

pub fn once(lease_ms: u64, wait_ms: Option<u64>) -> Request {
    by(By::Once, (Side::Plain, lease_ms, wait_ms))
}

pub fn answer(value: &str, keep_ms: u64) -> Request {
    Request::Answer { value: value.to_owned(), keep_ms }
}

pub fn got(value: &str) -> Answer {
    Answer::Got { value: value.to_owned() }
}

/// A request by a guard of `rlock-client`.
pub fn guard(lease_ms: u64) -> Request {
    Request::Guard { side: Side::Plain, limit: 0, lease_ms, fenced: false }
}

pub fn renew(lease_ms: u64) -> Request {
    Request::Renew { lease_ms }
}

pub fn give(side: Side) -> Request {
    Request::Release { side, all: false }
}

pub fn granted() -> Answer {
    Answer::Granted { token: None }
}

pub fn token(token: u64) -> Answer {
    Answer::Granted { token: Some(token) }
}

pub fn refused(left_ms: i64) -> Answer {
    Answer::Refused { left_ms }
}

pub fn unknown() -> Answer {
    Answer::Unknown("reset".to_owned())
}

impl Written {
    /// The following records are about this lock.
    pub fn on(mut self, lock: &'static str) -> Self {
        self.lock = Some(lock);
        self
    }

    fn lock(&self) -> String {
        self.lock.unwrap_or("l").to_owned()
    }

    /// The client has the holder's name, up to a dash; so one client can have several holders.
    pub fn did(mut self, holder: &str, request: Request, (called, answered): (u64, u64), answer: Answer) -> Self {
        self = self.called(holder, request, called);
        let (client, number) = (client(holder), self.calls);
        self.records.push(Record::Answered { at: ms(answered), client, number, answer });
        self
    }

    pub fn called(mut self, holder: &str, request: Request, at: u64) -> Self {
        self.calls += 1;
        let (client, number, holder, lock) = (client(holder), self.calls, holder.to_owned(), self.lock());
        self.records.push(Record::Called(Call { at: ms(at), client, number, lock, holder, request }));
        self
    }

    /// Waiters by ticket: name, when it began to wait, whether its session is attended.
    pub fn seen_by_ticket(self, at: u64, holders: &[(&str, Side)], waiters: &[(&str, u64, bool)]) -> Self {
        let plain: Vec<(&str, Side, u64)> =
            waiters.iter().map(|(holder, since, _)| (*holder, Side::Plain, *since)).collect();
        let mut written = self.seen(at, holders, &plain);
        if let Some(Record::Seen(sample)) = written.records.last_mut() {
            for (waiting, (name, _, is_attended)) in sample.waiters.iter_mut().zip(waiters) {
                let (name, connection, is_attended) = ((*name).to_owned(), Some(7), *is_attended);
                waiting.by = WaitsBy::Ticket { name, connection, is_attended };
            }
        }
        written
    }

    /// The sessions of the waiters seen last are polled on that connection.
    pub fn on_connection(self, number: i64) -> Self {
        self.polled_on(Some(number))
    }

    pub fn on_no_connection(self) -> Self {
        self.polled_on(None)
    }

    fn polled_on(mut self, number: Option<i64>) -> Self {
        if let Some(Record::Seen(sample)) = self.records.last_mut() {
            for waiting in &mut sample.waiters {
                if let WaitsBy::Ticket { connection, .. } = &mut waiting.by {
                    *connection = number;
                }
            }
        }
        self
    }

    /// The waiters seen last wait for several locks.
    pub fn for_several(mut self) -> Self {
        if let Some(Record::Seen(sample)) = self.records.last_mut() {
            sample.waiters.iter_mut().for_each(|waiting| waiting.locks = 2);
        }
        self
    }

    /// The waiters seen last wait for permits with this limit.
    pub fn by_limit(mut self, limit: u32) -> Self {
        if let Some(Record::Seen(sample)) = self.records.last_mut() {
            sample.waiters.iter_mut().for_each(|waiting| waiting.limit = limit);
        }
        self
    }

    /// A guarantee for the latest call.
    pub fn vouched(mut self, holder: &str, at: u64, until: u64) -> Self {
        let (at, until, number) = (ms(at), ms(until), self.calls);
        self.records.push(Record::Vouched { at, client: client(holder), number, until });
        self
    }

    pub fn ended(mut self, holder: &str, at: u64) -> Self {
        self.records.push(Record::Ended { at: ms(at), client: client(holder), number: self.calls });
        self
    }

    /// The holders, and the waiters with the time when each began to wait.
    pub fn seen(self, at: u64, holders: &[(&str, Side)], waiters: &[(&str, Side, u64)]) -> Self {
        self.seen_with(at, 50, holders, waiters)
    }

    /// The same, and the remaining lease.
    pub fn seen_with(mut self, at: u64, left_ms: i64, holders: &[(&str, Side)], waiters: &[(&str, Side, u64)]) -> Self {
        let holding = |(holder, side): &(&str, Side)| Holding {
            holder: (*holder).to_owned(),
            side: *side,
            count: 1,
            ttl_ms: Some(left_ms),
        };
        let waiting = |(holder, side, since): &(&str, Side, u64)| Waiting {
            holder: (*holder).to_owned(),
            side: *side,
            limit: 0,
            locks: 1,
            by: WaitsBy::Client(7),
            waited_ms: i64::try_from(at - since).expect("a short time"),
        };
        self.records.push(Record::Seen(Sample {
            asked: ms(at),
            answered: ms(at) + Duration::from_micros(100),
            server: "a".to_owned(),
            lock: self.lock(),
            ttl_ms: if holders.is_empty() { -2 } else { left_ms },
            holders: holders.iter().map(holding).collect(),
            waiters: waiters.iter().map(waiting).collect(),
        }));
        self
    }

    /// Sets the lock's lease in the last sample: it is another holder's if the lock has permits.
    pub fn with_lock_lease(mut self, left_ms: i64) -> Self {
        if let Some(Record::Seen(sample)) = self.records.last_mut() {
            sample.ttl_ms = left_ms;
        }
        self
    }

    pub fn troubled(mut self, (began, ended): (u64, u64), reach: Reach) -> Self {
        let (began, ended, what) = (ms(began), ms(ended), "trouble".to_owned());
        self.records.push(Record::Troubled(Trouble { began, ended, what, reach }));
        self
    }

    /// A new master, which knew the lock with these holders.
    pub fn promoted(mut self, (from, until): (u64, u64), holders: &[&str]) -> Self {
        let knew = [(self.lock(), holders.iter().map(|holder| (*holder).to_owned()).collect())].into();
        let (from, until, server, by) = (ms(from), ms(until), "b".to_owned(), BY.to_owned());
        self.records.push(Record::Promoted(Promotion { from, until, server, by, knew }));
        self
    }

    pub fn forbade(mut self, (from, until): (u64, u64)) -> Self {
        let (from, until, server, what) = (ms(from), ms(until), "a".to_owned(), "FullMemory".to_owned());
        self.records.push(Record::Forbade { from, until, server, what });
        self
    }

    pub fn records(mut self) -> Vec<Record> {
        self.records.sort_by_key(Record::at);
        self.records
    }

    /// The promises that the checker finds broken.
    pub fn broken(self) -> Vec<Promise> {
        check(&self.records()).violations.into_iter().map(|violation| violation.promise).collect()
    }

    pub fn breaks(self, promise: Promise) -> bool {
        self.broken().contains(&promise)
    }

    pub fn failovers(self) -> Option<Failovers> {
        check(&self.records()).failovers.get(BY).copied()
    }

    pub fn counted(self, what: &str) -> Option<(u64, u64)> {
        let counted = check(&self.records()).counted;
        counted.into_iter().find(|(name, _)| name.contains(what)).map(|(_, counted)| counted)
    }
}

fn client(holder: &str) -> String {
    holder.split('-').next().expect("the first part").to_owned()
}

pub fn restart() -> Reach {
    Reach::Restart { server: "a".to_owned() }
}

/// A fault removed the lock, with or without its counter and answer.
pub fn removed(takes_all: bool) -> Reach {
    Reach::Locks { locks: vec!["l".to_owned()], takes_counters: takes_all, takes_answers: takes_all }
}

pub fn failover() -> Reach {
    Reach::Failover { server: "a".to_owned(), is_covered: false }
}

/// A failover after which no client is granted a lock that another may still hold.
pub fn covered() -> Reach {
    Reach::Failover { server: "a".to_owned(), is_covered: true }
}

pub fn clocks_apart() -> Reach {
    Reach::ClocksApart { server: "a".to_owned() }
}

pub fn clock(by_ms: i64) -> Reach {
    Reach::ClockStep { server: "a".to_owned(), by_ms }
}
