//! Thousands of leases that end in the same ms, while some hundred wait for some of them.
//!
//! It is no trouble but a test in the middle of the others' play: everybody who waits has to be served soon. Its locks
//! are its own, so nobody's history is touched.

use super::{AT_ONCE, Begun, Class, Kind, Outcome, Progress, Scene, kind};
use crate::history::Reach;
use crate::worlds::{Node, WorldKind};
use rlock_testing::{Answer, Client, Crowd, Reply, Wanted, unix_ms, was_wanted_here};
use std::path::PathBuf;
use std::time::Duration;

pub const KINDS: &[Kind] = &[kind(NAME, Class::Storm, 3, AT_ONCE, begin)];

const NAME: &str = "a storm";

const LOCKS: (u64, u64) = (2_000, 5_000);
const WAITERS: (u64, u64) = (200, 400);

/// How long after the leases' end everybody is to have been served, beside the time in which there was no processor.
const LATEST_MS: i64 = 1_000;

/// The same where each turn of the server waits for the disk: `appendfsync always`.
const LATEST_ON_DISK_MS: i64 = 5_000;

/// When the leases end, from when that is said.
const END_IN_MS: i64 = 500;

struct Storm {
    socket: PathBuf,
    process: u32,
    /// A beginning of names that are all on this server.
    prefix: String,
    locks: usize,
    waiters: usize,
    latest_ms: i64,
}

enum Verdict {
    /// The last one was served so many ms after the end.
    Served(i64),
    Broken(String),
    /// The server did something else, as it was told to.
    Disturbed(String),
}

fn begin(scene: &mut Scene) -> Outcome {
    let place = scene.a_master();
    let node = &scene.world.nodes[place];
    let server = node.server.as_ref().ok_or("the server is down")?;
    let storm = Storm {
        socket: node.socket.clone(),
        process: server.id(),
        prefix: prefix_on(node, scene.random.draw())?,
        locks: usize::try_from(scene.random.between(LOCKS)).expect("a few thousand"),
        waiters: usize::try_from(scene.random.between(WAITERS)).expect("a few hundred"),
        latest_ms: if scene.world.kind == WorldKind::Durable { LATEST_ON_DISK_MS } else { LATEST_MS },
    };
    let words = format!("{} leases end at a stroke at server {}", storm.locks, node.name);
    let mut thread = Some(std::thread::spawn(move || storm.serve().unwrap_or_else(Verdict::Disturbed)));
    Ok(Begun::until(vec![(words, Reach::Nobody)], move |scene| {
        let Some(ended) = thread.take_if(|thread| thread.is_finished()) else { return Ok(Progress::NotYet) };
        let node = &scene.world.nodes[place];
        match ended.join() {
            // A server that is no master any more serves nobody, and one that died is told of elsewhere.
            Ok(Verdict::Broken(how)) if node.is_master().is_ok_and(|it| it) => {
                scene.journal.broken("a lease's end is served", format!("server {}: {how}", node.name));
            }
            Ok(Verdict::Served(ms)) => {
                scene.journal.measured("ms from a storm's beginning to its last grant", ms as f64);
            }
            Ok(Verdict::Broken(why) | Verdict::Disturbed(why)) => scene.not_made(NAME, &why),
            Err(_) => scene.not_made(NAME, "its connections broke"),
        }
        Ok(Progress::Over)
    }))
}

fn prefix_on(node: &Node, number: u64) -> Result<String, String> {
    const TRIES: u64 = 1_000;
    let names = (0..TRIES).map(|try_of| format!("storm:{{{}}}:", number.wrapping_add(try_of)));
    let mut here = names.into_iter().filter(|name| node.run(&["EXISTS", name]).is_ok());
    here.next().ok_or_else(|| format!("server {} has no slots", node.name))
}

impl Storm {
    fn serve(&self) -> Result<Verdict, String> {
        const PATIENCE: Duration = Duration::from_secs(20);
        let mut client = Client::connect_for(&self.socket, PATIENCE).map_err(|error| error.to_string())?;
        let mut crowd = Crowd::at(&self.socket, self.waiters);
        let takes = (0..self.locks).map(|number| format!("RLOCK.ACQUIRE {} storm 20000", self.lock(number)));
        if let Some(other) = client.say_all(takes).into_iter().find(|reply| *reply != Reply::Nil) {
            return Err(format!("the locks cannot be taken: {other:?}"));
        }
        for number in 0..self.waiters {
            let lock = self.lock(number * self.locks / self.waiters);
            crowd.say(number, &format!("RLOCK.ACQUIRE {lock} storm-{number} 300 WAIT 30000"));
        }
        let end = client.time_ms() + END_IN_MS;
        let here = unix_ms() + END_IN_MS;
        let mut server = Wanted::by(self.process);
        let before = was_wanted_here();
        client.say_all((0..self.locks).map(|number| format!("PEXPIREAT {} {end}", self.lock(number))));
        crowd.collect(self.waiters);
        server.look();
        let no_processor =
            server.ms_between(here - END_IN_MS, unix_ms()) + (was_wanted_here() - before).as_millis() as i64;
        Ok(judge(crowd.answers(), here, self.latest_ms + no_processor))
    }

    fn lock(&self, number: usize) -> String {
        format!("{}{number}", self.prefix)
    }
}

/// When the last of all who waited was served, if that was not too late after the leases' end.
fn judge<'a>(answers: impl Iterator<Item = Option<&'a Answer>>, end: i64, latest_ms: i64) -> Verdict {
    let mut last = 0;
    for (number, answer) in answers.enumerate() {
        match answer {
            None => return Verdict::Broken(format!("waiter {number} was not served at all")),
            Some(Answer { reply: Some(Reply::Nil), at }) => last = last.max(at - end),
            Some(Answer { reply, .. }) => return Verdict::Disturbed(format!("{reply:?} for a waiter")),
        }
    }
    if last > latest_ms {
        return Verdict::Broken(format!("{last} ms after the leases' end, and not {latest_ms}"));
    }
    Verdict::Served(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(answers: &[Option<(Reply, i64)>]) -> Verdict {
        let answer =
            |answer: &Option<(Reply, i64)>| answer.clone().map(|(reply, at)| Answer { reply: Some(reply), at });
        let answers: Vec<_> = answers.iter().map(answer).collect();
        judge(answers.iter().map(Option::as_ref), 1_000, 50)
    }

    #[test]
    fn whoever_is_served_late_or_never_shows_what_is_broken() {
        let served = |at| Some((Reply::Nil, at));
        assert!(matches!(verdict(&[served(1_010), served(1_050)]), Verdict::Served(50)));
        assert!(matches!(verdict(&[served(1_010), served(1_051)]), Verdict::Broken(_)));
        assert!(matches!(verdict(&[served(1_010), None]), Verdict::Broken(_)));
        assert!(matches!(verdict(&[Some((Reply::Int(5), 1_010))]), Verdict::Disturbed(_)));
    }
}
