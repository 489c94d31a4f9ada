//! One trial: several clients send what a seed says, all at once, and afterwards everything must be in order.

use crate::connection::{Connection, words_of};
use crate::contents::Contents;
use crate::contract::{self, Command};
use crate::hostile;
use crate::judged::judge;
use crate::noise::{self, Hold, Limits, NARROW};
use crate::player::{Player, words};
use crate::random::Random;
use rlock_testing::resp::Frame;
use rlock_testing::{Info, PATIENCE, Server, ServerVersion, unix_ms, wait_until};
use std::slice::from_ref;
use std::time::Instant;

/// A server's append-only file beyond this size is rewritten.
const LARGE_FILE: i64 = 4 << 20;

/// How many commands the referee sends alone before the clients begin, and again after they have gone.
const ALONE: usize = 100;

/// Figures that a refusal must not change, in the module's memory and in the replication stream.
const KEPT: [&str; 5] =
    ["rlock_sessions", "rlock_tickets", "rlock_events_unacknowledged", "rlock_waiters", "master_repl_offset"];

/// The settings before each trial.
const USUAL: [&str; 15] = [
    "CONFIG SET maxmemory 0",
    "CONFIG SET maxmemory-policy noeviction",
    "CONFIG SET min-replicas-to-write 0",
    "CONFIG SET rlock.notify auto",
    "CONFIG SET rlock.max-waiters 10000",
    "CONFIG SET rlock.max-sessions 10000",
    "CONFIG SET rlock.max-sessions-per-user 0",
    "CONFIG SET rlock.max-tickets-per-user 0",
    "CONFIG SET rlock.grace 0",
    "CONFIG SET rlock.max-answer 65536",
    "CONFIG SET rlock.tokens clock",
    "CONFIG SET notify-keyspace-events KEA",
    "CONFIG SET hz 10",
    "DEBUG SET-ACTIVE-EXPIRE 1",
    NARROW,
];

/// A server, its referee, and a follower without the module if it has one.
pub struct Arena {
    pub server: Server,
    referee: Connection,
    follower: Option<(Server, Connection)>,
}

/// What was sent, printed when something fails.
struct Journal {
    seed: u64,
    lines: Vec<String>,
}

impl Drop for Journal {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let last = &self.lines[self.lines.len().saturating_sub(60)..];
            eprintln!("--- RLOCK_WIRE_SEED={}: the last that was sent ---\n{}", self.seed, last.join("\n"));
        }
    }
}

impl Arena {
    /// A server that writes everything to a file and has a follower, or one without both.
    pub fn prepare(is_followed: bool) -> Self {
        let options: &[&str] = if is_followed { &["--appendonly", "yes", "--appendfsync", "no"] } else { &[] };
        let always = ["--latency-monitor-threshold", "1", "--repl-backlog-size", "1mb"];
        let server = Server::prepare().options(&always).options(options).start();
        let follower = is_followed.then(|| follower_of(&server));
        let referee = Connection::to(&server);
        Self { server, referee, follower }
    }

    /// # Panics
    /// If anything is not as it must be.
    pub fn trial(&mut self, seed: u64) {
        let mut journal = Journal { seed, lines: Vec::new() };
        let mut random = Random::from(seed);
        for line in USUAL {
            self.referee.say(line);
        }
        for command in noise::furniture(&mut random) {
            self.referee.ask(&command);
        }
        judge(&mut self.referee, &mut Random::from(!seed));
        self.ask_alone(&mut random, &mut journal);
        let players = self.play(&mut random, &mut journal);
        self.settle(players, &mut random);
        self.ask_alone(&mut random, &mut journal);
        self.check_followers();
        self.referee.say("FLUSHALL");
        self.check_health();
    }

    /// What the server says of its memory.
    pub fn memory(&mut self) -> String {
        String::from_utf8_lossy(self.referee.say("INFO memory").text()).into_owned()
    }

    /// The server's memory after all clients have gone, without names of keys that are gone.
    pub fn used_memory(&mut self) -> i64 {
        self.drop_names_of_keys();
        self.info("memory", "used_memory")
    }

    /// Has the server drop names of keys that it keeps when the keys are gone: some have a MB.
    ///
    /// It keeps the names of up to sixteen keys that it may evict next, some several times, and drops them only when it
    /// evicts another key that was used as recently. It also keeps the names of keys that it refused to users.
    fn drop_names_of_keys(&mut self) {
        let referee = &mut self.referee;
        // Not a number: Redis shares small numbers, and takes such a key for one that was not used since the start.
        for line in ["CONFIG SET maxmemory-policy allkeys-lru", "SET another key", "CONFIG SET maxmemory 1"] {
            referee.say(line);
        }
        wait_until("the other key is evicted", || matches!(referee.say("DBSIZE"), Frame::Int(0)));
        for line in ["CONFIG SET maxmemory 0", "CONFIG SET maxmemory-policy noeviction", "ACL LOG RESET"] {
            referee.say(line);
        }
    }

    /// Commands without other clients: a refused one changes nothing.
    fn ask_alone(&mut self, random: &mut Random, journal: &mut Journal) {
        // No command may wait, or the referee would.
        self.referee.say("CONFIG SET rlock.max-waiters 0");
        for session in hostile::SESSIONS {
            self.referee.ask(&vec![b"RLOCK.EVENTS".to_vec(), session.to_vec()]);
        }
        let look = ["DEBUG DIGEST", "INFO rlock stats replication"].map(words);
        for command in (0..ALONE)
            .map(|_| hostile::command(random))
            .filter(|command| !takes_time(command) && !names_a_counter(command))
        {
            let words = words_of(&command);
            journal.lines.push(format!("alone: {words}"));
            let is_long = command.iter().any(|word| word.len() > 1_000);
            let replies = self.referee.ask_all(&[&look[..], from_ref(&command), &look].concat());
            let [digest_before, before, reply, digest_after, after] = &replies[..] else {
                unreachable!("five commands")
            };
            // A refusal is not the cause of what ends by itself.
            if contract::is_refusal(&command, reply) && ended(before) == ended(after) {
                assert_eq!(digest_before, digest_after, "{words} is refused by {reply:?}");
                let kept = [before, after].map(|info| KEPT.map(|name| number(info, name)));
                // A long command is read in several turns, and the server serves others in between.
                let is_due = differs_by_due_timeouts(kept[0], kept[1]);
                assert!(is_long || is_due || kept[0] == kept[1], "{words} is refused by {reply:?}: {KEPT:?} {kept:?}");
            }
        }
        self.referee.say("CONFIG SET rlock.max-waiters 10000");
        until_none_wait(&mut self.referee);
    }

    /// All players send all their commands, in pieces and at the same time.
    fn play(&mut self, random: &mut Random, journal: &mut Journal) -> Vec<Player> {
        let hold = if random.is(60) && !loses_replies() { Hold::Unblock } else { Hold::Pause };
        let limits = Limits { hold, is_followed: self.follower.is_some() };
        let count = random.between(2, 6);
        let mut players: Vec<_> = (0..count).map(|_| Player::join(&self.server, random)).collect();
        let ids: Vec<_> = players.iter().map(|player| player.connection.id).collect();
        let parts: Vec<_> = players.iter().map(|player| player.part(random, &ids, limits)).collect();
        for player in &mut players {
            let kills = format!("CLIENT KILL ID {}", player.connection.id);
            player.connection.may_be_closed = parts.iter().flatten().any(|command| words_of(command) == kills);
        }
        for (player, part) in players.iter_mut().zip(parts) {
            player.learn(random, part);
        }
        while players.iter().any(Player::has_more) {
            let unfinished: Vec<_> = (0..players.len()).filter(|number| players[*number].has_more()).collect();
            let player = &mut players[random.one_of(&unfinished)];
            for command in player.send_some(random) {
                journal.lines.push(format!("{}: {}", player.connection.id, words_of(&command)));
            }
            if random.is(25) {
                // The server has then read the earlier commands, so it does not read the next one together with them.
                self.referee.say("PING");
            }
            players.iter_mut().for_each(|player| player.connection.turn());
        }
        players
    }

    /// Unblocks all waiting clients until all answers are there; then all clients leave.
    fn settle(&mut self, mut players: Vec<Player>, random: &mut Random) {
        for line in USUAL {
            self.referee.say(line);
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            // Twice: the second turn reads what the server says to the first.
            for _ in 0..2 {
                self.referee.say("PING");
                players.iter_mut().for_each(|player| player.connection.turn());
            }
            let owed: Vec<_> = players.iter().filter(|player| player.connection.owes()).collect();
            // One at a time, as the next one may wait for what this one then does.
            let Some(first) = owed.first() else { break };
            let states = || owed.iter().map(|player| player.connection.state()).collect::<Vec<_>>().join("\n");
            assert!(Instant::now() < deadline, "not answered:\n{}", states());
            let how = random.one_of(&["TIMEOUT", "ERROR"]);
            let unblock = format!("CLIENT UNBLOCK {} {how}", first.connection.id);
            // In one step: several servers crash if a paused client is unblocked.
            for line in ["CONFIG SET maxmemory 0", "MULTI", "CLIENT UNPAUSE", &unblock, "EXEC"] {
                self.referee.say(line);
            }
        }
        drop(players);
        let referee = &mut self.referee;
        // The server has then carried out their last commands.
        wait_until("all have gone", || {
            referee.say("CLIENT UNPAUSE");
            number(&referee.say("INFO clients"), "connected_clients") == 1
        });
        until_none_wait(referee);
        for line in USUAL {
            self.referee.say(line);
        }
    }

    /// The follower must have what the server has, and so must the server when it has read its own file.
    fn check_followers(&mut self) {
        let Some((_, follower)) = &mut self.follower else { return };
        let (referee, deadline) = (&mut self.referee, Instant::now() + PATIENCE);
        loop {
            let offset = number(&referee.say("INFO replication"), "master_repl_offset");
            let has_all = number(&follower.say("INFO replication"), "slave_repl_offset") >= offset;
            let (ours, theirs) = (Contents::of(referee), Contents::of(follower));
            let differences = ours.differences(&theirs, unix_ms());
            if has_all && differences.is_empty() {
                break;
            }
            assert!(Instant::now() < deadline, "the replica differs: {differences:#?}");
        }
        wait_until("no file is written", || {
            number(&referee.say("INFO persistence"), "aof_rewrite_in_progress") == 0
                && number(&referee.say("INFO persistence"), "aof_rewrite_scheduled") == 0
        });
        let before = Contents::of(referee);
        assert!(referee.say("DEBUG LOADAOF").is("OK"), "the file is read");
        let differences = before.differences(&Contents::of(referee), unix_ms());
        assert!(differences.is_empty(), "the file has something else: {differences:#?}");
        if number(&referee.say("INFO persistence"), "aof_current_size") > LARGE_FILE {
            referee.say("FLUSHALL");
            referee.say("BGREWRITEAOF");
        }
    }

    fn check_health(&mut self) {
        assert!(self.server.is_running(), "the server has died");
        let log = self.server.log();
        for sign in ["BUG REPORT", "internal error in rlock", "AddressSanitizer"] {
            assert!(!log.contains(sign), "its log tells of {sign}");
        }
    }

    fn info(&mut self, section: &str, name: &str) -> i64 {
        number(&self.referee.say(&format!("INFO {section}")), name)
    }
}

/// Whether a command may make the fencing counter of a lock a lock itself. No event notifies the waiters of that lock:
/// the next command that checks it, even a refused one, sends them away, and serves those behind them.
fn names_a_counter(command: &Command) -> bool {
    command.iter().any(|word| word.starts_with(b"redisson_lock_token:"))
}

/// Whether the command may wait, or makes a session end soon.
fn takes_time(command: &Command) -> bool {
    let is = |word: &[u8], name: &str| word.eq_ignore_ascii_case(name.as_bytes());
    is(&command[0], "RLOCK.EVENTS") && command.iter().any(|word| is(word, "WAIT") || is(word, "TTL"))
}

/// Ends sessions until there are none.
fn until_none_wait(referee: &mut Connection) {
    wait_until("no waiters are left", || {
        let Frame::List(sessions) = referee.say("RLOCK.SESSIONS COUNT 10000") else { panic!("a list of sessions") };
        for session in sessions {
            let pairs = session.pairs().expect("a map");
            let (_, Frame::Int(id)) = &pairs[0] else { panic!("an id is a number: {pairs:?}") };
            referee.say(&format!("RLOCK.SESSIONS END {id}"));
        }
        let info = referee.say("INFO rlock");
        let left = ["waiters", "locks_with_waiters", "sessions", "events_unacknowledged", "revocations_due"];
        left.iter().all(|name| number(&info, &format!("rlock_{name}")) == 0)
    });
}

fn follower_of(server: &Server) -> (Server, Connection) {
    let follower = Server::prepare().without_module().start();
    follower.follow(server);
    let connection = Connection::to(&follower);
    (follower, connection)
}

/// Redis before 7.4 loses the reply where CLIENT UNBLOCK meets the grant. The module then closes the client, but what the
/// client has sent behind its wait may be answered before.
fn loses_replies() -> bool {
    !ServerVersion::under_test().has_what_redis_has(7, 4)
}

/// Whether the only difference is that tickets no longer wait, and that their sessions got the reason. A command that
/// checks a lock that has just ended, or that the server has just dropped, finds them before the timer does; and as
/// nothing is written, it has granted nothing.
fn differs_by_due_timeouts(before: [i64; KEPT.len()], after: [i64; KEPT.len()]) -> bool {
    let [sessions, tickets, events, waiters, offset] = std::array::from_fn(|place| after[place] - before[place]);
    sessions == 0 && offset == 0 && events > 0 && tickets == -events && waiters == -events
}

/// How many keys, fields and waits have ended by themselves.
fn ended(stats: &Frame) -> i64 {
    let stats = info(stats);
    let is_end = |name: &str| name == "rlock_timeouts" || name.starts_with("expired_") && !name.contains("perc");
    let ended = stats.lines().filter(|(name, _)| is_end(name));
    ended.filter_map(|(_, count)| count.parse::<i64>().ok()).sum()
}

fn info(frame: &Frame) -> Info {
    Info::from(&*String::from_utf8_lossy(frame.text()))
}

fn number(frame: &Frame, name: &str) -> i64 {
    info(frame).number(name)
}
