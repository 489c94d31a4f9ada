//! What one client records: each call before it is sent, each answer as soon as it arrives.

use super::speech::Hold;
use crate::history::{Answer, Call, Journal, Moment, Record, Request};

pub struct Diary {
    pub journal: Journal,
    client: String,
    /// The number of calls so far.
    calls: u64,
    /// The number of holder names so far.
    attempts: u64,
    /// The number of answers so far.
    answers: u64,
}

impl Diary {
    pub fn new(journal: Journal, client: String) -> Self {
        Self { journal, client, calls: 0, attempts: 0, answers: 0 }
    }

    /// A holder name that was not used before.
    pub fn new_holder(&mut self) -> String {
        self.attempts += 1;
        format!("{}:{}", self.client, self.attempts)
    }

    /// A value that no ANSWER had before.
    pub fn new_answer(&mut self, holder: &str) -> String {
        self.answers += 1;
        format!("{holder}={}", self.answers)
    }

    /// The number of the call, which is about to be sent.
    pub fn called(&mut self, lock: &str, holder: &str, request: Request) -> u64 {
        self.calls += 1;
        let (lock, holder) = (lock.to_owned(), holder.to_owned());
        let call = Call { at: Moment::now(), client: self.client.clone(), number: self.calls, lock, holder, request };
        self.journal.write(&Record::Called(call));
        self.calls
    }

    /// The numbers of the calls of one request, one for each of its locks.
    pub fn called_each(&mut self, hold: &Hold, request: &Request) -> Vec<u64> {
        hold.locks().map(|lock| self.called(lock, &hold.holder, for_lock(request, hold, lock))).collect()
    }

    pub fn answered_each(&self, numbers: &[u64], answers: &[Answer]) {
        numbers.iter().zip(answers).for_each(|(number, answer)| self.answered(*number, answer.clone()));
    }

    pub fn answered(&self, number: u64, answer: Answer) {
        self.journal.write(&Record::Answered { at: Moment::now(), client: self.client.clone(), number, answer });
    }

    pub fn vouched(&self, number: u64, at: Moment, until: Moment) {
        self.journal.write(&Record::Vouched { at, client: self.client.clone(), number, until });
    }

    pub fn ended(&self, number: u64) {
        self.journal.write(&Record::Ended { at: Moment::now(), client: self.client.clone(), number });
    }
}

/// In a request for several locks, the call of each lock names the others.
fn for_lock(request: &Request, hold: &Hold, lock: &str) -> Request {
    let mut request = request.clone();
    if let Request::Acquire { beside, .. } = &mut request {
        *beside = hold.locks().filter(|other| *other != lock).cloned().collect();
    }
    request
}
