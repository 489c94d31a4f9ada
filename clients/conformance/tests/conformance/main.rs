//! What each client promises, tried on the client of each language: a trial for each scenario and client, whose name is
//! `client::subject::scenario`.
//!
//! - `RLOCK_ADAPTERS`: the clients, as `name=command`, one on each line or with semicolons between them; Rust's alone
//!   if it is not set
//! - `RLOCK_DEV`: the program `rlock`: its `rlock dev` is the server, and scenarios that need other servers are ignored
//!
//! A scenario that needs what a client has not is shown as ignored. What a client has not is pinned here: one that
//! drops something fails, and so does one that has more than is known.
#![allow(clippy::unwrap_used)]

mod breaks;
mod cancelled;
mod crowd;
mod ends;
mod errors;
mod failover;
mod limits;
mod load;
mod locks;
mod losses;
mod order;
mod world;

use libtest_mimic::{Arguments, Trial};
use world::{Tried, World};

/// What clients have not, in alphabetical order: requests and fields of the protocol. And how many connections one has
/// to a server at most. Who is not listed has all, by three.
const KNOWN: &[(&str, &[&str], usize)] = &[
    // By Redisson, which has none of these, tells of no end of a fixed lease, and has connections of its own.
    ("java", &["fixed", "max_waiters", "owner", "replicas", "tokens"], 40),
];

const CONNECTIONS_MAX: usize = 3;

/// Most scenarios wait most of the time; but each has a server, and some a dozen processes.
const AT_A_TIME: usize = 4;

struct Scenario {
    name: &'static str,
    /// Requests and fields; and `servers`, if `rlock dev` is not enough.
    needs: &'static [&'static str],
    play: fn(&World),
}

macro_rules! scenarios {
    ($($subject:ident::$name:ident $([$($need:literal),*])?;)*) => {
        &[$(Scenario {
            name: concat!(stringify!($subject), "::", stringify!($name)),
            needs: &[$($($need),*)?],
            play: $subject::$name,
        }),*]
    };
}

/// What takes long comes first.
const SCENARIOS: &[Scenario] = scenarios! {
    failover::a_lock_that_is_known_to_the_new_master ["sentinels", "servers"];
    failover::a_lock_that_is_forgotten ["sentinels", "servers"];
    failover::a_cluster ["cluster", "servers"];
    cancelled::in_the_moment_of_the_grant ["cancel"];
    cancelled::it_leaves_the_queue ["cancel"];
    breaks::a_machine_that_vanishes;
    breaks::places_are_kept;
    breaks::answers_that_are_cut;
    breaks::a_session_that_is_ended;
    breaks::a_session_that_is_ended_before_it_was_told_anything;
    breaks::a_waiter_that_stands_still;
    breaks::a_server_that_starts_anew;
    breaks::a_release_without_an_answer;
    breaks::an_acquire_without_an_answer;
    crowd::a_thousand_wait;
    losses::a_program_that_is_held_up_keeps_its_lock ["block"];
    losses::a_lock_that_is_broken;
    losses::why_it_is_lost;
    losses::a_frozen_server;
    losses::a_network_that_loses_requests;
    losses::a_network_that_loses_answers;
    losses::a_slow_network;
    losses::a_slow_network_and_a_fixed_lease ["fixed"];
    losses::a_grant_that_is_told_late;
    losses::a_process_that_stands_still ["run"];
    losses::work_that_is_done ["run", "fenced"];
    losses::work_that_is_stopped ["run"];
    losses::work_that_ends_in_doubt ["run"];
    ends::a_client_that_is_closed ["close"];
    ends::a_process_that_ends;
    ends::a_holder_that_dies;
    ends::a_waiter_that_dies;
    errors::no_module ["servers"];
    errors::no_right;
    errors::a_right_that_is_taken_away;
    errors::a_server_that_is_gone_makes_no_noise;
    errors::another_kind ["read"];
    errors::what_the_server_refuses ["owner"];
    errors::arguments_that_are_refused;
    errors::nobody_listens;
    errors::an_address_that_is_none;
    errors::no_server_at_all;
    limits::a_limit_is_kept;
    limits::a_limit_is_kept_on_a_frozen_server;
    locks::one_holds;
    locks::a_release_hands_over;
    locks::readers_share ["read", "write"];
    locks::permits_are_limited ["permit"];
    locks::several_are_all_or_none ["all"];
    locks::an_owner_acquires_again ["owner"];
    locks::an_owner_waits_twice ["owner"];
    locks::tokens_grow ["fenced"];
    locks::tokens_of_several ["all", "fenced", "tokens"];
    locks::a_queue_may_be_long_enough ["max_waiters"];
    locks::a_fixed_lease_ends ["fixed"];
    locks::too_few_replicas ["replicas"];
};

/// Tried once, on all clients together.
const TOGETHER: Scenario = Scenario {
    name: "order::all_languages_wait_in_one_queue",
    needs: &[],
    play: order::all_languages_wait_in_one_queue,
};

fn main() {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(AT_A_TIME);
    load::watch();
    let rust = format!("rust='{}'", env!("CARGO_BIN_EXE_rust-adapter"));
    let given = std::env::var("RLOCK_ADAPTERS").ok().filter(|given| !given.trim().is_empty()).unwrap_or(rust.clone());
    let lines = given.split(['\n', ';']).map(str::trim).filter(|line| !line.is_empty());
    let mut all: Vec<_> = lines.map(tried).collect();
    let asked_for = all.len();
    if all.iter().all(|it| it.name != "rust") {
        // It stands beside the others in their queue.
        all.push(tried(&rust));
    }
    // For as long as this process lives.
    let all: &'static [Tried] = all.leak();
    let each = all[..asked_for].iter().flat_map(|tried| SCENARIOS.iter().map(move |it| trial(it, tried, all)));
    let trials = each.chain([trial(&TOGETHER, &all[0], all).with_kind("all clients")]).collect();
    libtest_mimic::run(&arguments, trials).exit();
}

fn tried(line: &str) -> Tried {
    let (name, command) = line.split_once('=').unwrap_or_else(|| panic!("not name=command: {line}"));
    let known = KNOWN.iter().find(|(known, ..)| *known == name);
    let (without, connections_max) = known.map_or((&[][..], CONNECTIONS_MAX), |(_, without, most)| (without, *most));
    Tried { name: name.to_owned(), command: command.to_owned(), without, connections_max }
}

fn trial(scenario: &Scenario, tried: &'static Tried, all: &'static [Tried]) -> Trial {
    let play = scenario.play;
    let is_dev = rlock_testing::dev_program().is_some();
    let is_possible = !scenario.needs.iter().any(|need| tried.lacks(need) || is_dev && *need == "servers");
    let run = move || {
        play(&World { tried, all });
        Ok(())
    };
    Trial::test(format!("{}::{}", tried.name, scenario.name), run).with_ignored_flag(!is_possible)
}
