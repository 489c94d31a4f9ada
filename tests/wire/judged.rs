//! Our commands on one lock that no other client touches: each reply, and what the keys hold after it, must be those of the
//! naive model of the lock.

use crate::connection::{Connection, words_of};
use crate::contract::Command;
use crate::player::words;
use crate::random::Random;
use rlock_core::lock::{Limit, Side};
use rlock_sim::{Reference, Reply, Value};
use rlock_testing::resp::Frame;

const KEY: &str = "judged";
const COMMANDS: usize = 40;
const HOLDERS: [&str; 3] = ["h", "g", "h:1"];

const ANSWERS: [&[u8]; 3] = [b"", b"7", b"\r\n$3\r\n\0\xff"];

/// No lease ends during the test.
const LEASES: [i64; 2] = [600_000, 900_000];

/// How long the commands may take: a reply may say that this much less is left of a lease.
const SLACK_MS: i64 = 100_000;

/// # Panics
/// If the server says or keeps anything else than the model.
pub fn judge(referee: &mut Connection, random: &mut Random) {
    let mut reference = Reference::of(KEY);
    // The model has no clock to take tokens from.
    referee.say("CONFIG SET rlock.tokens count");
    referee.say("DEL judged redisson_lock_token:{judged} rlock_answer:{judged}");
    for _ in 0..COMMANDS {
        let (command, expected) = ask(&mut reference, random);
        let reply = reply_in(&referee.ask(&command));
        let is_left = |left: i64, most: i64| (0..=SLACK_MS).contains(&(most - left));
        let is_it = match (&reply, &expected) {
            (Reply::Number(left), Reply::Number(most @ SLACK_MS..)) => is_left(*left, *most),
            (reply, expected) => reply == expected,
        };
        assert!(is_it, "{}: {reply:?}, {expected:?} is expected", words_of(&command));
        let (kept, expected) = (kept_by(referee), kept(&reference));
        assert_eq!(kept, expected, "what is kept after {}", words_of(&command));
        let is_seen = match (seen_answer(referee), reference.seen_answer()) {
            (Some((size, left)), Some((length, most))) => size == length && is_left(left, most),
            (seen, expected) => seen == expected,
        };
        assert!(is_seen, "{:?} is to be seen after {}", reference.seen_answer(), words_of(&command));
    }
    referee.say("CONFIG SET rlock.tokens clock");
    referee.say("DEL judged redisson_lock_token:{judged} rlock_answer:{judged}");
}

/// A command, and what the model replies.
fn ask(reference: &mut Reference, random: &mut Random) -> (Command, Reply) {
    let (holder, lease) = (random.one_of(&HOLDERS), random.one_of(&LEASES));
    let limit = Limit::new(2).expect("a limit");
    let sides =
        [("", Side::Plain), ("R", Side::Read), ("R", Side::Read), ("W", Side::Write), ("P", Side::Permit(limit))];
    let (line, reply) = match random.below(14) {
        9..11 => (format!("RLOCK.ONCE {KEY} {holder} {lease}"), reference.once(holder, lease)),
        11 => return answer(reference, holder, lease, random),
        // While an answer is stored, no caller leads.
        12 => {
            let is_there = reference.seen_answer().is_some();
            reference.delete_answer();
            ("DEL rlock_answer:{judged}".to_owned(), Reply::Number(i64::from(is_there)))
        }
        0..5 => {
            let ((letter, side), fenced) = (random.one_of(&sides), random.is(30));
            let limit = if letter == "P" { " LIMIT 2" } else { "" };
            let fenced_word = if fenced { " FENCED" } else { "" };
            let line = format!("RLOCK.{letter}ACQUIRE {KEY} {holder} {lease}{limit}{fenced_word}");
            (line, reference.acquire(holder, side, lease, fenced))
        }
        5..9 => {
            let side = random.one_of(&[("", None), (" READ", Some(Side::Read)), (" WRITE", Some(Side::Write))]);
            let (all, has_lease) = (random.is(20), random.is(20));
            let mut line = format!("RLOCK.RELEASE {KEY} {holder}{}", side.0);
            if has_lease {
                line += &format!(" LEASE {lease}");
            }
            line += if all { " ALL" } else { "" };
            (line, reference.release(holder, side.1, has_lease.then_some(lease), all))
        }
        _ => (format!("RLOCK.RENEW {KEY} {holder} {lease}"), reference.renew(holder, lease)),
    };
    (words(&line), reply)
}

fn answer(reference: &mut Reference, holder: &str, keep: i64, random: &mut Random) -> (Command, Reply) {
    let value: &[u8] = random.one_of(&ANSWERS);
    let mut command = words(&format!("RLOCK.ANSWER {KEY} {holder} value KEEP {keep}"));
    command[3] = value.to_vec();
    (command, reference.answer(holder, value, keep))
}

/// What a frame says, in the model's words.
fn reply_in(frame: &Frame) -> Reply {
    match frame {
        Frame::Nil => Reply::Nil,
        Frame::Int(number) => Reply::Number(*number),
        Frame::Bulk(value) => Reply::Answer(value.clone()),
        Frame::Error(line) => {
            let codes = ["WRONGTYPE", "WRONGKIND", "ERR"];
            Reply::Error(codes.into_iter().find(|code| line.starts_with(code)).unwrap_or("another"))
        }
        Frame::List(pair) => match pair[..] {
            [Frame::Nil, Frame::Int(token)] => Reply::Token(token),
            [Frame::Int(left), Frame::Nil] => Reply::Number(left),
            _ => panic!("{pair:?} is no reply to ACQUIRE"),
        },
        other => panic!("{other:?} is no reply"),
    }
}

/// What RLOCK.INSPECT shows of the stored answer: its length, and the ms until its end.
fn seen_answer(referee: &mut Connection) -> Option<(usize, i64)> {
    let seen = referee.say(&format!("RLOCK.INSPECT {KEY}"));
    let pairs = seen.pairs().expect("a map");
    let of = |name: &str| &pairs.iter().find(|(key, _)| key.text() == name.as_bytes()).expect("a name").1;
    match [of("answer-bytes"), of("answer-ttl-ms")] {
        [Frame::Int(size), Frame::Int(left)] => Some((usize::try_from(*size).expect("a size"), *left)),
        [Frame::Nil, Frame::Nil] => None,
        seen => panic!("{seen:?} is no answer"),
    }
}

/// The fields or members of the lock's key, in the order of their names.
type Kept = Vec<(Vec<u8>, Vec<u8>)>;

fn kept(reference: &Reference) -> Kept {
    let mut kept = match reference.entries().remove(KEY.as_bytes()).map(|entry| entry.value) {
        Some(Value::Hash(fields)) => fields,
        Some(Value::SortedSet(permits)) => permits.from(0).map(|(_, holder)| (holder.to_vec(), Vec::new())).collect(),
        Some(Value::Text(_)) => panic!("a lock is no string"),
        None => Vec::new(),
    };
    kept.sort();
    kept
}

fn kept_by(referee: &mut Connection) -> Kept {
    let is_set = referee.say(&format!("TYPE {KEY}")).is("zset");
    let reply = referee.say(if is_set { "ZRANGE judged 0 -1" } else { "HGETALL judged" });
    let Frame::List(words) = reply else { panic!("{reply:?} is no list") };
    let words: Vec<_> = words.iter().map(|word| word.text().to_vec()).collect();
    let of_one = |words: &[Vec<u8>]| (words[0].clone(), words.get(1).cloned().unwrap_or_default());
    let mut kept: Kept = words.chunks(if is_set { 1 } else { 2 }).map(of_one).collect();
    kept.sort();
    kept
}
