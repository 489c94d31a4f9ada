//! What docs/commands.md says of replies: the shapes that each command's reply may have, and that each error is one of the
//! table. Which words get which error is in tests/server/grammar.rs and its neighbours.

use rlock_core::words::{self, ERRORS};
use rlock_testing::resp::Frame;

pub type Command = Vec<Vec<u8>>;

/// Which replies a command may have.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Acquire,
    Once,
    Answer,
    Release,
    Renew,
    Inspect,
    Queues,
    Sessions,
    Break,
    Events,
    Cancel,
}

/// How the server's own errors begin, for any command.
const OF_THE_SERVER: [&str; 9] = [
    "OOM ",
    "MISCONF ",
    "READONLY ",
    "NOREPLICAS ",
    "LOADING ",
    "NOPERM ",
    "UNBLOCKED ",
    "ERR wrong number of arguments",
    "ERR Wrong number of args calling",
];

/// Errors of some servers in scripts: QUEUES and SESSIONS are not allowed there, since it is unknown which user's rights count;
/// and any command may lack rights.
const IN_SCRIPTS: [&str; 3] =
    ["not allowed from script", "ERR ACL failure in script", "ERR The user executing the script can't "];

/// Our command within this one, if its reply is our command's: the command itself, or the one that a script calls.
pub fn ours(command: &[Vec<u8>]) -> Option<&[Vec<u8>]> {
    match command {
        [name, ..] if kind(name).is_some() => Some(command),
        [_, script, _, _, rest @ ..] if is_script(command) && ONE_CALL.iter().any(|one| script == one.as_bytes()) => {
            ours(rest)
        }
        _ => None,
    }
}

fn is_script(command: &[Vec<u8>]) -> bool {
    command[0] == b"EVAL"
}

/// Scripts that call the command in their arguments, which has one key before it, and return its reply.
pub const ONE_CALL: [&str; 2] = ["return redis.call(unpack(ARGV))", "return redis.pcall(unpack(ARGV))"];

/// What is wrong with the reply, if anything.
pub fn fault(command: &[Vec<u8>], reply: &Frame) -> Option<String> {
    if reply.mentions("internal error in rlock") {
        return Some("a defect of the module's".to_owned());
    }
    let ours = ours(command)?;
    let kind = kind(&ours[0])?;
    match reply.error() {
        Some(line) if is_script(command) && IN_SCRIPTS.iter().any(|words| line.contains(words)) => None,
        Some(line) => error_fault(line),
        None => {
            (!has_shape(kind, ours, reply)).then(|| "the reply is of none of the shapes that it may have".to_owned())
        }
    }
}

/// An error must be in the table, with a number behind it if it has one, or be the server's own.
fn error_fault(line: &str) -> Option<String> {
    // In a script, the server adds to an error where it happened.
    let line = line.split_once(" script: ").map_or(line, |(line, _)| line);
    let is = |known: &str| match line.strip_prefix(known) {
        Some(rest) => rest.is_empty() || rest.strip_prefix(": ").is_some_and(|number| number.parse::<u64>().is_ok()),
        None => false,
    };
    let is_known = ERRORS.iter().any(|(_, known)| is(&known.to_string_lossy()))
        || OF_THE_SERVER.iter().any(|start| line.starts_with(start));
    (!is_known).then(|| "this error is not in the table".to_owned())
}

/// Whether a reply says that nothing was done.
pub fn is_refusal(command: &[Vec<u8>], reply: &Frame) -> bool {
    let Some(kind) = ours(command).and_then(|ours| kind(&ours[0])) else { return false };
    match (kind, reply) {
        (_, Frame::Error(_)) | (Kind::Inspect | Kind::Queues, _) => true,
        (Kind::Sessions, reply) => *reply != Frame::Int(1),
        (Kind::Acquire | Kind::Once, Frame::Int(_)) | (Kind::Release | Kind::Answer, Frame::Nil) => true,
        (Kind::Once, Frame::Bulk(_)) => true,
        (Kind::Renew | Kind::Break, Frame::Int(0)) => true,
        (Kind::Acquire, Frame::List(pair)) => pair.last() == Some(&Frame::Nil),
        _ => false,
    }
}

fn kind(name: &[u8]) -> Option<Kind> {
    Some(match words::Command::named(name)?.name {
        "RLOCK.ONCE" => Kind::Once,
        "RLOCK.ANSWER" => Kind::Answer,
        "RLOCK.RELEASE" => Kind::Release,
        "RLOCK.RENEW" => Kind::Renew,
        "RLOCK.INSPECT" => Kind::Inspect,
        "RLOCK.QUEUES" => Kind::Queues,
        "RLOCK.SESSIONS" => Kind::Sessions,
        "RLOCK.BREAK" => Kind::Break,
        "RLOCK.EVENTS" => Kind::Events,
        "RLOCK.CANCEL" => Kind::Cancel,
        _ => Kind::Acquire,
    })
}

fn has_shape(kind: Kind, command: &[Vec<u8>], reply: &Frame) -> bool {
    match (kind, reply) {
        (Kind::Acquire, Frame::Simple(word)) => word == b"WAITING",
        (Kind::Acquire, Frame::List(pair)) => match pair[..] {
            [Frame::Nil, Frame::List(ref tokens)] => !tokens.is_empty() && are_tokens(tokens),
            [Frame::Nil, Frame::Int(_)] | [Frame::Int(-1..), Frame::Nil] => true,
            _ => false,
        },
        (Kind::Once, Frame::Simple(word)) => word == b"WAITING",
        (Kind::Once, Frame::Bulk(_)) => true,
        (Kind::Acquire | Kind::Once, Frame::Nil | Frame::Int(-1..)) => true,
        (Kind::Answer, Frame::Nil | Frame::Int(1)) => true,
        (Kind::Release, Frame::Nil | Frame::Int(0 | 1)) => true,
        (Kind::Renew | Kind::Break | Kind::Sessions, Frame::Int(0 | 1)) => true,
        (Kind::Inspect, _) => is_map_of(reply, &INSPECTED),
        (Kind::Sessions, Frame::List(sessions)) => sessions.iter().all(|session| is_map_of(session, &SESSION)),
        (Kind::Events, Frame::List(events)) => events.iter().all(is_event),
        (Kind::Cancel, Frame::Int(0..)) => command.len() <= 2,
        // One for each ticket.
        (Kind::Cancel, Frame::List(tickets)) => {
            tickets.len() + 2 == command.len() && tickets.iter().all(|ticket| matches!(ticket, Frame::Int(0..=2)))
        }
        (Kind::Queues, Frame::List(queues)) => queues.iter().all(|queue| is_map_of(queue, &QUEUE)),
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
        b"answered" => matches!(value, [Frame::Nil]),
        b"timeout" => matches!(value, [Frame::Int(-1..)]),
        b"error" => matches!(value, [Frame::Bulk(line)] if !line.is_empty()),
        _ => false,
    }
}

fn are_tokens(tokens: &[Frame]) -> bool {
    tokens.iter().all(|token| matches!(token, Frame::Int(_)))
}

#[rustfmt::skip]
const INSPECTED: [&str; 10] = [
    "kind", "ttl-ms", "holder-count", "holders", "fencing-token", "answer-bytes", "answer-ttl-ms", "waiter-count",
    "waiters", "grace-left-ms",
];

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

    #[test]
    fn replies_that_may_be_and_replies_that_may_not() {
        let error = |line: &str| Frame::Error(line.to_owned());
        let pair = |one, other| Frame::List(vec![one, other]);
        for (command, may_be, may_not) in [
            ("rlock.acquire", Frame::Int(-1), Frame::Int(-2)),
            ("RLOCK.ACQUIRE", Frame::Simple(b"WAITING".to_vec()), Frame::Simple(b"OK".to_vec())),
            ("RLOCK.WACQUIRE", pair(Frame::Int(7), Frame::Nil), pair(Frame::Int(7), Frame::Int(7))),
            ("RLOCK.MACQUIRE", pair(Frame::Nil, Frame::List(vec![Frame::Int(7)])), pair(Frame::Nil, Frame::Nil)),
            ("RLOCK.RELEASE", Frame::Nil, Frame::Int(2)),
            ("RLOCK.RENEW", error("OOM no"), error("STRANGE no")),
            (
                "RLOCK.ACQUIRE",
                error("QUEUEFULL as many wait for this lock as MAX allows, or more: 3"),
                error("QUEUEFULL: 3"),
            ),
            (
                "RLOCK.EVENTS",
                error("ERR ACK must be at most the seq of the last event that was delivered"),
                error("ERR ACK must be less"),
            ),
            ("RLOCK.EVENTS", Frame::List(Vec::new()), pair(Frame::Int(1), Frame::Nil)),
            ("RLOCK.QUEUES", Frame::List(Vec::new()), Frame::Nil),
            ("RLOCK.CANCEL s", Frame::Int(2), error("ERR internal error in rlock")),
            ("RLOCK.CANCEL s 1 2", pair(Frame::Int(0), Frame::Int(2)), pair(Frame::Int(0), Frame::Int(3))),
            ("RLOCK.CANCEL s 1", Frame::List(vec![Frame::Int(1)]), Frame::Int(1)),
            ("DEL", error("ERR its own"), error("ERR internal error in rlock")),
        ] {
            let words: Vec<_> = command.split(' ').map(|word| word.as_bytes().to_vec()).collect();
            let fault = |reply: &Frame| fault(&words, reply);
            assert_eq!(fault(&may_be), None, "{command}: {may_be:?}");
            assert!(fault(&may_not).is_some(), "{command}: {may_not:?}");
        }
    }
}
