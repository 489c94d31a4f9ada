//! What the contract says of a command from its words alone, and of its reply: written from docs/commands.md, and
//! knowing nothing of how the module reads a command.

use rlock_testing::resp::Frame;
use std::collections::HashSet;
use std::ops::RangeInclusive;

pub type Command = Vec<Vec<u8>>;

/// What is allowed behind each command's name.
#[derive(Clone, Copy, PartialEq)]
enum Grammar {
    Acquire,
    Release,
    Renew,
    Inspect,
    Queues,
    Sessions,
    Break,
    Events,
    Cancel,
}

/// All codes that a command of ours may be refused with, the server's own for any command among them.
const CODES: [&str; 15] = [
    "ERR",
    "WRONGTYPE",
    "WRONGKIND",
    "DEADLOCK",
    "QUEUEFULL",
    "TRYAGAIN",
    "NOPERM",
    "OOM",
    "MISCONF",
    "READONLY",
    "NOREPLICAS",
    "UNBLOCKED",
    "LOADING",
    "NOSESSION",
    "TAKENOVER",
];

/// What follows `ERR ` where something else than the words' form is wrong. The lease is there, as the server may not be
/// able to store its end; and the number of an event, as that may not have been told yet.
const STATE: [&str; 8] = [
    "lease must be ",
    "holder has both sides ",
    "LEASE has no meaning ",
    "holder has too many holds ",
    "fencing counter ",
    "lock name and its derived keys ",
    "ticket is in use ",
    "ACK must be ",
];

/// What follows it where the form is wrong. The server counts words itself, and scripts have words of their own for it.
const FORM: [&str; 18] = [
    "lease must be ",
    "holder must be ",
    "WAIT must be ",
    "MAX must be ",
    "LIMIT must be ",
    "numkeys must be ",
    "key given twice",
    "MAX needs WAIT ",
    "COUNT must be ",
    "END must be ",
    "SESSION needs WAIT ",
    "session must be ",
    "ticket must be ",
    "ACK must be ",
    "TTL must be ",
    "option ",
    "wrong number of arguments",
    "Wrong number of args calling",
];

/// What some servers say in scripts about any command: of QUEUES and SESSIONS, as whose rights count is not known there,
/// and where rights are missing.
const IN_SCRIPTS: [&str; 3] =
    ["not allowed from script", "ERR ACL failure in script", "ERR The user executing the script can't "];

/// The command of ours in this one, if there is one whose reply is also its: itself, or what a script calls.
pub fn ours(command: &[Vec<u8>]) -> Option<&[Vec<u8>]> {
    match command {
        [name, ..] if grammar(name).is_some() => Some(command),
        [_, script, _, _, rest @ ..] if is_script(command) && ONE_CALL.iter().any(|one| script == one.as_bytes()) => {
            ours(rest)
        }
        _ => None,
    }
}

fn is_script(command: &[Vec<u8>]) -> bool {
    command[0] == b"EVAL"
}

/// Scripts that call the command that they are given, with one key before it, and return what it does.
pub const ONE_CALL: [&str; 2] = ["return redis.call(unpack(ARGV))", "return redis.pcall(unpack(ARGV))"];

/// What is wrong with the reply, if anything.
pub fn fault(command: &[Vec<u8>], reply: &Frame) -> Option<String> {
    if reply.tells_of("internal error in rlock") {
        return Some("a defect of the module's".to_owned());
    }
    let ours = ours(command)?;
    let grammar = grammar(&ours[0])?;
    let form = form(grammar, ours);
    match (reply.error(), form) {
        (Some(line), _) if is_script(command) && IN_SCRIPTS.iter().any(|words| line.contains(words)) => None,
        (Some(line), form) => error_fault(line, form.is_some()),
        (None, None) => Some("a command that breaks the grammar is not refused".to_owned()),
        (None, Some(form)) => {
            (!has_shape(grammar, form, reply)).then(|| "the reply is of none of the shapes that it may have".to_owned())
        }
    }
}

fn error_fault(line: &str, is_well_formed: bool) -> Option<String> {
    let (code, rest) = line.split_once(' ').unwrap_or((line, ""));
    let begins = |with: &[&str]| with.iter().any(|words| rest.starts_with(words));
    if !CODES.contains(&code) {
        Some(format!("the code {code} is none of those that are documented"))
    } else if code == "ERR" && is_well_formed && !begins(&STATE) {
        Some("this error is not documented, or is for what was not wrong with the command".to_owned())
    } else if code == "ERR" && !is_well_formed && !begins(&FORM) {
        Some("this error is not the one for what is wrong with the command".to_owned())
    } else {
        None
    }
}

/// Whether a reply tells that nothing was done.
pub fn is_refusal(command: &[Vec<u8>], reply: &Frame) -> bool {
    let Some(grammar) = ours(command).and_then(|ours| grammar(&ours[0])) else { return false };
    match (grammar, reply) {
        (_, Frame::Error(_)) | (Grammar::Inspect | Grammar::Queues, _) => true,
        (Grammar::Sessions, reply) => *reply != Frame::Int(1),
        (Grammar::Acquire, Frame::Int(_)) | (Grammar::Release, Frame::Nil) => true,
        (Grammar::Renew | Grammar::Break, Frame::Int(0)) => true,
        (Grammar::Acquire, Frame::List(pair)) => pair.last() == Some(&Frame::Nil),
        _ => false,
    }
}

fn grammar(name: &[u8]) -> Option<Grammar> {
    Some(match name.to_ascii_uppercase().as_slice() {
        b"RLOCK.ACQUIRE" | b"RLOCK.RACQUIRE" | b"RLOCK.WACQUIRE" | b"RLOCK.PACQUIRE" | b"RLOCK.MACQUIRE" => {
            Grammar::Acquire
        }
        b"RLOCK.RELEASE" => Grammar::Release,
        b"RLOCK.RENEW" => Grammar::Renew,
        b"RLOCK.INSPECT" => Grammar::Inspect,
        b"RLOCK.QUEUES" => Grammar::Queues,
        b"RLOCK.SESSIONS" => Grammar::Sessions,
        b"RLOCK.BREAK" => Grammar::Break,
        b"RLOCK.EVENTS" => Grammar::Events,
        b"RLOCK.CANCEL" => Grammar::Cancel,
        _ => return None,
    })
}

/// What of a well-formed command decides about its reply's shape.
#[derive(Clone, Copy)]
struct Form {
    fenced: bool,
    by_ticket: bool,
    ends: bool,
    /// How many keys it names, if it tells their number.
    several: Option<usize>,
}

/// None if the words break the grammar.
fn form(grammar: Grammar, command: &[Vec<u8>]) -> Option<Form> {
    let mut words = command[1..].iter().map(Vec::as_slice);
    let mut several = None;
    match grammar {
        _ if command[0].eq_ignore_ascii_case(b"RLOCK.MACQUIRE") => {
            let count = usize::try_from(number(1..=64, words.next()?)?).ok()?;
            let keys: HashSet<_> = words.by_ref().take(count).collect();
            (keys.len() == count).then_some(())?;
            several = Some(count);
        }
        Grammar::Queues | Grammar::Sessions => {}
        Grammar::Events | Grammar::Cancel => _ = of_length(16..=64, words.next()?)?,
        _ => _ = words.next()?,
    }
    if matches!(grammar, Grammar::Acquire | Grammar::Release | Grammar::Renew) {
        let holder = of_length(1..=512, words.next()?)?;
        (holder != b"mode" && !holder.ends_with(b":write")).then_some(())?;
    }
    if matches!(grammar, Grammar::Acquire | Grammar::Renew) {
        number(1..=i64::MAX, words.next()?)?;
    }
    let is_permit = command[0].eq_ignore_ascii_case(b"RLOCK.PACQUIRE");
    let mut given: Vec<&str> = Vec::new();
    while let Some(word) = words.next() {
        if grammar == Grammar::Cancel {
            of_length(1..=64, word)?;
            continue;
        }
        let (option, numbers) = option(grammar, &word.to_ascii_uppercase())?;
        // A list or an end.
        if given.contains(&option) || (grammar == Grammar::Sessions && !given.is_empty()) {
            return None;
        }
        given.push(option);
        if let Some(numbers) = numbers {
            number(numbers, words.next()?)?;
        }
        if option == "SESSION" {
            of_length(16..=64, words.next()?)?;
            of_length(1..=64, words.next()?)?;
        }
    }
    let by_ticket = given.contains(&"SESSION");
    let is_whole = given.contains(&"WAIT") || !(by_ticket || given.contains(&"MAX"));
    let is_whole = is_whole && given.contains(&"LIMIT") == is_permit;
    is_whole.then_some(Form { fenced: given.contains(&"FENCED"), by_ticket, ends: given.contains(&"END"), several })
}

/// An option, and which numbers may be behind it if there is one. READ and WRITE are one: a side is given once.
fn option(grammar: Grammar, word: &[u8]) -> Option<(&'static str, Option<RangeInclusive<i64>>)> {
    Some(match (grammar, word) {
        (Grammar::Acquire | Grammar::Events, b"WAIT") => ("WAIT", Some(0..=i64::MAX)),
        (Grammar::Acquire, b"MAX") => ("MAX", Some(1..=i64::MAX)),
        (Grammar::Acquire, b"LIMIT") => ("LIMIT", Some(1..=100_000)),
        (Grammar::Acquire, b"FENCED") => ("FENCED", None),
        (Grammar::Acquire, b"SESSION") => ("SESSION", None),
        (Grammar::Release, b"READ" | b"WRITE") => ("side", None),
        (Grammar::Release, b"LEASE") => ("LEASE", Some(1..=i64::MAX)),
        (Grammar::Release, b"ALL") => ("ALL", None),
        (Grammar::Events, b"ACK") => ("ACK", Some(0..=i64::MAX)),
        (Grammar::Events, b"TTL") => ("TTL", Some(1_000..=600_000)),
        (Grammar::Inspect | Grammar::Queues | Grammar::Sessions, b"COUNT") => ("COUNT", Some(1..=10_000)),
        (Grammar::Sessions, b"END") => ("END", Some(0..=i64::MAX)),
        _ => return None,
    })
}

fn number(numbers: RangeInclusive<i64>, word: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(word).ok()?;
    text.parse().ok().filter(|number: &i64| numbers.contains(number) && number.to_string() == text)
}

fn of_length(lengths: RangeInclusive<usize>, word: &[u8]) -> Option<&[u8]> {
    lengths.contains(&word.len()).then_some(word)
}

fn has_shape(grammar: Grammar, form: Form, reply: &Frame) -> bool {
    match (grammar, reply) {
        (Grammar::Acquire, Frame::Simple(word)) => form.by_ticket && word == b"WAITING",
        (Grammar::Acquire, Frame::List(pair)) if form.fenced => match pair[..] {
            [Frame::Nil, Frame::Int(_)] => form.several.is_none(),
            [Frame::Nil, Frame::List(ref tokens)] => form.several == Some(tokens.len()) && are_tokens(tokens),
            [Frame::Int(-1..), Frame::Nil] => !form.by_ticket,
            _ => false,
        },
        (Grammar::Acquire, Frame::Nil) => !form.fenced,
        (Grammar::Acquire, Frame::Int(-1..)) => !form.fenced && !form.by_ticket,
        (Grammar::Release, Frame::Nil | Frame::Int(0 | 1)) => true,
        (Grammar::Renew | Grammar::Break, Frame::Int(0 | 1)) => true,
        (Grammar::Inspect, _) => is_map_of(reply, &INSPECTED),
        (Grammar::Sessions, Frame::Int(0 | 1)) => form.ends,
        (Grammar::Sessions, Frame::List(sessions)) => {
            !form.ends && sessions.iter().all(|session| is_map_of(session, &SESSION))
        }
        (Grammar::Events, Frame::List(events)) => events.iter().all(is_event),
        (Grammar::Cancel, Frame::Int(0..)) => true,
        (Grammar::Queues, Frame::List(queues)) => queues.iter().all(|queue| is_map_of(queue, &QUEUE)),
        _ => false,
    }
}

fn is_event(event: &Frame) -> bool {
    let Frame::List(parts) = event else { return false };
    let [Frame::Int(1..), Frame::Bulk(_), Frame::Bulk(outcome), value @ ..] = &parts[..] else { return false };
    match outcome.as_slice() {
        b"granted" => match value {
            [Frame::List(tokens), Frame::Int(0..)] => !tokens.is_empty() && are_tokens(tokens),
            value => matches!(value, [Frame::Nil | Frame::Int(_), Frame::Int(0..)]),
        },
        b"timeout" => matches!(value, [Frame::Int(-1..)]),
        b"error" => matches!(value, [Frame::Bulk(line)] if !line.is_empty()),
        _ => false,
    }
}

fn are_tokens(tokens: &[Frame]) -> bool {
    tokens.iter().all(|token| matches!(token, Frame::Int(_)))
}

const INSPECTED: [&str; 8] =
    ["kind", "ttl-ms", "holder-count", "holders", "fencing-token", "waiter-count", "waiters", "grace-left-ms"];

const QUEUE: [&str; 4] = ["key", "waiters", "oldest-wait-ms", "served"];

const SESSION: [&str; 10] =
    ["id", "session", "user", "client-id", "address", "attended", "tickets", "events", "ends-in-ms", "bytes"];

fn is_map_of(reply: &Frame, names: &[&str]) -> bool {
    let pairs = reply.pairs().unwrap_or_default();
    pairs.len() == names.len() && pairs.iter().zip(names).all(|((name, _), known)| name.text() == known.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault_of(command: &str, reply: &Frame) -> Option<String> {
        fault(&command.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>(), reply)
    }

    fn granted() -> Frame {
        let [ticket, outcome] = ["1", "granted"].map(|text| Frame::Bulk(text.as_bytes().to_vec()));
        Frame::List(vec![Frame::Int(1), ticket, outcome, Frame::Nil, Frame::Int(5)])
    }

    #[test]
    fn replies_that_may_be() {
        let error = |line: &str| Frame::Error(line.to_owned());
        for (command, reply) in [
            ("RLOCK.ACQUIRE k h 1", Frame::Nil),
            ("RLOCK.PACQUIRE k h 1 limit 100000", Frame::Nil),
            ("RLOCK.PACQUIRE k h 1 WAIT 0", error("ERR LIMIT must be more")),
            ("RLOCK.ACQUIRE k h 1 LIMIT 1", error("ERR option unknown")),
            ("RLOCK.MACQUIRE 2 a b h 1", Frame::Nil),
            ("RLOCK.MACQUIRE 1 a h 1 FENCED", Frame::List(vec![Frame::Nil, Frame::List(vec![Frame::Int(7)])])),
            ("RLOCK.MACQUIRE 0 a h 1", error("ERR numkeys must be more")),
            ("RLOCK.MACQUIRE 2 a a h 1", error("ERR key given twice: more")),
            ("rlock.acquire k h 1 wait 0", Frame::Int(-1)),
            ("RLOCK.WACQUIRE k h 1 WAIT 5 FENCED", Frame::List(vec![Frame::Int(7), Frame::Nil])),
            ("RLOCK.ACQUIRE k h 1 WAIT 0 max 1", error("QUEUEFULL 1")),
            ("RLOCK.ACQUIRE k h 1 MAX 1", error("ERR MAX needs WAIT ms")),
            ("RLOCK.ACQUIRE k h 1 WAIT 0 MAX 0", error("ERR MAX must be more")),
            ("RLOCK.ACQUIRE k h 0", error("ERR lease must be more")),
            ("RLOCK.ACQUIRE k h 1", error("ERR lease must be less")),
            ("RLOCK.ACQUIRE k mode 1", error("ERR holder must be another")),
            ("RLOCK.RELEASE k h READ WRITE", error("ERR option READ or WRITE given twice")),
            ("RLOCK.RELEASE k h lease 5 all read", Frame::Int(1)),
            ("RLOCK.QUEUES COUNT 10000", Frame::List(Vec::new())),
            ("RLOCK.SESSIONS", Frame::List(Vec::new())),
            ("RLOCK.SESSIONS END 7", Frame::Int(0)),
            ("RLOCK.RENEW k h 1", error("OOM no")),
            ("RLOCK.ACQUIRE k h 1 SESSION the-first-session 1 WAIT 0", Frame::Simple(b"WAITING".to_vec())),
            ("RLOCK.ACQUIRE k h 1 SESSION the-first-session 1", error("ERR SESSION needs WAIT ms")),
            ("RLOCK.EVENTS the-first-session ack 0 TTL 1000 WAIT 5", Frame::List(vec![granted()])),
            ("RLOCK.EVENTS the-first-session ACK 7", error("ERR ACK must be less")),
            ("RLOCK.CANCEL the-first-session 1 2", Frame::Int(2)),
        ] {
            assert_eq!(fault_of(command, &reply), None, "{command}: {reply:?}");
        }
    }

    #[test]
    fn replies_that_may_not() {
        let error = |line: &str| Frame::Error(line.to_owned());
        for (command, reply) in [
            ("RLOCK.ACQUIRE k h 1", Frame::List(vec![Frame::Nil, Frame::Int(1)])),
            ("RLOCK.ACQUIRE k h 1", Frame::Int(-2)),
            ("RLOCK.ACQUIRE k h 1 FENCED", Frame::Nil),
            ("RLOCK.ACQUIRE k h 1 FENCED", Frame::List(vec![Frame::Int(1), Frame::Int(1)])),
            ("RLOCK.ACQUIRE k h 1 WAIT -1", Frame::Nil),
            ("RLOCK.ACQUIRE k h 1 MAX 1", Frame::Nil),
            ("RLOCK.PACQUIRE k h 1 WAIT 0", Frame::Nil),
            ("RLOCK.PACQUIRE k h 1 LIMIT 100001", Frame::Nil),
            ("RLOCK.ACQUIRE k h 1 LIMIT 1", Frame::Nil),
            ("RLOCK.MACQUIRE 65 a b h 1", Frame::Nil),
            ("RLOCK.MACQUIRE 2 a a h 1", Frame::Nil),
            ("RLOCK.MACQUIRE 2 a b h 1 FENCED", Frame::List(vec![Frame::Nil, Frame::Int(7)])),
            ("RLOCK.MACQUIRE 2 a b h 1 FENCED", Frame::List(vec![Frame::Nil, Frame::List(vec![Frame::Int(7)])])),
            ("RLOCK.ACQUIRE k h 1 FENCED", Frame::List(vec![Frame::Nil, Frame::List(vec![Frame::Int(7)])])),
            ("RLOCK.ACQUIRE k h 1 WAIT 1 MAX 0", Frame::Nil),
            ("RLOCK.ACQUIRE k h +1", Frame::Nil),
            ("RLOCK.ACQUIRE k h 1", error("ERR option unknown")),
            ("RLOCK.ACQUIRE k h 1", error("ERR internal error in rlock")),
            ("RLOCK.ACQUIRE k h 1", error("STRANGE no")),
            ("RLOCK.RELEASE k h", Frame::Int(2)),
            ("RLOCK.RELEASE k x:write", Frame::Nil),
            ("RLOCK.RENEW k h 1", Frame::Nil),
            ("RLOCK.INSPECT k", Frame::List(Vec::new())),
            ("RLOCK.INSPECT k COUNT 10001", Frame::List(Vec::new())),
            ("RLOCK.QUEUES", Frame::Nil),
            ("RLOCK.SESSIONS", Frame::Int(0)),
            ("RLOCK.SESSIONS END 7", Frame::List(Vec::new())),
            ("RLOCK.SESSIONS END 7 COUNT 7", Frame::Int(0)),
            ("RLOCK.ACQUIRE k h 1 WAIT 0 SESSION the-first-session 1", Frame::Int(5)),
            ("RLOCK.ACQUIRE k h 1 WAIT 0", Frame::Simple(b"WAITING".to_vec())),
            ("RLOCK.EVENTS short", Frame::List(Vec::new())),
            ("RLOCK.EVENTS the-first-session TTL 999", Frame::List(Vec::new())),
            ("RLOCK.EVENTS the-first-session", Frame::List(vec![Frame::List(vec![Frame::Int(1)])])),
            ("RLOCK.CANCEL the-first-session 1", Frame::Nil),
            ("DEL k", error("ERR internal error in rlock")),
        ] {
            assert!(fault_of(command, &reply).is_some(), "{command}: {reply:?}");
        }
    }
}
