//! What a process waits by, and what comes before it waits.

use super::clients::{Again, by_queue, by_token};
use super::{Process, Scene, key, tickets};
use crate::contenders::{LONG_LEASE, Module};
use crate::hand_offs::blocked_clients;
use crate::waiters::told_by_info;
use rlock_testing::{Client, Reply};
use std::rc::Rc;

#[derive(Clone, Copy)]
pub enum Way {
    /// A connection for each wait, which the server keeps.
    Clients,
    /// The same with as few writes as can be.
    TerseClients,
    /// Tickets of one session.
    Tickets,
    /// A connection for each wait, and a token in a list for each lock: no lock at all.
    Tokens,
}

impl Way {
    pub const ALL: [Self; 4] = [Self::TerseClients, Self::Clients, Self::Tickets, Self::Tokens];

    pub fn id(self) -> &'static str {
        match self {
            Self::Clients => "rlock",
            Self::TerseClients => "terse",
            Self::Tickets => "tickets",
            Self::Tokens => "token",
        }
    }

    pub fn module(self) -> Module {
        if matches!(self, Self::Tokens) { Module::None } else { Module::Rlock }
    }

    /// Begins to wait, for all locks and as often as each is wanted.
    pub fn begin(self, process: &Rc<Process>) {
        let (waits, shared) = (0..process.scene.waits(), || Rc::clone(process));
        match self {
            Self::Clients => waits.for_each(|wait| process.spawn(by_queue(shared(), wait, Again::WhenToldSo))),
            Self::TerseClients => waits.for_each(|wait| process.spawn(by_queue(shared(), wait, Again::AtOnce))),
            Self::Tickets => process.spawn(tickets::work(shared())),
            Self::Tokens => waits.for_each(|wait| process.spawn(by_token(shared(), wait))),
        }
    }

    /// Somebody has all locks before all others.
    pub fn take_all(self, first: &mut Client, scene: Scene) {
        if matches!(self.module(), Module::Rlock) {
            let take = |lock| format!("RLOCK.ACQUIRE {} first {LONG_LEASE}", key(lock));
            let taken = first.say_all((0..scene.locks).map(take));
            assert!(taken.iter().all(|reply| *reply == Reply::Nil), "all locks are free");
        }
    }

    /// Gives them back.
    pub fn let_go(self, first: &mut Client, scene: Scene) {
        let let_go = |lock| match self {
            Self::Tokens => format!("LPUSH {} token", key(lock)),
            _ => format!("RLOCK.RELEASE {} first", key(lock)),
        };
        let answers = first.say_all((0..scene.locks).map(let_go));
        assert!(answers.iter().all(|reply| *reply == Reply::Int(1)), "all locks change hands");
    }

    pub fn waiting(self, watch: &mut Client) -> usize {
        match self {
            Self::Tokens => blocked_clients(watch),
            _ => told_by_info(watch, "rlock", "rlock_waiters") as usize,
        }
    }
}
