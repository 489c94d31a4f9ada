//! Instructions of one hand-off, as the slope between a short run and a long one.
//!
//! Here one thread plays all clients in their order, which is known, so each run does exactly the same. Who gives back
//! asks again in one piece with it, or it would depend on the machine how often the server looks in between.

mod tickets;

use crate::contenders::{HOLDER, LONG_LEASE, Module};
use crate::counted::{Counted, Scope};
use crate::figures::Figures;
use crate::hand_offs::{CHANNEL, acquire_script, release_script};
use crate::instructions::UNIT;
use crate::plan::Plan;
use crate::profile::Profile;
use crate::progress;
use rlock_testing::{Client, Reply, Server, scripts, wait_until};
use tickets::Tickets;

/// Enough for a crowd, and few enough for what grows with each.
pub const WAITERS: [usize; 2] = [8, 64];

/// How many locks change hands at one stroke where a session is told of many grants at once: as many as the server
/// reads in one piece.
pub const AT_ONCE: usize = 32;

pub fn measure(plan: &Plan, figures: &mut Figures) {
    figures.profiles.push(profile("A hand-off, 64 waiters", 1, |server| Queue::new(server, WAITERS[1])));
    figures.profiles.push(profile("A hand-off by ticket, 64 waiters", 1, |server| Tickets::new(server, 1, WAITERS[1])));
    figures.profiles.push(profile("A hand-off by ticket, 32 locks at once, 8 waiters each", AT_ONCE, |server| {
        Tickets::new(server, AT_ONCE, WAITERS[0])
    }));
    for waiters in WAITERS {
        progress::step(&format!("{waiters} waiters"));
        let costs: [(&str, Vec<f64>); 4] = [
            ("rlock", slopes(plan, Module::Rlock, [200, 800], |server| Queue::new(server, waiters))),
            ("tickets", slopes(plan, Module::Rlock, [200, 800], |server| Tickets::new(server, 1, waiters))),
            ("token", slopes(plan, Module::None, [200, 800], |server| Token::new(server, waiters))),
            ("pubsub", slopes(plan, Module::None, [4, 12], |server| Messages::new(server, waiters))),
        ];
        for (id, slopes) in costs {
            slopes.into_iter().for_each(|slope| figures.add(&format!("hand_off.{waiters}.{id}"), UNIT, slope));
        }
    }
    progress::step("many locks at once");
    for slope in slopes(plan, Module::Rlock, [20, 80], |server| Tickets::new(server, AT_ONCE, WAITERS[0])) {
        figures.add(&format!("hand_off.{}.tickets_at_once", WAITERS[0]), UNIT, slope / AT_ONCE as f64);
    }
}

/// Clients of which one has the lock, or of which one each has one of the locks.
trait Circle {
    /// Who has a lock gives it back and asks again, and the next one gets it.
    fn turn(&mut self);
}

fn slopes<C: Circle>(
    plan: &Plan,
    module: Module,
    [short, long]: [usize; 2],
    begin: impl FnOnce(&Server) -> C,
) -> Vec<f64> {
    let mut counted = Counted::start(module, Scope::Everything);
    let mut circle = begin(counted.server());
    (0..plan.counts)
        .map(|_| {
            let [few, many] = [short, long].map(|turns| counted.count(|| (0..turns).for_each(|_| circle.turn())));
            (many - few) / (long - short) as f64
        })
        .collect()
}

/// Where the instructions of a hand-off go, if so many are one turn.
fn profile<C: Circle>(title: &'static str, at_once: usize, begin: impl FnOnce(&Server) -> C) -> Profile {
    const HAND_OFFS: usize = 400;
    let mut counted = Counted::start(Module::Rlock, Scope::Everything);
    let mut circle = begin(counted.server());
    let turns = HAND_OFFS.div_ceil(at_once);
    (0..turns).for_each(|_| circle.turn());
    counted.mark();
    (0..turns).for_each(|_| circle.turn());
    Profile::of(title, &counted.profile(), turns * at_once)
}

struct Queue {
    clients: Vec<Client>,
    holder: usize,
}

impl Queue {
    fn new(server: &Server, waiters: usize) -> Self {
        let mut clients: Vec<_> = (0..=waiters).map(|_| server.client()).collect();
        (0..=waiters).for_each(|number| Self::ask(&mut clients[number], number));
        assert_eq!(clients[0].receive(), Reply::Nil);
        wait_for_blocked(server, waiters);
        Self { clients, holder: 0 }
    }

    fn ask(client: &mut Client, number: usize) {
        client.send(&["RLOCK.ACQUIRE", "lock", &format!("{HOLDER}{number:04}"), LONG_LEASE, "WAIT", "0"]);
    }
}

impl Circle for Queue {
    fn turn(&mut self) {
        let (number, next) = (self.holder, (self.holder + 1) % self.clients.len());
        let holder = &mut self.clients[number];
        let name = format!("{HOLDER}{number:04}");
        holder.send_together(&[
            &["RLOCK.RELEASE", "lock", &name],
            &["RLOCK.ACQUIRE", "lock", &name, LONG_LEASE, "WAIT", "0"],
        ]);
        assert_eq!(holder.receive(), Reply::Int(1));
        assert_eq!(self.clients[next].receive(), Reply::Nil);
        self.holder = next;
    }
}

struct Token {
    clients: Vec<Client>,
    holder: usize,
}

impl Token {
    fn new(server: &Server, waiters: usize) -> Self {
        let mut clients: Vec<_> = (0..=waiters).map(|_| server.client()).collect();
        for (number, client) in clients.iter_mut().enumerate().skip(1) {
            client.send(&["BLPOP", "lock", "0"]);
            wait_for_blocked(server, number);
        }
        Self { clients, holder: 0 }
    }
}

impl Circle for Token {
    fn turn(&mut self) {
        let next = (self.holder + 1) % self.clients.len();
        let holder = &mut self.clients[self.holder];
        holder.send_together(&[&["LPUSH", "lock", "token"], &["BLPOP", "lock", "0"]]);
        holder.receive();
        assert_eq!(self.clients[next].receive().words(), ["lock", "token"]);
        self.holder = next;
    }
}

/// Everyone who waits hears of a release, and all try again.
struct Messages {
    commands: Vec<Client>,
    subscribers: Vec<Client>,
    holder: usize,
}

impl Messages {
    fn new(server: &Server, waiters: usize) -> Self {
        let mut commands: Vec<_> = (0..=waiters).map(|_| server.client()).collect();
        let mut subscribers: Vec<_> = (0..=waiters).map(|_| server.client()).collect();
        for script in [scripts::ACQUIRE, scripts::RELEASE] {
            commands[0].run(&["SCRIPT", "LOAD", script]);
        }
        subscribers.iter_mut().for_each(|client| drop(client.run(&["SUBSCRIBE", CHANNEL])));
        ask_by_script(&mut commands[0], 0);
        assert_eq!(commands[0].receive(), Reply::Nil);
        Self { commands, subscribers, holder: 0 }
    }
}

impl Circle for Messages {
    fn turn(&mut self) {
        let (number, all) = (self.holder, self.commands.len());
        let release = release_script(&format!("{HOLDER}{number:04}"));
        assert_eq!(self.commands[number].run(&release.as_words()), Reply::Int(1));
        self.subscribers.iter_mut().for_each(|client| drop(client.receive()));
        // The next one is first, and who had the lock is last.
        for offset in 1..=all {
            let client = (number + offset) % all;
            ask_by_script(&mut self.commands[client], client);
            let granted = self.commands[client].receive() == Reply::Nil;
            assert_eq!(granted, offset == 1);
        }
        self.holder = (number + 1) % all;
    }
}

fn ask_by_script(client: &mut Client, number: usize) {
    client.send(&acquire_script(&format!("{HOLDER}{number:04}")).as_words());
}

fn wait_for_blocked(server: &Server, count: usize) {
    let mut watch = server.client();
    let line = format!("blocked_clients:{count}\r");
    wait_until("all wait", || watch.say("INFO clients").as_text().contains(&line));
}
