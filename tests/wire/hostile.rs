//! Our commands with hostile arguments, and locks and keys that are not what they look like.
//!
//! The names are few, so that what one connection leaves behind is what the next one meets: a key of another's type, a
//! counter that is a list, a read hold under the name of a lock.

use crate::contract::{Command, ONE_CALL};
use crate::random::Random;
use rlock_core::lock::{Lease, Limit};
use rlock_core::words::{self, Argument, COMMANDS, Request, Rule};

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

const WAITS_MS: [i64; 6] = [0, 0, 1, 5, 20, 200];

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

/// A few commands of the tables more often than others.
fn any_command(random: &mut Random) -> &'static words::Command {
    let often = [&words::RELEASE, &words::EVENTS, &words::ANSWER];
    match random.below(100) {
        0..50 => acquire(random),
        50..60 => random.one_of(&often),
        _ => random.one_of(&COMMANDS),
    }
}

fn acquire(random: &mut Random) -> &'static words::Command {
    let commands =
        [&words::ACQUIRE, &words::RACQUIRE, &words::WACQUIRE, &words::PACQUIRE, &words::MACQUIRE, &words::ONCE];
    random.one_of(&commands)
}

/// The word of an option of any command, or a word that is no option.
fn option_word(random: &mut Random) -> Vec<u8> {
    let options = COMMANDS.iter().flat_map(|command| command.options).flat_map(|option| option.words);
    let word = random.one_of(&options.copied().chain(["NOW", ""]).collect::<Vec<_>>());
    if random.is(70) { word.into() } else { word.to_ascii_lowercase().into_bytes() }
}

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
pub fn content(random: &mut Random) -> Vec<u8> {
    let words: [&[u8]; 6] = [b"read", b"write", b"Read", b"1", b"2", b"3"];
    if random.is(60) { random.one_of(&words).to_vec() } else { number(random) }
}

pub fn number(random: &mut Random) -> Vec<u8> {
    random.one_of(&NUMBERS).to_vec()
}

/// A command of ours, in good form more often than not.
pub fn command(random: &mut Random) -> Command {
    let ours = any_command(random);
    let mut command = vec![if random.is(90) { ours.name.to_owned() } else { ours.name.to_lowercase() }.into_bytes()];
    for argument in ours.arguments {
        command.extend(value(random, *argument));
    }
    let mut is_alone = true;
    for option in ours.options {
        let is_given = match option.rule {
            Rule::Required => true,
            Rule::Free => random.is(50),
            // Behind WAIT, which comes before it in the table.
            Rule::Needs(..) => command.iter().any(|word| word == b"WAIT") && random.is(35),
            Rule::Alone => is_alone && random.is(60),
        };
        if is_given {
            is_alone = false;
            command.push(random.one_of(option.words).into());
            for argument in option.arguments() {
                command.extend(value(random, *argument));
            }
        }
    }
    while random.is(20) {
        spoil(random, &mut command);
    }
    command
}

const VALUES: [&[u8]; 4] = [b"", b"7", b"an answer\r\n", &[0xff; 70_000]];

/// The words of an argument.
fn value(random: &mut Random, argument: Argument) -> Vec<Vec<u8>> {
    let good: &[&[u8]] = match argument {
        Argument::Key => return vec![key(random)],
        Argument::Keys => {
            let keys: Vec<_> = (0..random.between(1, 4)).map(|_| key(random)).collect();
            let count = if random.is(90) { keys.len().to_string().into_bytes() } else { number(random) };
            return [vec![count], keys].concat();
        }
        Argument::Holder => return vec![holder(random)],
        Argument::Session => return vec![session(random)],
        Argument::Ticket => return vec![ticket(random)],
        Argument::Tickets => return (0..random.below(4)).map(|_| ticket(random)).collect(),
        Argument::Value => return vec![random.one_of(&VALUES).to_vec()],
        Argument::Lease | Argument::Keep => &LEASES,
        Argument::Wait => &WAITS,
        Argument::Max | Argument::Limit => &MAXIMA,
        Argument::Seq => &NUMBERS[..2],
        Argument::Ttl => &TTLS,
        Argument::Count => &COUNTS,
        Argument::Id => &NUMBERS,
    };
    vec![one_or_a_number(random, good)]
}

/// A command that will most likely wait until another client frees one of the few locks.
pub fn wait(random: &mut Random) -> Command {
    let ours = acquire(random);
    let first = random.between(0, LOCKS.len() - 2);
    let is_of_several = ours.arguments.contains(&Argument::Keys);
    let request = Request {
        keys: if is_of_several { &LOCKS[first..=first + 1] } else { &LOCKS[first..=first] },
        holder: Some(random.one_of(&HOLDERS)),
        lease: Lease::from_ms(600_000),
        wait_ms: Some(random.one_of(&WAITS_MS)),
        limit: Limit::new(random.one_of(&[1, 2, 3])),
        ..Request::default()
    };
    let mut command = Command::new();
    request.write(ours, |word| command.push(word.to_vec()));
    command
}

/// A command by a script that is given one key.
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

/// Removes a key, runs the command, and restores the key from its dump.
const ROUND_TRIP: &str = "local dump = redis.call('DUMP', KEYS[1]) if not dump then return 0 end \
     redis.call('DEL', KEYS[1]) redis.pcall(unpack(ARGV)) return redis.pcall('RESTORE', KEYS[1], 0, dump, 'REPLACE')";

/// Mostly a valid word, else a number.
fn one_or_a_number(random: &mut Random, good: &[&[u8]]) -> Vec<u8> {
    if random.is(88) { random.one_of(good).to_vec() } else { number(random) }
}

fn spoil(random: &mut Random, command: &mut Command) {
    let word = match random.below(4) {
        0 => option_word(random),
        1 => number(random),
        2 => holder(random),
        _ => key(random),
    };
    // Never the command's name.
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
