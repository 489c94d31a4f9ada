//! Commands of ours with arguments that mean harm, and locks and keys that are not what they look like.
//!
//! The names are few, so that what one connection leaves behind is what the next one meets: a key of another's type, a
//! counter that is a list, a read hold under the name of a lock.

use crate::contract::{Command, ONE_CALL};
use crate::random::Random;

/// Most commands are about these.
const LOCKS: [&[u8]; 5] = [b"k", b"r", b"w", b"{", b"foo{bar}"];

const KEYS: [&[u8]; 24] = [
    b"",
    b"}{",
    b"}",
    b"a}b",
    b"a{}b",
    b"a\0b",
    b"\xff\xfe",
    b"%s%n",
    b"h:write",
    b"mode",
    b"\r\n$5\r\n",
    b"text",
    b"list",
    b"set",
    b"zset",
    b"stream",
    b"foreign",
    b"odd-mode",
    b"crowded",
    b"many",
    b"{k}:h:rwlock_timeout:1",
    b"{r}:h:rwlock_timeout:1",
    b"redisson_lock_token:{k}",
    b"redisson_lock_token:{r}",
];

const HOLDERS: [&[u8]; 4] = [b"h", b"g", b"h:1", b"\xff\0"];

const ODD_HOLDERS: [&[u8]; 10] =
    [b"", b"mode", b"x:write", b"h:write", b":write", b"Mode", b"h:Write", b"\0", b" ", b"h:write:"];

const LEASES: [&[u8]; 6] = [b"600000", b"900000", b"300", b"20", b"5", b"1"];

const WAITS: [&[u8]; 6] = [b"0", b"0", b"1", b"5", b"20", b"200"];

const MAXIMA: [&[u8]; 3] = [b"1", b"2", b"3"];

pub const SESSIONS: [&[u8]; 2] = [b"the-first-session", b"the-second-session"];

const TICKETS: [&[u8]; 4] = [b"1", b"2", b"3", b"\xff\0"];

const TTLS: [&[u8]; 3] = [b"1000", b"10000", b"600000"];

const COUNTS: [&[u8]; 3] = [b"1", b"100", b"10000"];

const NUMBERS: [&[u8]; 19] = [
    b"0",
    b"1",
    b"-1",
    b"00",
    b"01",
    b"+1",
    b" 1",
    b"1 ",
    b"1e3",
    b"1.5",
    b"0x10",
    b"",
    b"\xff",
    b"10000",
    b"10001",
    b"9223372036854775807",
    b"9223372036854775808",
    b"-9223372036854775808",
    b"4611686018427387904",
];

const OPTIONS: [&[u8]; 18] = [
    b"WAIT", b"wait", b"FENCED", b"fEnCeD", b"READ", b"write", b"LEASE", b"lease", b"ALL", b"COUNT", b"END", b"NOW",
    b"SESSION", b"ack", b"TTL", b"MAX", b"LIMIT", b"",
];

const NAMES: [&str; 20] = [
    "RLOCK.ACQUIRE",
    "RLOCK.ACQUIRE",
    "RLOCK.RACQUIRE",
    "RLOCK.RACQUIRE",
    "RLOCK.WACQUIRE",
    "RLOCK.WACQUIRE",
    "RLOCK.PACQUIRE",
    "RLOCK.PACQUIRE",
    "RLOCK.MACQUIRE",
    "RLOCK.MACQUIRE",
    "RLOCK.RELEASE",
    "RLOCK.RELEASE",
    "RLOCK.RENEW",
    "RLOCK.INSPECT",
    "RLOCK.QUEUES",
    "RLOCK.SESSIONS",
    "RLOCK.BREAK",
    "RLOCK.EVENTS",
    "RLOCK.EVENTS",
    "RLOCK.CANCEL",
];

pub fn key(random: &mut Random) -> Vec<u8> {
    match random.below(1_000) {
        0..700 => random.one_of(&LOCKS).to_vec(),
        700..985 => random.one_of(&KEYS).to_vec(),
        985..999 => vec![b'k'; random.between(512, 513)],
        _ => vec![b'k'; 1 << 20],
    }
}

pub fn holder(random: &mut Random) -> Vec<u8> {
    match random.below(1_000) {
        0..850 => random.one_of(&HOLDERS).to_vec(),
        850..970 => random.one_of(&ODD_HOLDERS).to_vec(),
        970..998 => vec![b'h'; random.between(511, 513)],
        _ => vec![b'h'; 1 << 20],
    }
}

fn session(random: &mut Random) -> Vec<u8> {
    match random.below(100) {
        0..95 => random.one_of(&SESSIONS).to_vec(),
        _ => vec![b's'; random.one_of(&[0, 15, 16, 64, 65])],
    }
}

fn ticket(random: &mut Random) -> Vec<u8> {
    match random.below(100) {
        0..85 => random.one_of(&TICKETS).to_vec(),
        _ => vec![b't'; random.one_of(&[0, 64, 65])],
    }
}

/// What a field of a foreign hash, or a counter, may be set to.
pub fn value(random: &mut Random) -> Vec<u8> {
    let words: [&[u8]; 6] = [b"read", b"write", b"Read", b"1", b"2", b"3"];
    if random.is(60) { random.one_of(&words).to_vec() } else { number(random) }
}

pub fn number(random: &mut Random) -> Vec<u8> {
    random.one_of(&NUMBERS).to_vec()
}

/// A command of ours, in good form more often than not.
pub fn command(random: &mut Random) -> Command {
    let name = random.one_of(&NAMES);
    let mut command = vec![if random.is(90) { name.to_owned() } else { name.to_ascii_lowercase() }.into_bytes()];
    match name {
        "RLOCK.QUEUES" | "RLOCK.SESSIONS" => {}
        "RLOCK.EVENTS" | "RLOCK.CANCEL" => command.push(session(random)),
        "RLOCK.MACQUIRE" => {
            let keys = (0..random.between(1, 4)).map(|_| key(random)).collect::<Vec<_>>();
            command.push(if random.is(90) { keys.len().to_string().into_bytes() } else { number(random) });
            command.extend(keys);
        }
        _ => command.push(key(random)),
    }
    match name {
        "RLOCK.RELEASE" => {
            command.push(holder(random));
            command.extend(release_options(random));
        }
        "RLOCK.RENEW" => command.extend([holder(random), lease(random)]),
        "RLOCK.BREAK" => {}
        "RLOCK.SESSIONS" if random.is(30) => command.extend([b"END".to_vec(), number(random)]),
        "RLOCK.INSPECT" | "RLOCK.QUEUES" | "RLOCK.SESSIONS" => {
            if random.is(50) {
                command.extend([b"COUNT".to_vec(), one_or_a_number(random, &COUNTS)]);
            }
        }
        "RLOCK.CANCEL" => command.extend((0..random.below(4)).map(|_| ticket(random)).collect::<Vec<_>>()),
        "RLOCK.EVENTS" => {
            for (option, good) in [("ACK", &NUMBERS[..2]), ("WAIT", &WAITS), ("TTL", &TTLS)] {
                if random.is(40) {
                    command.extend([option.as_bytes().to_vec(), one_or_a_number(random, good)]);
                }
            }
        }
        _ => {
            command.extend([holder(random), lease(random)]);
            if name == "RLOCK.PACQUIRE" {
                command.extend([b"LIMIT".to_vec(), one_or_a_number(random, &MAXIMA)]);
            }
            if random.is(60) {
                command.extend([b"WAIT".to_vec(), one_or_a_number(random, &WAITS)]);
                if random.is(30) {
                    command.extend([b"MAX".to_vec(), one_or_a_number(random, &MAXIMA)]);
                }
                if random.is(40) {
                    command.extend([b"SESSION".to_vec(), session(random), ticket(random)]);
                }
            }
            if random.is(40) {
                command.push(b"FENCED".to_vec());
            }
        }
    }
    while random.is(20) {
        spoil(random, &mut command);
    }
    command
}

/// One that will most likely wait, for somebody to free one of the few locks.
pub fn wait(random: &mut Random) -> Command {
    let name = random.one_of(&NAMES[..10]);
    let mut command = vec![name.as_bytes().to_vec()];
    if name == "RLOCK.MACQUIRE" {
        let first = random.between(0, LOCKS.len() - 2);
        command.extend([&b"2"[..], LOCKS[first], LOCKS[first + 1]].map(<[u8]>::to_vec));
    } else {
        command.push(random.one_of(&LOCKS).to_vec());
    }
    command.extend([random.one_of(&HOLDERS), &b"600000"[..]].map(<[u8]>::to_vec));
    command.extend([b"WAIT".to_vec(), random.one_of(&WAITS).to_vec()]);
    if name == "RLOCK.PACQUIRE" {
        command.extend([b"LIMIT".to_vec(), random.one_of(&MAXIMA).to_vec()]);
    }
    command
}

/// The same by a script, with one key that it names.
pub fn script(random: &mut Random) -> Command {
    let inner = command(random);
    let script =
        random.one_of(&[ONE_CALL[0], ONE_CALL[1], ONE_CALL[1], SEVERAL, BETWEEN, ELSEWHERE, AS_RESP3, ROUND_TRIP]);
    let mut command = vec![b"EVAL".to_vec(), script.as_bytes().to_vec(), b"1".to_vec(), key(random)];
    command.extend(inner);
    command
}

const SEVERAL: &str = "local all = {} for i = 1, 3 do all[i] = redis.pcall(unpack(ARGV)) end return #all";

const BETWEEN: &str = "redis.pcall('DEL', KEYS[1]) redis.pcall(unpack(ARGV)) redis.pcall('SET', KEYS[1], 1) \
     redis.pcall(unpack(ARGV)) redis.pcall('UNLINK', KEYS[1]) return redis.pcall(unpack(ARGV))";

/// Works in another database, and comes back.
const ELSEWHERE: &str = "redis.call('SELECT', 1) redis.pcall('DEL', KEYS[1]) local reply = redis.pcall(unpack(ARGV)) \
     redis.call('SELECT', 0) return #tostring(reply)";

const AS_RESP3: &str = "redis.setresp(3) return redis.pcall(unpack(ARGV))";

/// The lock is moved away and back as bytes, with its command in between.
const ROUND_TRIP: &str = "local dump = redis.call('DUMP', KEYS[1]) if not dump then return 0 end \
     redis.call('DEL', KEYS[1]) redis.pcall(unpack(ARGV)) return redis.pcall('RESTORE', KEYS[1], 0, dump, 'REPLACE')";

fn lease(random: &mut Random) -> Vec<u8> {
    one_or_a_number(random, &LEASES)
}

/// One of those that may be, mostly.
fn one_or_a_number(random: &mut Random, good: &[&[u8]]) -> Vec<u8> {
    if random.is(88) { random.one_of(good).to_vec() } else { number(random) }
}

fn release_options(random: &mut Random) -> Vec<Vec<u8>> {
    let mut options = Vec::new();
    if random.is(30) {
        options.push(random.one_of(&[&b"READ"[..], b"WRITE"]).to_vec());
    }
    if random.is(15) {
        options.extend([b"LEASE".to_vec(), lease(random)]);
    }
    if random.is(20) {
        options.push(b"ALL".to_vec());
    }
    options
}

fn spoil(random: &mut Random, command: &mut Command) {
    let word = match random.below(4) {
        0 => random.one_of(&OPTIONS).to_vec(),
        1 => number(random),
        2 => holder(random),
        _ => key(random),
    };
    // Never the name.
    let at = 1 + random.below(command.len());
    match random.below(5) {
        0 => command.insert(at, word),
        1 => command.push(word),
        2 if at < command.len() => drop(command.remove(at)),
        3 if at < command.len() => command.insert(at, command[at].clone()),
        _ if at < command.len() => command[at] = word,
        _ => {}
    }
}
