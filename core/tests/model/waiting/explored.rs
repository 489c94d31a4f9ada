//! Every history of a few steps in a small world, as random ones may miss one: everything that three holders, two locks
//! and a session with its tickets can do, in every order, with turns that end early, leases that end, keys that others
//! delete, clients that are gone, pauses and changes of role.
//!
//! Two histories that lead to the same state continue as one, so the number of states grows slowly. A state is what the
//! engine keeps, the keys, and what is under way. Of numbers only the order is part of it, and of times the time left, as
//! nothing else of them matters. What the reference remembers beyond that is not part of it.
//!
//! In each state everything is checked that is checked in random histories; and each waiter must still get the lock once
//! those before it give it up.
//!
//! `EXPLORE_STEPS` asks for longer histories: `make explore`.

use super::play::Play;
use super::world::{LOCKS, Look, PAUSED_MS};
use super::{Ack, EventsAsked, Step};
use crate::{Told, explored_steps, permit};
use rlock_core::lock::Side;
use std::collections::HashSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Mutex;

/// The lease of everything; a few ticks of the clock end it.
const LEASE: i64 = 3;

/// Far from 0, so that times differ from all other numbers.
const BEGIN: i64 = 1 << 40;

/// How often each lock is broken, so that all waiters have their turn.
const WAITED_FOR: usize = 12;

fn alphabet(one: Side, other: Side) -> Vec<Step> {
    let events = |ack, wait| Step::Events(EventsAsked { session: 0, connection: 0, ack, wait, ttl: Some(1_000) });
    let ask = |holder, side, wait| Step::Ask { lock: 0, holder, side, lease: LEASE, wait, max: None };
    let by_ticket =
        |lock, holder, side| Step::AskByTicket { session: 0, lock, holder, side, lease: LEASE, wait: 0, max: None };
    let release = |holder, all| Step::Release { lock: 0, holder, side: None, all };
    vec![
        ask(0, one, None),
        ask(1, other, Some(0)),
        ask(1, one, Some(2)),
        Step::Ask { lock: 0, holder: 2, side: other, lease: LEASE, wait: Some(0), max: Some(1) },
        Step::Ask { lock: 1, holder: 0, side: other, lease: 1_000, wait: None, max: None },
        by_ticket(0, 2, one),
        by_ticket(0, 1, other),
        by_ticket(1, 2, other),
        Step::AskAgain { session: 0, ticket: 0, other: true },
        release(0, false),
        release(1, true),
        release(2, false),
        Step::Renew { lock: 0, holder: 0, lease: 1_000 },
        events(Ack::None, Some(0)),
        events(Ack::All, None),
        Step::Cancel { session: 0, tickets: vec![0, 1] },
        Step::End { session: 0 },
        Step::Disconnect { connection: 0 },
        Step::NextAnswerIsLost,
        Step::HangUp { waiter: 0 },
        Step::NextOneDies,
        Step::Advance { ms: 1 },
        Step::Advance { ms: 200 },
        Step::ForeignDelete { lock: 0 },
        Step::Break { lock: 0 },
        Step::Pause(true),
        Step::PauseEnds,
        Step::BecomeReplica,
        Step::Turn(1),
        Step::Busy(true),
        Step::Busy(false),
        Step::OneTurn,
    ]
}

/// The steps that matter in a grace, and few others.
fn alphabet_of_grace(one: Side, other: Side) -> Vec<Step> {
    let is_left_out = |step: &Step| {
        let is_of_sessions = matches!(step, Step::AskAgain { .. } | Step::Cancel { .. } | Step::NextAnswerIsLost);
        is_of_sessions
            || matches!(step, Step::Ask { lock: 1, .. } | Step::AskByTicket { lock: 1, .. } | Step::End { .. })
    };
    let mut alphabet = alphabet(one, other);
    alphabet.retain(|step| !is_left_out(step));
    let still = Step::StandsStill(LEASE);
    let grace = [Step::SetGrace(LEASE + 2), Step::SetGrace(0), Step::BecomeMaster, ask_again(one), still];
    alphabet.extend(grace);
    alphabet
}

/// The first holder asks again, and waits.
fn ask_again(side: Side) -> Step {
    Step::Ask { lock: 0, holder: 0, side, lease: LEASE, wait: Some(0), max: None }
}

fn explore(one: Side, other: Side, alphabet: &[Step]) {
    let steps = explored_steps(5);
    let seen = Mutex::new(HashSet::new());
    let mut frontier: Vec<Vec<u8>> = vec![Vec::new()];
    for length in 1..=steps {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let seen = &seen;
        let part = frontier.len().div_ceil(threads);
        frontier = std::thread::scope(|scope| {
            let follow_all = |histories: &[Vec<u8>]| -> Vec<Vec<u8>> {
                histories.iter().flat_map(|history| follow(history, alphabet, seen)).collect()
            };
            let parts: Vec<_> =
                frontier.chunks(part.max(1)).map(|part| scope.spawn(move || follow_all(part))).collect();
            parts.into_iter().flat_map(|part| part.join().expect("every history is sound")).collect()
        });
        println!(
            "{one:?}, {other:?}: {} states by {length} steps, {} in all",
            frontier.len(),
            seen.lock().unwrap().len()
        );
    }
}

/// The histories that are longer by one step and lead to a state that was not seen.
fn follow(history: &[u8], alphabet: &[Step], seen: &Mutex<HashSet<u64>>) -> Vec<Vec<u8>> {
    let longer = (0..alphabet.len()).map(|step| [history, &[u8::try_from(step).unwrap()]].concat());
    longer.filter(|history| leads_to_new_state(history, alphabet, seen)).collect()
}

fn leads_to_new_state(history: &[u8], alphabet: &[Step], seen: &Mutex<HashSet<u64>>) -> bool {
    let steps: Vec<_> = history.iter().map(|step| &alphabet[usize::from(*step)]).collect();
    let told = Told(&steps);
    let mut play = Play::new();
    play.advance(BEGIN);
    for step in &steps {
        play.take(step);
    }
    play.check();
    let is_new = seen.lock().unwrap().insert(state(&play));
    if is_new {
        everyone_gets_the_lock(&mut play);
        play.end();
    }
    drop(told);
    is_new
}

/// Attended waiters get the lock, one after the other, as soon as each holder's lock is broken.
fn everyone_gets_the_lock(play: &mut Play) {
    play.take(&Step::PauseEnds);
    play.take(&Step::SetGrace(0));
    play.take(&Step::StandsStill(0));
    play.take(&Step::Turn(100));
    play.take(&Step::Busy(false));
    play.take(&Step::Advance { ms: PAUSED_MS + 1 });
    for _ in 0..WAITED_FOR {
        for lock in 0..2 {
            play.take(&Step::Break { lock });
        }
    }
    let left: Vec<_> = play.waiting().into_iter().filter(|waiting| play.is_attended(waiting)).collect();
    assert!(left.is_empty(), "nobody lets {left:?} in");
}

fn state(play: &Play) -> u64 {
    let world = &play.world;
    let grace = (world.grace_ms.get(), world.watcher.grace_since.get());
    let held_back = (world.held_back_until.get() - play.now()).max(0);
    let flags = (
        grace,
        held_back,
        world.is_paused(),
        world.turn.get(),
        play.busy,
        play.next_one_dies,
        play.next_answer_is_lost,
    );
    let keyspace = world.keyspace.borrow();
    let keys = LOCKS.map(|lock| format!("{:?}", keyspace.entries(lock.database).collect::<Vec<_>>()));
    let calls: Vec<_> = play.connections.iter().map(|connection| connection.state()).collect();
    let engine = format!("{:?} {:?}", play.engine, world.inbox.borrow());
    let mut hasher = DefaultHasher::new();
    canonical(&format!("{flags:?} {keys:?} {calls:?} {engine}"), play.now()).hash(&mut hasher);
    hasher.finish()
}

/// Replaces numbers by their places in the order if only that matters, and times by the time left.
fn canonical(text: &str, now: i64) -> String {
    let (mut pieces, mut numbers) = (Vec::new(), [const { Vec::new() }; 4]);
    let (mut word, mut rest) = ("", text);
    while let Some(begin) = rest.find(|letter: char| letter.is_ascii_alphanumeric() || letter == '_') {
        let (before, from) = rest.split_at(begin);
        let end = from.find(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '_')).unwrap_or(from.len());
        let (piece, behind) = from.split_at(end);
        pieces.push((before, 0, piece));
        rest = behind;
        let Ok(number) = piece.parse::<i64>() else {
            word = if piece == "Some" { word } else { piece };
            continue;
        };
        let kind = match word {
            "number" => 1,
            "connection" => 2,
            "seq" | "last" | "told" | "told_before" => 3,
            _ => 0,
        };
        numbers[kind].push(number);
        pieces.last_mut().expect("it was pushed").1 = kind + 1;
    }
    numbers.iter_mut().for_each(|numbers| numbers.sort_unstable());
    numbers.iter_mut().for_each(Vec::dedup);
    let mut canonical = String::new();
    for (before, kind, piece) in pieces {
        canonical.push_str(before);
        match (kind, piece.parse::<i64>()) {
            (1, Ok(time)) if (time - now).abs() < BEGIN / 2 => canonical.push_str(&(time - now).to_string()),
            (2.., Ok(number)) => canonical.push_str(&numbers[kind - 1].binary_search(&number).unwrap().to_string()),
            _ => canonical.push_str(piece),
        }
    }
    canonical + rest
}

#[test]
fn every_short_history_of_plain_locks_is_sound() {
    explore(Side::Plain, Side::Plain, &alphabet(Side::Plain, Side::Plain));
}

#[test]
fn every_short_history_of_read_write_locks_is_sound() {
    explore(Side::Read, Side::Write, &alphabet(Side::Read, Side::Write));
}

#[test]
fn every_short_history_with_a_grace_is_sound() {
    explore(Side::Plain, Side::Plain, &alphabet_of_grace(Side::Plain, Side::Plain));
    explore(Side::Read, Side::Write, &alphabet_of_grace(Side::Read, Side::Write));
    explore(permit(1), permit(2), &alphabet_of_grace(permit(1), permit(2)));
}

#[test]
fn every_short_history_of_permits_is_sound() {
    explore(permit(1), permit(2), &alphabet(permit(1), permit(2)));
}
