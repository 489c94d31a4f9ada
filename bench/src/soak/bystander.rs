//! A client that sends PING and GET in turn, and has nothing to do with locks.

use rlock_testing::{Server, was_wanted_by, was_wanted_here};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, channel};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

const BETWEEN_REQUESTS: Duration = Duration::from_millis(20);

pub struct Bystander {
    replies: Receiver<Reply>,
    /// The number of replies for each time, in µs that are rounded up to two digits.
    all: BTreeMap<u32, u64>,
}

/// The times of a reply, in µs.
struct Reply {
    as_seen: u32,
    /// Without the time in which the server or this client was ready to run and had no processor: other programs cause that.
    took: u32,
}

impl Bystander {
    /// Begins the client, which ends when this is dropped.
    pub fn of(server: &Server) -> Self {
        let (mut client, process) = (server.client(), server.id());
        let (sender, replies) = channel();
        spawn(move || {
            let micros = |time: Duration| u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
            let wanted = || was_wanted_by(process) + was_wanted_here();
            for command in [["PING", ""].as_slice(), &["GET", "a-key-of-a-bystander"]].iter().cycle() {
                let command: Vec<_> = command.iter().filter(|word| !word.is_empty()).collect();
                let before = wanted();
                let asked = Instant::now();
                if client.try_run(&command).is_err() {
                    return;
                }
                let as_seen = asked.elapsed();
                let took = as_seen.saturating_sub(wanted().saturating_sub(before));
                if sender.send(Reply { as_seen: micros(as_seen), took: micros(took) }).is_err() {
                    return;
                }
                sleep(BETWEEN_REQUESTS);
            }
        });
        Self { replies, all: BTreeMap::new() }
    }

    /// The figures of the replies since the last call.
    pub fn figures(&mut self) -> [(&'static str, u64); 5] {
        let mut replies: Vec<_> = self.replies.try_iter().collect();
        replies.sort_unstable_by_key(|reply| reply.took);
        for reply in &replies {
            let unit = 10_u32.pow(reply.took.max(10).ilog10() - 1);
            *self.all.entry(reply.took.div_ceil(unit) * unit).or_default() += 1;
        }
        let p99 = replies.get(replies.len() * 99 / 100).map_or(0, |reply| reply.took);
        let longest = |of: fn(&Reply) -> u32| u64::from(replies.iter().map(of).max().unwrap_or_default());
        [
            ("replies", replies.len() as u64),
            ("reply_p99_us", p99.into()),
            ("reply_max_us", longest(|reply| reply.took)),
            ("reply_max_as_seen_us", longest(|reply| reply.as_seen)),
            ("reply_p999_so_far_us", self.slowest_in_a_thousand().into()),
        ]
    }

    fn slowest_in_a_thousand(&self) -> u32 {
        let mut above = self.all.values().sum::<u64>() / 1_000;
        let slowest = self.all.iter().rev().find(|(_, times)| {
            let is_there = **times > above;
            above = above.saturating_sub(**times);
            is_there
        });
        slowest.map_or(0, |(micros, _)| *micros)
    }
}
