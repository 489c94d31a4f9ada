//! A server with one session, which waits by ever more tickets. The leases have no end in sight, and each ticket has
//! its deadline.

use crate::batch::{Batch, Pipe};
use crate::contenders::{LONG_LEASE, Module};
use crate::interrupt::Guarded;
use crate::waiters::told_by_info;
use crate::{servers, session};
use rlock_testing::{Client, wait_until};
use std::ops::Range;

/// Which locks the tickets are for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum For {
    OneLock,
    LockEach,
}

pub struct Tickets {
    pub server: Guarded,
    pub client: Client,
    session: Option<Client>,
    what: For,
    count: usize,
}

/// So many commands are sent before the first reply is read.
const AT_ONCE: usize = 1_000;

pub const DEADLINE_MS: &str = "3600000";

impl Tickets {
    /// All locks are held that so many tickets wait for, but there is no session yet.
    pub fn prepare(what: For, most: usize) -> Self {
        let server = servers::start(Module::Rlock, &[]);
        let mut client = server.client();
        // By default one user has nine tenths of a million. Modules from before this limit have no such setting.
        client.say(&format!("CONFIG SET rlock.max-tickets-per-user {most}"));
        let locks = if what == For::OneLock { 1 } else { most };
        in_batches(&server, 0..locks, |batch, lock| {
            batch.add(&["RLOCK.ACQUIRE", &key(lock), "holder", LONG_LEASE]);
        });
        Self { server, client, session: None, what, count: 0 }
    }

    /// From now on so many wait, which is more than before.
    pub fn wait(&mut self, count: usize) {
        if self.session.is_none() {
            self.session = Some(session::open(&self.server));
            wait_until("the session is open", || told_by_info(&mut self.client, "rlock", "rlock_sessions") == 1.0);
        }
        in_batches(&self.server, self.count..count, |batch, number| {
            let lock = if self.what == For::OneLock { 0 } else { number };
            batch.add(&session::ask(&key(lock), &session::holder(number), DEADLINE_MS, &number.to_string()));
        });
        self.count = count;
        wait_until("all wait", || told_by_info(&mut self.client, "rlock", "rlock_tickets") == count as f64);
    }
}

/// By a connection that is closed afterwards, with all that the server keeps for it.
fn in_batches(server: &Guarded, numbers: Range<usize>, mut add: impl FnMut(&mut Batch, usize)) {
    let mut watch = server.client();
    let before = told_by_info(&mut watch, "clients", "connected_clients");
    let mut pipe = Pipe::to(server);
    for first in numbers.clone().step_by(AT_ONCE) {
        let mut batch = Batch::default();
        (first..numbers.end.min(first + AT_ONCE)).for_each(|number| add(&mut batch, number));
        pipe.run(&batch);
    }
    drop(pipe);
    wait_until("it is closed", || told_by_info(&mut watch, "clients", "connected_clients") == before);
}

fn key(lock: usize) -> String {
    format!("orders:{lock}")
}
