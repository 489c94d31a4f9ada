//! Instructions of one hand-over, as the slope between a short run and a long one.
//!
//! One thread plays all clients in their order, which is known, so each run does exactly the same. The holder sends its
//! release and its next request in one piece, so that the queue is equally long whenever the server checks it.

use crate::counted::{Counted, Scope, UNIT};
use crate::figures::Figures;
use crate::plan::Plan;
use crate::servers::{Module, blocked_clients};
use rlock_testing::{Client, Reply, wait_until};

/// What the clients of a circle send.
pub struct Circle {
    pub module: Module,
    pub scope: Scope,
    /// What the server needs before the first client asks.
    pub before: &'static str,
    /// The releases of a client's locks, each with the reply 1, and the request for all of them.
    pub commands: fn(client: usize) -> Vec<Vec<String>>,
}

impl Circle {
    /// Measures hand-overs with this many waiters.
    pub fn measure(&self, plan: &Plan, figures: &mut Figures, id: &str, waiters: usize) {
        for slope in self.slopes(plan, waiters, [100, 500]) {
            figures.add(id, UNIT, slope);
        }
    }

    /// The same, between runs of these lengths.
    pub fn slopes(&self, plan: &Plan, waiters: usize, lengths: [usize; 2]) -> Vec<f64> {
        let mut counted = Counted::start(self.module, self.scope, &[]);
        let mut clients: Vec<_> = (0..=waiters).map(|_| counted.server.client()).collect();
        let mut watch = counted.server.client();
        watch.say(self.before);
        for (number, client) in clients.iter_mut().enumerate() {
            client.send((self.commands)(number).last().expect("a request"));
            // The server reads the request before this, so the clients wait in their order.
            watch.say("PING");
        }
        let grant = clients[0].receive();
        wait_until("all wait", || blocked_clients(&mut watch) == waiters);
        let mut holder = 0;
        let mut run = |turns| (0..turns).for_each(|_| holder = self.turn(&mut clients, holder, &grant));
        // Each client once: the first grant on a connection costs more than later ones.
        run(waiters + 1);
        counted.slopes(plan, lengths, run)
    }

    /// The holder becomes the last waiter, and the first waiter the holder.
    fn turn(&self, clients: &mut [Client], holder: usize, grant: &Reply) -> usize {
        let next = (holder + 1) % clients.len();
        let commands = (self.commands)(holder);
        clients[holder].send_together(&commands.iter().map(Vec::as_slice).collect::<Vec<_>>());
        (1..commands.len()).for_each(|_| assert_eq!(clients[holder].receive(), Reply::Int(1)));
        assert_eq!(clients[next].receive(), *grant);
        next
    }
}
