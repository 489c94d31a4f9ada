//! The commands against Lua scripts that do what Redisson's do: the same random history on two keys, and after each
//! step the same reply, the same hash, the same read holds and counters, and the same leases.
//!
//! The scripts are those that the measurements and the chaos use as well. If one of our commands does the work of several
//! scripts, they are combined here. Where the commands are deliberately better, the two sides differ: the test checks how
//! they differ, and makes the scripts' keys equal again.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use rlock_testing::{Client, Reply, Server, list, scripts};
use std::collections::BTreeMap;

const STEPS: usize = 20_000;
const OURS: &str = "ours";
const THEIRS: &str = "theirs";
const TOKENS: &str = "redisson_lock_token:{theirs}";
const HOLDERS: [&str; 3] = ["5f1c:1", "5f1c:2", "a7e0:1"];

/// What the lock is made of: its fields, when it ends, its counter, and each read hold with its end.
const LOOK: &str = "
local holds = {}
for _, name in ipairs(redis.call('keys', '{' .. KEYS[1] .. '}:*')) do
  table.insert(holds, name)
  table.insert(holds, redis.call('pexpiretime', name))
end
local token = redis.call('get', 'redisson_lock_token:{' .. KEYS[1] .. '}')
return {redis.call('hgetall', KEYS[1]), redis.call('pexpiretime', KEYS[1]), token, holds}";

#[derive(Clone, Debug)]
enum Step {
    Acquire { command: &'static str, holder: &'static str, lease: i64, fenced: bool },
    Release { holder: &'static str, side: &'static str, lease: Option<i64>, all: bool },
    Renew { holder: &'static str, lease: i64 },
    LockGoes,
    ReadHoldGoes { holder: &'static str, index: usize },
}

fn step(commands: &'static [&'static str], sides: &'static [&'static str]) -> impl Strategy<Value = Step> {
    let holder = prop::sample::select(HOLDERS.to_vec());
    // So long that none ends while the test runs, and so far apart that no lease can be taken for another.
    let lease = (1..50_i64).prop_map(|units| units * 1_000_000);
    prop_oneof![
        40 => (prop::sample::select(commands), holder.clone(), lease.clone(), any::<bool>())
            .prop_map(|(command, holder, lease, fenced)| Step::Acquire { command, holder, lease, fenced }),
        40 => (
            holder.clone(),
            prop::sample::select(sides),
            prop::option::weighted(0.3, lease.clone()),
            prop::bool::weighted(0.1)
        )
            .prop_map(|(holder, side, lease, all)| Step::Release { holder, side, lease, all }),
        12 => (holder.clone(), lease).prop_map(|(holder, lease)| Step::Renew { holder, lease }),
        2 => Just(Step::LockGoes),
        6 => (holder, 1..4_usize).prop_map(|(holder, index)| Step::ReadHoldGoes { holder, index }),
    ]
}

/// Everything that a lock consists of, on one of the two sides.
#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    fields: BTreeMap<String, String>,
    end: i64,
    /// When each read hold ends, by the part of its key behind the lock's name.
    read_holds: BTreeMap<String, i64>,
    tokens: Reply,
}

impl State {
    fn of(client: &mut Client, key: &str) -> Self {
        client.send(&["EVAL", LOOK, "1", key]);
        Self::receive(client, key)
    }

    /// The states of both sides, requested together: there are thousands of steps.
    fn of_both(client: &mut Client) -> [Self; 2] {
        client.send_together(&[&["EVAL", LOOK, "1", OURS], &["EVAL", LOOK, "1", THEIRS]]);
        [OURS, THEIRS].map(|key| Self::receive(client, key))
    }

    fn receive(client: &mut Client, key: &str) -> Self {
        let reply = client.receive();
        let [fields, end, tokens, holds] = reply.as_list() else { panic!("{reply:?}") };
        let fields = fields.as_list().chunks(2).map(|it| (it[0].as_text().to_owned(), it[1].as_text().to_owned()));
        let prefix = format!("{{{key}}}:");
        let hold = |it: &[Reply]| (it[0].as_text().trim_start_matches(&prefix).to_owned(), it[1].as_int());
        Self {
            fields: fields.collect(),
            end: end.as_int(),
            read_holds: holds.as_list().chunks(2).map(hold).collect(),
            tokens: tokens.clone(),
        }
    }

    fn count(&self, field: &str) -> i64 {
        self.fields.get(field).map_or(0, |count| count.parse().unwrap())
    }

    fn is_in(&self, mode: &str) -> bool {
        self.fields.get("mode").is_some_and(|it| it == mode)
    }

    fn is_plain(&self) -> bool {
        !self.fields.contains_key("mode")
    }
}

/// The two sides, and how much their leases may differ: each side reads the clock itself, so they differ by the time between
/// the two reads, in the slowest step so far.
struct Pair {
    client: Client,
    slack: i64,
    parted: usize,
    /// Our side after the previous step.
    last: State,
}

impl Pair {
    fn check(&mut self, number: usize, step: &Step) {
        let before = self.last.clone();
        let start = self.client.time_ms();
        let (ours, theirs) = self.take(step, &before);
        self.slack = self.slack.max(self.client.time_ms() - start + 1);
        let what = || format!("step {number}, {step:?}, on {before:?}");
        assert!(self.replies_agree(&ours, &theirs), "{}: {ours:?} and {theirs:?}", what());
        let [ours, mut theirs] = State::of_both(&mut self.client);
        if self.part_deliberately(step, &before, &ours, &theirs) {
            self.parted += 1;
            self.make_equal(&ours, &theirs);
            theirs = State::of(&mut self.client, THEIRS);
        }
        assert_eq!(ours.fields, theirs.fields, "{}", what());
        assert_eq!(ours.tokens, theirs.tokens, "{}", what());
        let names = |state: &State| state.read_holds.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&ours), names(&theirs), "{}", what());
        assert!(self.near(ours.end, theirs.end), "{}: {} and {}", what(), ours.end, theirs.end);
        for (name, end) in &ours.read_holds {
            assert!(self.near(*end, theirs.read_holds[name]), "{}: {name}", what());
        }
        self.last = ours;
    }

    fn equal(&self, ours: &State, theirs: &State) -> bool {
        let names = |state: &State| state.read_holds.keys().cloned().collect::<Vec<_>>();
        self.near(ours.end, theirs.end) && names(ours) == names(theirs)
    }

    fn near(&self, ours: i64, theirs: i64) -> bool {
        (ours - theirs).abs() <= self.slack
    }

    fn replies_agree(&self, ours: &Reply, theirs: &Reply) -> bool {
        match (ours, theirs) {
            (Reply::Int(ours), Reply::Int(theirs)) => self.near(*ours, *theirs),
            (Reply::List(ours), Reply::List(theirs)) => {
                ours.iter().zip(theirs).all(|(ours, theirs)| self.replies_agree(ours, theirs))
            }
            _ => ours == theirs,
        }
    }

    /// The replies of both sides to one step.
    fn take(&mut self, step: &Step, before: &State) -> (Reply, Reply) {
        match step {
            Step::Acquire { command, holder, lease, fenced } => {
                let lease = lease.to_string();
                let mut ours = vec![*command, OURS, holder, &lease];
                ours.extend(fenced.then_some("FENCED"));
                (self.client.run(&ours), self.acquire_by_script(command, holder, &lease, *fenced))
            }
            Step::Release { holder, side, lease, all } => {
                let lease = lease.map(|lease| lease.to_string());
                let mut ours = vec!["RLOCK.RELEASE", OURS, holder];
                ours.extend((!side.is_empty()).then_some(*side));
                ours.extend(lease.iter().flat_map(|lease| ["LEASE", lease]));
                ours.extend(all.then_some("ALL"));
                let ours = self.client.run(&ours);
                (ours.clone(), self.release_by_script(&ours, before, holder, side, lease.as_deref(), *all))
            }
            Step::Renew { holder, lease } => {
                let lease = lease.to_string();
                let ours = self.client.run(&["RLOCK.RENEW", OURS, holder, &lease]);
                (ours, self.renew_by_script(before, holder, &lease))
            }
            Step::LockGoes => (self.client.run(&["DEL", OURS]), self.client.run(&["DEL", THEIRS])),
            Step::ReadHoldGoes { holder, index } => {
                let [ours, theirs] = [OURS, THEIRS].map(|key| format!("{{{key}}}:{holder}:rwlock_timeout:{index}"));
                (self.client.run(&["DEL", &ours]), self.client.run(&["DEL", &theirs]))
            }
        }
    }

    fn acquire_by_script(&mut self, command: &str, holder: &str, lease: &str, fenced: bool) -> Reply {
        let write_side = write_side(holder);
        let left = match command {
            "RLOCK.ACQUIRE" => self.script(scripts::ACQUIRE, &[THEIRS], &[lease, holder]),
            "RLOCK.RACQUIRE" => {
                let keys = [THEIRS, &read_holds(holder)];
                self.script(scripts::READ_ACQUIRE, &keys, &[lease, holder, &write_side])
            }
            _ => self.script(scripts::WRITE_ACQUIRE, &[THEIRS], &[lease, &write_side]),
        };
        if !fenced {
            return left;
        }
        let is_granted = left == Reply::Nil;
        let token = if is_granted { self.client.run(&["INCR", TOKENS]) } else { Reply::Nil };
        list([left, token])
    }

    /// Redisson's scripts release one hold of a side that the caller knows. What our one command adds to that is done here:
    /// it finds the side, and ALL is the same release again and again.
    fn release_by_script(
        &mut self,
        ours: &Reply,
        before: &State,
        holder: &str,
        side: &str,
        lease: Option<&str>,
        all: bool,
    ) -> Reply {
        let (reads, writes) = (before.count(holder), before.count(&write_side(holder)));
        let sides: &[&str] = match (side, reads > 0, writes > 0) {
            ("", _, _) if before.is_plain() => &["PLAIN"],
            ("", true, true) if all => &["READ", "WRITE"],
            // A release without a counterpart must be an error; other tests check which one.
            ("", true, true) => return expect_error(ours),
            // To Redisson a lock without a holder is one that its writer has released.
            ("WRITE", _, _) if before.fields.is_empty() => &[],
            ("", false, true) | ("WRITE", _, _) => &["WRITE"],
            ("" | "READ", _, _) => &["READ"],
            _ => unreachable!("no other side"),
        };
        let on_read = sides == ["READ"] && (reads > 0 || side == "READ");
        if on_read && lease.is_some() {
            return expect_error(ours);
        }
        let mut reply = Reply::Nil;
        for side in sides {
            loop {
                match self.release_once_by_script(side, holder, lease) {
                    Reply::Nil => break,
                    released => reply = released,
                }
                if !all || reply == Reply::Int(1) {
                    break;
                }
            }
        }
        // With ALL, the reply is 1 if one of the releases freed the lock, and otherwise that of the last one.
        reply
    }

    fn release_once_by_script(&mut self, side: &str, holder: &str, lease: Option<&str>) -> Reply {
        if side == "READ" {
            let keys = [THEIRS, "channel", &read_holds(holder), "{theirs}"];
            return self.script(scripts::READ_RELEASE, &keys, &["0", holder]);
        }
        let (script, field) = match side {
            "WRITE" => (scripts::WRITE_RELEASE, write_side(holder)),
            _ => (scripts::RELEASE, holder.to_owned()),
        };
        let end = self.client.expiry(THEIRS);
        let reply = self.script(script, &[THEIRS, "channel"], &["0", lease.unwrap_or("1000000"), &field]);
        if lease.is_none() && reply == Reply::Int(0) {
            // Redisson always sets a lease; our command leaves the lease as it is if none is given.
            self.client.run(&["PEXPIREAT", THEIRS, &end.to_string()]);
        }
        reply
    }

    /// Redisson's scripts renew one side; our one command renews every hold of the holder.
    fn renew_by_script(&mut self, before: &State, holder: &str, lease: &str) -> Reply {
        if before.is_plain() {
            return self.script(scripts::RENEW, &[THEIRS], &[lease, holder]);
        }
        let read = self.script(scripts::READ_RENEW, &[THEIRS, &read_holds(holder)], &[lease, holder]);
        let write = self.script(scripts::RENEW, &[THEIRS], &[lease, &write_side(holder)]);
        Reply::Int(read.as_int().max(write.as_int()))
    }

    fn script(&mut self, script: &str, keys: &[&str], arguments: &[&str]) -> Reply {
        let count = keys.len().to_string();
        self.client.run(&[&["EVAL", script, &count], keys, arguments].concat())
    }

    /// Whether the sides differ on purpose after this step, and only in the way that they should.
    fn part_deliberately(&self, step: &Step, before: &State, ours: &State, theirs: &State) -> bool {
        let longest = ours.read_holds.iter().filter(|(name, _)| is_counted(name, ours)).map(|(_, end)| *end).max();
        match step {
            // Renewing one reader never shortens another's lease, and puts dead holds back.
            Step::Renew { holder, lease } if ours.is_in("read") && !self.equal(ours, theirs) => {
                let renewed: Vec<_> =
                    (1..=ours.count(holder)).map(|index| format!("{holder}:rwlock_timeout:{index}")).collect();
                assert!(renewed.iter().all(|name| ours.read_holds.contains_key(name)), "{ours:?}");
                assert_eq!(Some(ours.end), longest, "the lock lasts as long as its longest read: {lease}");
                assert!(ours.end >= theirs.end - self.slack);
                true
            }
            Step::Renew { .. } if ours.is_in("write") && !self.equal(ours, theirs) => {
                assert!(self.near(ours.end, theirs.end), "the writer's lease restarts on both sides");
                assert!(theirs.read_holds.keys().all(|name| ours.read_holds.contains_key(name)), "holds come back");
                true
            }
            // Releasing a nested read never shortens the writer's lease.
            Step::Release { .. }
                if before.is_in("write") && ours.is_in("write") && !self.near(ours.end, theirs.end) =>
            {
                assert_eq!(ours.end, before.end, "the writer's lease stays");
                true
            }
            // The same if ALL has also released the write hold, so that reads remain or nothing does.
            Step::Release { all: true, .. } if before.is_in("write") && !self.near(ours.end, theirs.end) => {
                assert_eq!(ours.end, before.end, "a downgrade leaves the lease");
                true
            }
            _ => false,
        }
    }

    /// Gives the scripts' side the lease of ours, and the read holds that only ours has. Everything else must be equal already.
    fn make_equal(&mut self, ours: &State, theirs: &State) {
        for (name, end) in ours.read_holds.iter().filter(|(name, _)| !theirs.read_holds.contains_key(*name)) {
            self.client.run(&["SET", &format!("{{{THEIRS}}}:{name}"), "1", "PXAT", &end.to_string()]);
        }
        self.client.run(&["PEXPIREAT", THEIRS, &ours.end.to_string()]);
    }
}

/// The field of the holder's write side.
fn write_side(holder: &str) -> String {
    format!("{holder}:write")
}

/// What the keys of the holder's read holds begin with, on the scripts' side.
fn read_holds(holder: &str) -> String {
    format!("{{{THEIRS}}}:{holder}:rwlock_timeout")
}

/// Whether the hash still counts this read hold; its key may outlive that.
fn is_counted(name: &str, state: &State) -> bool {
    let (holder, index) = name.split_once(":rwlock_timeout:").unwrap();
    index.parse::<i64>().unwrap() <= state.count(holder)
}

fn expect_error(ours: &Reply) -> Reply {
    assert!(matches!(ours, Reply::Error(_)), "{ours:?}");
    ours.clone()
}

fn compare(commands: &'static [&'static str], sides: &'static [&'static str]) {
    // Redisson counts its tokens.
    let server = Server::prepare().counted_tokens().start();
    let mut client = server.client();
    let last = State::of(&mut client, OURS);
    let mut pair = Pair { client, slack: 0, parted: 0, last };
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::default() });
    let step = step(commands, sides);
    for number in 0..STEPS {
        let step = step.new_tree(&mut runner).unwrap().current();
        pair.check(number, &step);
    }
    println!("{STEPS} steps, {} deliberate differences, clocks within {} ms", pair.parted, pair.slack);
}

#[test]
fn plain_locks_do_what_redissons_scripts_do() {
    compare(&["RLOCK.ACQUIRE"], &[""]);
}

#[test]
fn read_write_locks_do_what_redissons_scripts_do() {
    compare(&["RLOCK.RACQUIRE", "RLOCK.RACQUIRE", "RLOCK.WACQUIRE"], &["", "READ", "WRITE"]);
}
