//! Tickets of one session, with one lock or with many that all change hands at one stroke. What the polls cost is
//! shared by all the events of an answer, so it is little where they are many.

use super::Circle;
use crate::contenders::LONG_LEASE;
use crate::session;
use rlock_testing::{Client, Reply, Server, text};

pub struct Tickets {
    asking: Client,
    session: Client,
    /// Of each lock: who has it.
    holders: Vec<usize>,
    /// Of each lock: how many want it, its holder included.
    clients: usize,
    /// How many tickets there have been.
    tickets: usize,
}

impl Tickets {
    pub fn new(server: &Server, locks: usize, waiters: usize) -> Self {
        let (asking, session) = (server.client(), session::open(server));
        let mut circle = Self { asking, session, holders: vec![0; locks], clients: waiters + 1, tickets: 0 };
        for lock in 0..locks {
            let words = ["RLOCK.ACQUIRE", &name(lock), &circle.holder(lock, 0), LONG_LEASE];
            assert_eq!(circle.asking.run(&words), Reply::Nil);
            for client in 1..=waiters {
                let ask = circle.ask(lock, client);
                assert_eq!(circle.asking.run(&ask), text("WAITING"));
            }
        }
        circle
    }

    fn holder(&self, lock: usize, client: usize) -> String {
        session::holder(lock * self.clients + client)
    }

    fn ask(&mut self, lock: usize, client: usize) -> Vec<String> {
        self.tickets += 1;
        let (holder, ticket) = (self.holder(lock, client), self.tickets.to_string());
        session::ask(&name(lock), &holder, "0", &ticket).map(str::to_owned).to_vec()
    }
}

impl Circle for Tickets {
    fn turn(&mut self) {
        let locks = self.holders.len();
        let mut commands = Vec::new();
        for lock in 0..locks {
            let client = self.holders[lock];
            commands.push(["RLOCK.RELEASE", &name(lock), &self.holder(lock, client)].map(str::to_owned).to_vec());
            commands.push(self.ask(lock, client));
            self.holders[lock] = (client + 1) % self.clients;
        }
        self.asking.send_together(&commands.iter().map(Vec::as_slice).collect::<Vec<_>>());
        for _ in 0..locks {
            assert_eq!(self.asking.receive(), Reply::Int(1));
            assert_eq!(self.asking.receive(), text("WAITING"));
        }
        let events = self.session.receive();
        assert_eq!(events.as_list().len(), locks, "all grants are told in one answer");
        assert!(events.as_list().iter().all(|event| event.as_list()[2] == text("granted")), "{events:?}");
        let heard = events.as_list().last().map_or(0, |event| event.as_list()[0].as_int());
        self.session.send(&session::poll(&heard.to_string()));
    }
}

fn name(lock: usize) -> String {
    format!("lock:{lock}")
}
