//! Single histories: found once by random ones, or worth a name.

use crate::clock::Clock;
use crate::program::Wanted;
use crate::protection::Protection;
use crate::world::{Entry, Move, Setup, Topology, Wire, World};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn example(name: &str) -> World {
    World::new(&Setup::simple(name))
}

fn wants(wanted: Wanted) -> Move {
    Move::Acquire { program: 0, wanted }
}

fn owned(lease: Duration) -> Wanted {
    Wanted { owner: Some(1), lease, ..Wanted::of(0) }
}

/// The lock is held. A second attempt learns that, opens a session, and asks by it. Returns the connection of its requests.
fn one_waits_behind_a_holder(world: &mut World) -> Wire {
    world.take(wants(Wanted::of(0)));
    world.is_quiet();
    let own = world.all_wires()[0];
    world.take(wants(Wanted::of(0)));
    world.take(Move::Arrives(own));
    world.take(Move::Answers(own));
    everything_arrives(world);
    assert!(answer(world, Some(own)));
    own
}

/// Everything that is sent arrives at the server, and nothing comes back.
fn everything_arrives(world: &mut World) {
    let arrives = |it: &Move| matches!(it, Move::Opens(_) | Move::Arrives(_));
    while let Some(next) = world.possible().into_iter().find(arrives) {
        world.take(next);
    }
}

/// The next answer, on any line but this one.
fn answer(world: &mut World, but: Option<Wire>) -> bool {
    let answers = |it: &Move| matches!(it, Move::Answers(line) if Some(*line) != but);
    let next = world.possible().into_iter().find(answers);
    next.map(|next| world.take(next)).is_some()
}

#[test]
fn after_its_lease_a_guard_takes_nothing_from_the_next_one_of_its_owner() {
    let mut world = example("a guard whose lease has ended");
    world.take(wants(Wanted { is_kept: false, ..owned(SECOND) }));
    world.is_quiet();
    world.take(Move::Waits(SECOND * 2));
    world.take(wants(owned(SECOND * 6)));
    everything_arrives(&mut world);
    world.take(Move::Release { program: 0, guard: 1, is_awaited: true });
    world.is_quiet();
    assert!(world.programs[0].released[0].as_ref().is_err_and(|error| error.is_lost() && !error.is_in_doubt()));
    assert!(world.servers[0].is_held_by("a", "owner-0-1"));
    world.comes_to_rest();
}

#[test]
fn a_release_that_is_tried_again_takes_nothing_from_the_next_guard_of_its_owner() {
    let mut world = example("a release that is tried again");
    world.take(wants(owned(SECOND)));
    world.is_quiet();
    world.take(Move::Refuses { server: 0, line: Some("OOM no memory") });
    world.take(Move::Release { program: 0, guard: 1, is_awaited: true });
    everything_arrives(&mut world);
    world.take(Move::Waits(SECOND * 2));
    world.take(Move::Refuses { server: 0, line: None });
    world.take(wants(owned(SECOND * 6)));
    world.is_quiet();
    world.take(Move::Waits(SECOND));
    world.is_quiet();
    assert!(world.servers[0].is_held_by("a", "owner-0-1"));
    world.comes_to_rest();
}

#[test]
fn a_short_lease_that_is_asked_for_does_not_shorten_the_longer_one_of_its_owner() {
    let mut world = example("a short lease behind a longer one");
    world.take(wants(owned(SECOND * 6)));
    world.take(wants(owned(SECOND)));
    everything_arrives(&mut world);
    answer(&mut world, None);
    world.take(Move::Waits(SECOND * 3 / 2));
    assert_eq!(world.programs[0].granted.len(), 1);
    world.comes_to_rest();
}

#[test]
fn a_renewal_does_not_shorten_the_fixed_lease_of_its_owner() {
    let mut world = example("a renewal next to a fixed lease");
    world.take(wants(owned(SECOND)));
    world.is_quiet();
    world.take(wants(Wanted { is_kept: false, ..owned(SECOND * 6) }));
    world.is_quiet();
    world.take(Move::Passes);
    world.is_quiet();
    world.take(Move::Release { program: 0, guard: 1, is_awaited: true });
    world.is_quiet();
    world.take(Move::Waits(SECOND * 4));
    world.comes_to_rest();
}

#[test]
fn a_waiter_in_a_session_that_has_ended_asks_again() {
    let mut world = example("a session that has ended");
    // Its request arrives, and the answer stays under way.
    let own = one_waits_behind_a_holder(&mut world);
    world.take(Move::Arrives(own));
    world.take(Move::EndsSessions(0));
    assert!(answer(&mut world, Some(own)));
    world.is_quiet();
    world.take(Move::Release { program: 0, guard: 1, is_awaited: true });
    world.is_quiet();
    world.take(Move::Waits(SECOND));
    world.is_quiet();
    assert_eq!(world.programs[0].granted.len(), 2, "the lock is free, and one waits");
    world.comes_to_rest();
}

#[test]
fn a_release_without_an_answer_is_in_doubt() {
    let mut world = example("a release without an answer");
    world.take(wants(Wanted::of(0)));
    world.is_quiet();
    let line = world.all_wires()[0];
    world.take(Move::Release { program: 0, guard: 1, is_awaited: true });
    everything_arrives(&mut world);
    world.take(Move::Breaks { wire: line, arrives: false });
    world.is_quiet();
    while world.programs[0].released.is_empty() {
        world.take(Move::Passes);
        world.is_quiet();
    }
    assert!(world.programs[0].released[0].as_ref().is_err_and(|error| error.is_lost() && error.is_in_doubt()));
    world.comes_to_rest();
}

#[test]
fn what_a_late_answer_has_granted_is_released_with_the_rest() {
    let mut world = example("a late answer");
    world.take(wants(owned(SECOND * 20)));
    everything_arrives(&mut world);
    world.take(Move::Waits(world.programs[0].settings.answer));
    let late = world.all_wires()[0];
    while world.all_wires().len() == 1 {
        world.take(Move::Passes);
    }
    everything_arrives(&mut world);
    world.take(Move::Answers(late));
    world.is_quiet();
    world.take(Move::Release { program: 0, guard: 1, is_awaited: true });
    world.is_quiet();
    assert_eq!(world.servers[0].holds(), []);
    world.comes_to_rest();
}

/// Holds the lock; a second attempt waits, so that there is a session; the request of a third is on its way. Returns its
/// line.
fn third_on_its_way(world: &mut World) -> Wire {
    let by_lane = Wanted { callers_lane: true, lease: SECOND * 20, ..Wanted::of(0) };
    world.take(wants(by_lane.clone()));
    world.is_quiet();
    world.take(wants(Wanted { within: Some(SECOND * 30), ..Wanted::of(0) }));
    world.is_quiet();
    world.take(wants(by_lane));
    let line = world.possible().into_iter().find_map(|it| if let Move::Arrives(line) = it { Some(line) } else { None });
    line.expect("what the third one asks")
}

#[test]
fn a_wait_asks_again_if_its_own_earlier_request_takes_its_place() {
    let mut world = example("a request that comes after its successor");
    let own = one_waits_behind_a_holder(&mut world);
    // It asks by the session, which ends, and its connection breaks before its request has arrived.
    world.take(Move::EndsSessions(0));
    assert!(answer(&mut world, Some(own)));
    world.take(Move::Breaks { wire: own, arrives: true });
    while let Some(next) = world.possible().into_iter().next() {
        world.take(next);
    }
    assert_eq!(world.servers[0].waiters(), 1, "it waits by another session");
    world.take(Move::Late { wire: own, arrives: true });
    world.is_quiet();
    world.take(Move::Release { program: 0, guard: 1, is_awaited: true });
    world.is_quiet();
    assert_eq!(world.programs[0].granted.len(), 2, "{:?}", world.programs[0].refused);
    world.comes_to_rest();
}

#[test]
fn settle_waits_until_a_request_on_its_way_is_withdrawn() {
    let mut world = example("a request on its way");
    let line = third_on_its_way(&mut world);
    world.take(Move::Abandon { program: 0, attempt: 3 });
    world.take(Move::Abandon { program: 0, attempt: 2 });
    world.take(Move::Settle(0));
    for _ in 0..5 {
        let others = |it: &Move| *it != Move::Arrives(line) && *it != Move::Answers(line);
        while let Some(next) = world.possible().into_iter().find(others) {
            world.take(next);
        }
    }
    assert!(!world.is_settled(), "the request of the third has not arrived");
    world.is_quiet();
    assert!(world.is_settled() && world.servers[0].waiters() == 0);
    world.comes_to_rest();
}

/// The lease is 3 s, and each answer takes 600 ms, which is longer than one renewal may take.
#[test]
fn a_renewal_that_is_answered_late_counts() {
    let mut world = example("late answers");
    let (step, late) = (SECOND / 10, SECOND * 6 / 10);
    world.take(wants(Wanted { lease: SECOND * 3, ..Wanted::of(0) }));
    world.is_quiet();
    for _ in 0..20 {
        everything_arrives(&mut world);
        let sent: Vec<_> = world.possible().into_iter().filter(|it| matches!(it, Move::Answers(_))).collect();
        for _ in 0..late.as_millis() / step.as_millis() {
            world.take(Move::Waits(step));
            everything_arrives(&mut world);
        }
        sent.into_iter().for_each(|answer| world.take(answer));
        assert!(!world.programs[0].guards[&1].is_lost, "lost, though the server has renewed it in time");
    }
    world.comes_to_rest();
}

/// The connection is dead, and an acquire of the owner is on it: its answer may take as long as the lease.
#[test]
fn a_lease_does_not_wait_for_a_silent_request_of_its_owner() {
    let mut world = example("a renewal behind a silent request");
    world.take(wants(owned(SECOND * 3)));
    world.is_quiet();
    world.take(Move::IsCut(world.all_wires()[0]));
    world.take(wants(owned(SECOND * 3)));
    for _ in 0..30 {
        world.take(Move::Waits(SECOND / 10));
        while let Some(next) = world.possible().into_iter().next() {
            world.take(next);
        }
    }
    assert!(!world.programs[0].guards[&1].is_lost, "no renewal has come");
    world.comes_to_rest();
}

fn confirmed(lease: Duration) -> Wanted {
    Wanted { confirmed: true, ..owned(lease) }
}

#[test]
fn what_an_owner_is_granted_without_a_replica_is_not_confirmed_by_it() {
    let mut world = example("a grant without a replica, of an owner that has one");
    world.take(wants(confirmed(SECOND)));
    world.is_quiet();
    world.take(Move::ReplicaStalls(1));
    world.take(wants(owned(SECOND * 6)));
    world.is_quiet();
    assert_eq!(world.programs[0].granted.len(), 2);
    world.take(Move::Waits(SECOND * 3 / 2));
    world.comes_to_rest();
}

/// Three programs, and a master with one replica, protected as a whole.
fn failover(title: &str) -> World {
    let (topology, protection, programs) = (Topology::Sentinels, Protection::WHOLE, vec![Clock::default(); 3]);
    World::new(&Setup { topology, protection, programs, ..Setup::simple(title) })
}

/// How long until a master that is cut off may be replaced.
const REPLACED: Duration = Duration::from_millis(3_100);

fn is_of(program: usize, next: &Move) -> bool {
    match next {
        Move::Opens(wire) | Move::Arrives(wire) | Move::Answers(wire) => wire.program == program,
        Move::Learns(it) => *it == program,
        _ => false,
    }
}

/// Everything under way from and to a program arrives.
fn is_served(world: &mut World, program: usize) {
    while let Some(next) = world.possible().into_iter().find(|it| is_of(program, it)) {
        world.take(next);
    }
}

fn acquires(world: &mut World, program: usize, wanted: Wanted) {
    world.take(Move::Acquire { program, wanted });
    is_served(world, program);
}

fn fixed() -> Wanted {
    Wanted { is_kept: false, ..Wanted::of(0) }
}

fn loses_connections(world: &mut World, program: usize) {
    for wire in world.open().into_iter().filter(|wire| wire.program == program) {
        world.take(Move::Breaks { wire, arrives: false });
    }
}

#[test]
fn an_owner_does_not_re_enter_in_the_grace() {
    let mut world = failover("an owner whose release was not replicated");
    acquires(&mut world, 0, Wanted { owner: Some(1), ..fixed() });
    world.take(Move::IsCutOff(0));
    world.take(Move::Release { program: 0, guard: 1, is_awaited: true });
    is_served(&mut world, 0);
    acquires(&mut world, 1, fixed());
    world.take(Move::Waits(REPLACED));
    world.take(Move::IsPromoted(1));
    loses_connections(&mut world, 0);
    acquires(&mut world, 0, Wanted { owner: Some(1), ..fixed() });
    assert_eq!((world.programs[0].granted.len(), world.programs[1].granted.len()), (1, 1));
    assert!(world.servers[1].is_held_by("a", "owner-0-1"), "as far as the new master knows");
    world.comes_to_rest();
}

#[test]
fn a_release_hands_nothing_over_in_the_grace() {
    let mut world = failover("a release that comes to both masters");
    acquires(&mut world, 0, fixed());
    world.take(Move::IsCutOff(0));
    world.take(Move::Release { program: 0, guard: 1, is_awaited: true });
    everything_arrives(&mut world);
    world.open().into_iter().for_each(|wire| world.take(Move::IsCut(wire)));
    acquires(&mut world, 1, fixed());
    world.take(Move::Waits(REPLACED));
    world.take(Move::IsPromoted(1));
    acquires(&mut world, 2, fixed());
    for _ in 0..20 {
        is_served(&mut world, 0);
        world.take(Move::Waits(SECOND / 20));
    }
    is_served(&mut world, 2);
    assert!(!world.servers[1].is_held_by("a", "holder-1"), "the release has come to the new master");
    assert_eq!((world.programs[1].granted.len(), world.programs[2].granted.len()), (1, 0));
    world.comes_to_rest();
}

#[test]
fn each_promotion_begins_a_grace() {
    let mut world = failover("a server that is promoted twice");
    for (old, new) in [(0, 1), (1, 0)] {
        world.take(Move::IsCutOff(old));
        world.take(Move::Waits(REPLACED));
        world.take(Move::IsPromoted(new));
        world.take(Move::Joins(old));
        world.take(Move::Follows(old));
    }
    world.take(Move::Waits(SECOND * 7));
    world.take(Move::ReplicaStalls(1));
    acquires(&mut world, 1, fixed());
    world.take(Move::IsCutOff(0));
    world.take(Move::Waits(REPLACED));
    world.take(Move::IsPromoted(1));
    acquires(&mut world, 2, fixed());
    assert_eq!((world.programs[1].granted.len(), world.programs[2].granted.len()), (1, 0));
    world.comes_to_rest();
}

/// A program stalls between the look-up and its wait, while the server that it found becomes a replica.
#[test]
fn a_ticket_on_a_replica_is_not_cancelled_forever() {
    let mut world = failover("a ticket on a replica");
    acquires(&mut world, 0, Wanted::of(0));
    acquires(&mut world, 1, Wanted::of(0));
    world.take(Move::IsCutOff(0));
    world.take(Move::Waits(REPLACED));
    world.take(Move::IsPromoted(1));
    world.take(Move::Joins(0));
    world.take(Move::Follows(0));
    world.take(Move::IsCutOff(1));
    world.take(Move::Waits(REPLACED / 2));
    loses_connections(&mut world, 1);
    world.take(Move::Learns(1));
    world.take(Move::Stalls { program: 1, time: REPLACED / 2 });
    world.take(Move::Waits(REPLACED / 2));
    world.take(Move::IsPromoted(0));
    world.take(Move::Joins(1));
    world.take(Move::Follows(1));
    while world.is_stalled(1) {
        world.take(Move::Passes);
    }
    // The session is opened at the replica, as that takes no write; a request for a lock is refused there.
    while !matches!(world.account.last(), Some(Entry::Asked(1, request)) if request[0] == b"RLOCK.ACQUIRE") {
        let next = world.possible().into_iter().find(|it| is_of(1, it));
        world.take(next.expect("it asks at last"));
    }
    world.take(Move::Abandon { program: 1, attempt: 2 });
    world.comes_to_rest();
}
