//! What docs/commands.md says of replies: the shapes that each command's reply may have, the codes of errors, and what an
//! `ERR` may be about. Which words get which error is in tests/server/grammar.rs and its neighbours.

use rlock_testing::resp::Frame;

pub type Command = Vec<Vec<u8>>;

/// Which replies a command may have.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
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

/// What follows `ERR `. The server counts words itself, and scripts have words of their own for it.
const WRONG: [&str; 24] = [
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
    "holder has ",
    "LEASE has no meaning ",
    "fencing counter ",
    "lock name and its derived keys ",
    "ticket is in use ",
    "too many tickets",
];

/// What some servers say in scripts about any command: of QUEUES and SESSIONS, as whose rights count is not known there,
/// and where rights are missing.
const IN_SCRIPTS: [&str; 3] =
    ["not allowed from script", "ERR ACL failure in script", "ERR The user executing the script can't "];

/// The command of ours in this one, if there is one whose reply is also its: itself, or what a script calls.
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

/// Scripts that call the command that they are given, with one key before it, and return what it does.
pub const ONE_CALL: [&str; 2] = ["return redis.call(unpack(ARGV))", "return redis.pcall(unpack(ARGV))"];

/// What is wrong with the reply, if anything.
pub fn fault(command: &[Vec<u8>], reply: &Frame) -> Option<String> {
    if reply.tells_of("internal error in rlock") {
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

fn error_fault(line: &str) -> Option<String> {
    let (code, rest) = line.split_once(' ').unwrap_or((line, ""));
    if !CODES.contains(&code) {
        Some(format!("the code {code} is none of those that are documented"))
    } else if code == "ERR" && !WRONG.iter().any(|words| rest.starts_with(words)) {
        Some("this error is not documented".to_owned())
    } else {
        None
    }
}

/// Whether a reply tells that nothing was done.
pub fn is_refusal(command: &[Vec<u8>], reply: &Frame) -> bool {
    let Some(kind) = ours(command).and_then(|ours| kind(&ours[0])) else { return false };
    match (kind, reply) {
        (_, Frame::Error(_)) | (Kind::Inspect | Kind::Queues, _) => true,
        (Kind::Sessions, reply) => *reply != Frame::Int(1),
        (Kind::Acquire, Frame::Int(_)) | (Kind::Release, Frame::Nil) => true,
        (Kind::Renew | Kind::Break, Frame::Int(0)) => true,
        (Kind::Acquire, Frame::List(pair)) => pair.last() == Some(&Frame::Nil),
        _ => false,
    }
}

fn kind(name: &[u8]) -> Option<Kind> {
    Some(match name.to_ascii_uppercase().as_slice() {
        b"RLOCK.ACQUIRE" | b"RLOCK.RACQUIRE" | b"RLOCK.WACQUIRE" | b"RLOCK.PACQUIRE" | b"RLOCK.MACQUIRE" => {
            Kind::Acquire
        }
        b"RLOCK.RELEASE" => Kind::Release,
        b"RLOCK.RENEW" => Kind::Renew,
        b"RLOCK.INSPECT" => Kind::Inspect,
        b"RLOCK.QUEUES" => Kind::Queues,
        b"RLOCK.SESSIONS" => Kind::Sessions,
        b"RLOCK.BREAK" => Kind::Break,
        b"RLOCK.EVENTS" => Kind::Events,
        b"RLOCK.CANCEL" => Kind::Cancel,
        _ => return None,
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
        (Kind::Acquire, Frame::Nil | Frame::Int(-1..)) => true,
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
            ("RLOCK.EVENTS", error("ERR ACK must be less"), error("ERR something else")),
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
