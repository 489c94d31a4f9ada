//! The commands against Lua scripts that do what Redisson's do: the same random history on two keys, and after each
//! step the same reply, the same hash, the same read holds and counters, and the same leases.
//!
//! The scripts are the other side of the comparison, so they are written from the description of Redisson's behaviour
//! and not from the commands under test. Where the commands are deliberately better the two part; then this test checks
//! in which way they part, and makes the scripts' keys equal again.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use rlock_testing::{Client, Reply, Server};
use std::collections::BTreeMap;

const STEPS: usize = 20_000;
const OURS: &str = "ours";
const THEIRS: &str = "theirs";
const HOLDERS: [&str; 3] = ["5f1c:1", "5f1c:2", "a7e0:1"];

/// Reply to a granted acquire: nil, or with `fenced` the new token behind it.
const ACQUIRE: &str = "
local free = redis.call('exists', KEYS[1]) == 0
if free or redis.call('hexists', KEYS[1], ARGV[1]) == 1 then
  redis.call('hincrby', KEYS[1], ARGV[1], 1)
  redis.call('pexpire', KEYS[1], ARGV[2])
  if ARGV[3] == 'FENCED' then return {false, redis.call('incr', KEYS[2])} end
  return false
end
local left = redis.call('pttl', KEYS[1])
if ARGV[3] == 'FENCED' then return {left, false} end
return left";

const RACQUIRE: &str = "
local mode = redis.call('hget', KEYS[1], 'mode')
if mode ~= 'write' or redis.call('hexists', KEYS[1], ARGV[1] .. ':write') == 1 then
  if not mode then redis.call('hset', KEYS[1], 'mode', 'read') end
  local index = redis.call('hincrby', KEYS[1], ARGV[1], 1)
  redis.call('set', '{' .. KEYS[1] .. '}:' .. ARGV[1] .. ':rwlock_timeout:' .. index, 1, 'px', ARGV[2])
  local left = redis.call('pttl', KEYS[1])
  redis.call('pexpire', KEYS[1], math.max(left, tonumber(ARGV[2])))
  if ARGV[3] == 'FENCED' then return {false, redis.call('incr', KEYS[2])} end
  return false
end
local left = redis.call('pttl', KEYS[1])
if ARGV[3] == 'FENCED' then return {left, false} end
return left";

const WACQUIRE: &str = "
local mode = redis.call('hget', KEYS[1], 'mode')
local field = ARGV[1] .. ':write'
if not mode then
  redis.call('hset', KEYS[1], 'mode', 'write', field, 1)
  redis.call('pexpire', KEYS[1], ARGV[2])
elseif mode == 'write' and redis.call('hexists', KEYS[1], field) == 1 then
  redis.call('hincrby', KEYS[1], field, 1)
  redis.call('pexpire', KEYS[1], redis.call('pttl', KEYS[1]) + tonumber(ARGV[2]))
else
  local left = redis.call('pttl', KEYS[1])
  if ARGV[3] == 'FENCED' then return {left, false} end
  return left
end
if ARGV[3] == 'FENCED' then return {false, redis.call('incr', KEYS[2])} end
return false";

const RELEASE: &str = "
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return false end
if redis.call('hincrby', KEYS[1], ARGV[1], -1) > 0 then
  if ARGV[2] ~= '' then redis.call('pexpire', KEYS[1], ARGV[2]) end
  return 0
end
redis.call('del', KEYS[1])
return 1";

const RELEASE_READ: &str = "
if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then return false end
local count = redis.call('hincrby', KEYS[1], ARGV[1], -1)
if count == 0 then redis.call('hdel', KEYS[1], ARGV[1]) end
redis.call('del', '{' .. KEYS[1] .. '}:' .. ARGV[1] .. ':rwlock_timeout:' .. (count + 1))
if redis.call('hlen', KEYS[1]) > 1 then
  local longest = 0
  for _, holder in ipairs(redis.call('hkeys', KEYS[1])) do
    local holds = tonumber(redis.call('hget', KEYS[1], holder))
    for index = holds or 0, 1, -1 do
      local left = redis.call('pttl', '{' .. KEYS[1] .. '}:' .. holder .. ':rwlock_timeout:' .. index)
      longest = math.max(longest, left)
    end
  end
  if longest > 0 then
    redis.call('pexpire', KEYS[1], longest)
    return 0
  end
  if redis.call('hget', KEYS[1], 'mode') == 'write' then return 0 end
end
redis.call('del', KEYS[1])
return 1";

const RELEASE_WRITE: &str = "
local field = ARGV[1] .. ':write'
if redis.call('hexists', KEYS[1], field) == 0 then return false end
if redis.call('hincrby', KEYS[1], field, -1) > 0 then
  if ARGV[2] ~= '' then redis.call('pexpire', KEYS[1], ARGV[2]) end
  return 0
end
redis.call('hdel', KEYS[1], field)
if redis.call('hlen', KEYS[1]) == 1 then
  redis.call('del', KEYS[1])
else
  redis.call('hset', KEYS[1], 'mode', 'read')
end
return 1";

const RENEW: &str = "
local reads = tonumber(redis.call('hget', KEYS[1], ARGV[1]) or 0)
local writes = redis.call('hexists', KEYS[1], ARGV[1] .. ':write')
if reads == 0 and writes == 0 then return 0 end
if redis.call('hexists', KEYS[1], 'mode') == 1 then
  for index = reads, 1, -1 do
    redis.call('pexpire', '{' .. KEYS[1] .. '}:' .. ARGV[1] .. ':rwlock_timeout:' .. index, ARGV[2])
  end
end
redis.call('pexpire', KEYS[1], ARGV[2])
return 1";

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

/// All that a lock is made of, on one of the two sides.
#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    fields: Vec<(String, String)>,
    end: i64,
    /// When each read hold ends, by its name behind the lock's.
    read_holds: BTreeMap<String, i64>,
    tokens: Reply,
}

impl State {
    fn of(client: &mut Client, key: &str) -> Self {
        let prefix = format!("{{{key}}}:");
        let mut read_holds = BTreeMap::new();
        for name in client.run(&["KEYS", &format!("{prefix}*")]).words() {
            read_holds.insert(name.trim_start_matches(&prefix).to_owned(), client.expiry(name));
        }
        let tokens = client.run(&["GET", &format!("redisson_lock_token:{{{key}}}")]);
        Self { fields: client.hash(key), end: client.expiry(key), read_holds, tokens }
    }

    fn count(&self, field: &str) -> i64 {
        self.fields.iter().find(|(name, _)| name == field).map_or(0, |(_, count)| count.parse().unwrap())
    }

    fn is_in(&self, mode: &str) -> bool {
        self.fields.contains(&("mode".into(), mode.into()))
    }
}

/// The two sides, and how far their clocks may be apart: each side takes the time for itself, so their leases differ by
/// as much as passed between the two, in the slowest step so far.
struct Pair {
    client: Client,
    slack: i64,
    parted: usize,
    /// Our side after the step before.
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
        let (ours, mut theirs) = (State::of(&mut self.client, OURS), State::of(&mut self.client, THEIRS));
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
                let script = match *command {
                    "RLOCK.ACQUIRE" => ACQUIRE,
                    "RLOCK.RACQUIRE" => RACQUIRE,
                    _ => WACQUIRE,
                };
                let ours = self.client.run(&ours);
                (ours, self.script(script, &[holder, &lease, if *fenced { "FENCED" } else { "" }]))
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
                (ours, self.script(RENEW, &[holder, &lease]))
            }
            Step::LockGoes => (self.client.run(&["DEL", OURS]), self.client.run(&["DEL", THEIRS])),
            Step::ReadHoldGoes { holder, index } => {
                let [ours, theirs] = [OURS, THEIRS].map(|key| format!("{{{key}}}:{holder}:rwlock_timeout:{index}"));
                (self.client.run(&["DEL", &ours]), self.client.run(&["DEL", &theirs]))
            }
        }
    }

    /// Redisson's scripts release one hold of a side that the caller knows. What our one command adds to that is put
    /// together here: finding the side, and ALL as the same release again and again.
    fn release_by_script(
        &mut self,
        ours: &Reply,
        before: &State,
        holder: &str,
        side: &str,
        lease: Option<&str>,
        all: bool,
    ) -> Reply {
        let is_plain = !before.fields.iter().any(|(field, _)| field == "mode");
        let (reads, writes) = (before.count(holder), before.count(&format!("{holder}:write")));
        let sides: &[&str] = match (side, reads > 0, writes > 0) {
            ("", _, _) if is_plain => &[RELEASE],
            ("", true, true) if all => &[RELEASE_READ, RELEASE_WRITE],
            // What has no counterpart is an error; which one, other tests say.
            ("", true, true) => return expect_error(ours),
            ("", false, true) | ("WRITE", _, _) => &[RELEASE_WRITE],
            ("" | "READ", _, _) => &[RELEASE_READ],
            _ => unreachable!("no other side"),
        };
        let on_read = sides == [RELEASE_READ] && (reads > 0 || side == "READ");
        if on_read && lease.is_some() {
            return expect_error(ours);
        }
        let mut reply = Reply::Nil;
        for script in sides {
            loop {
                match self.script(script, &[holder, lease.unwrap_or_default()]) {
                    Reply::Nil => break,
                    released => reply = released,
                }
                if !all {
                    break;
                }
            }
        }
        // The last hold of ALL may leave others; the first one that freed the lock says so for all of them.
        reply
    }

    fn script(&mut self, script: &str, arguments: &[&str]) -> Reply {
        let keys = ["EVAL", script, "2", THEIRS, "redisson_lock_token:{theirs}"];
        self.client.run(&[&keys, arguments].concat())
    }

    /// Whether this step parts the sides on purpose, and in no other way than it should.
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
            // The same, with all reads gone in between and the write too, down to its last reads.
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
    let server = Server::start();
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
