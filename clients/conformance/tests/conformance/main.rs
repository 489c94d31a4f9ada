//! What each client promises, tried on the client of each language: a trial for each scenario and client, with the name
//! `client::subject::scenario`.
//!
//! - `RLOCK_ADAPTERS`: the clients, as `name=command`, one on each line or with semicolons between them; Rust's alone
//!   if it is not set
//! - `RLOCK_DEV`: the program `rlock`: its `rlock dev` is the server, and scenarios that need other servers are ignored
//!
//! A scenario that needs what a client lacks is shown as ignored. What a client lacks is pinned here: a client that drops
//! something fails, and so does one that has more than is known.
#![allow(clippy::unwrap_used)]

mod breaks;
mod callers;
mod cancelled;
mod crowd;
mod detached;
mod ends;
mod errors;
mod failover;
mod lead;
mod leaders;
mod limits;
mod load;
mod locks;
mod losses;
mod once;
mod order;
mod world;

use libtest_mimic::{Arguments, Trial};
use world::{Tried, World};

/// For a client: the requests and fields of the protocol that it lacks, in alphabetical order, and its maximum of connections
/// to a server. A client that is not listed lacks nothing, and has at most three connections.
const KNOWN: &[(&str, &[&str], usize)] = &[
    // Redisson has none of these, reports no end of a fixed lease, and has a pool of up to 64 connections.
    ("java", &["fixed", "max_waiters", "owner", "replicas", "tokens"], 70),
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
    failover::answers_in_a_grace ["once", "sentinels", "servers"];
    failover::a_cluster ["cluster", "servers"];
    failover::values_in_a_cluster ["cluster", "forget", "once", "servers"];
    cancelled::in_the_moment_of_the_grant ["cancel"];
    cancelled::it_leaves_the_queue ["cancel"];
    breaks::a_machine_that_vanishes;
    breaks::places_are_kept;
    breaks::answers_that_are_cut;
    breaks::a_session_that_is_ended;
    breaks::a_session_that_is_ended_before_its_first_event;
    breaks::a_waiter_that_is_suspended;
    breaks::a_server_that_restarts_empty;
    breaks::a_release_without_an_answer;
    breaks::an_acquire_without_an_answer;
    crowd::a_thousand_wait;
    crowd::a_thousand_callers ["once"];
    losses::a_program_that_is_held_up_keeps_its_lock ["block"];
    losses::a_lock_that_is_broken;
    losses::why_it_is_lost;
    losses::a_frozen_server;
    losses::a_network_that_loses_requests;
    losses::a_network_that_loses_answers;
    losses::a_slow_network;
    losses::a_slow_network_and_a_fixed_lease ["fixed"];
    losses::a_grant_that_arrives_late;
    losses::a_process_that_is_suspended ["run"];
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
    errors::no_server_listens;
    errors::an_address_that_is_none;
    errors::no_server_at_all;
    once::one_works_and_all_get_its_value ["once"];
    once::values_of_all_lengths ["once"];
    once::a_key_with_a_tag ["forget", "once"];
    once::a_value_that_expires ["once"];
    once::a_value_that_is_forgotten ["forget", "once"];
    once::a_value_that_is_too_long ["once"];
    once::callers_of_one_process_share_a_request ["forget", "once"];
    once::a_caller_that_gives_up_leaves_the_others ["cancel", "once"];
    once::callers_that_give_up_leave_the_queue ["cancel", "once"];
    once::a_limit_is_kept ["once"];
    once::a_limit_is_kept_on_a_server_that_stalls ["once"];
    once::a_queue_may_be_long_enough ["max_waiters", "once"];
    once::arguments_that_are_refused ["once"];
    once::another_kind ["once"];
    once::no_right ["once"];
    leaders::work_that_fails ["once"];
    leaders::each_caller_works_until_one_succeeds ["once"];
    leaders::work_that_is_given_up ["cancel", "once"];
    leaders::a_leader_that_is_killed_before_its_work ["once"];
    leaders::a_leader_that_is_killed_in_its_work ["once"];
    leaders::a_leader_that_is_killed_before_it_answers ["once"];
    leaders::a_leader_that_is_killed_after_it_has_answered ["once"];
    leaders::a_lock_that_is_broken ["once"];
    leaders::work_that_ends_after_its_lock_is_broken ["once"];
    leaders::callers_next_to_a_leader_that_loses ["once"];
    leaders::a_leader_that_stalls ["once"];
    leaders::a_leader_that_is_cut_off ["once"];
    leaders::callers_next_to_an_answer_in_doubt ["once"];
    leaders::an_answer_to_a_server_that_stalls ["once"];
    leaders::an_answer_without_a_reply ["once"];
    leaders::an_answer_that_no_server_gets ["once"];
    callers::places_are_kept ["once"];
    callers::answers_that_are_cut ["once"];
    callers::a_session_that_is_ended ["once"];
    callers::a_caller_that_stalls ["once"];
    callers::a_server_that_restarts ["once"];
    callers::an_answer_that_is_gone_at_once ["once", "servers"];
    callers::an_answer_that_another_leader_replaces ["once", "servers"];
    callers::a_client_that_is_closed ["close", "once"];
    detached::a_hold_that_is_handed_on ["adopt", "detach"];
    detached::a_hold_that_comes_back ["adopt", "detach"];
    detached::locks_of_all_kinds ["adopt", "detach"];
    detached::a_text_by_hand ["adopt", "detach"];
    detached::a_hold_that_no_process_adopts ["adopt", "close", "detach"];
    detached::a_hold_of_a_process_that_is_killed ["adopt", "detach"];
    detached::a_hold_that_has_ended ["adopt", "detach"];
    detached::a_set_that_has_lost_a_lock ["adopt", "all", "detach"];
    detached::a_hold_that_is_adopted_twice ["adopt", "detach"];
    detached::a_fixed_lease ["adopt", "detach", "fixed"];
    detached::a_hold_that_is_lost ["adopt", "detach"];
    detached::a_detach_without_an_answer ["adopt", "detach"];
    detached::a_detach_that_may_have_shortened_the_lease ["adopt", "detach"];
    detached::an_adoption_without_an_answer ["adopt", "detach"];
    detached::an_adoption_over_a_slow_network ["adopt", "detach"];
    detached::an_adopted_hold_that_is_overwritten ["adopt", "detach"];
    detached::an_adopted_hold_that_is_forgotten ["adopt", "detach"];
    detached::texts_that_are_refused ["adopt", "detach"];
    lead::all_take_turns ["cancel", "lead"];
    lead::one_leads_alone ["cancel", "lead"];
    lead::a_leader_that_is_killed ["cancel", "lead"];
    lead::a_lock_that_is_broken ["cancel", "lead", "servers"];
    lead::a_leader_that_stalls ["cancel", "lead"];
    lead::a_leader_that_is_cut_off ["cancel", "lead"];
    lead::a_lead_that_is_given_up ["cancel", "lead"];
    lead::a_lead_that_is_given_up_while_it_waits ["cancel", "lead"];
    lead::a_server_that_restarts ["cancel", "lead"];
    lead::a_server_that_is_gone_for_long ["cancel", "lead"];
    lead::errors_that_stay ["lead"];
    lead::a_client_that_is_closed ["close", "lead"];
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

/// Tried once, on all clients together that have what is needed.
const TOGETHER: &[Scenario] = scenarios! {
    order::all_languages_wait_in_one_queue;
    order::all_languages_get_one_value;
    order::a_thousand_callers_of_one_value;
    order::a_lock_goes_through_all_languages;
    order::all_languages_lead_in_turn;
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
        // Rust's client waits with the others in their queue.
        all.push(tried(&rust));
    }
    // For as long as this process lives.
    let all: &'static [Tried] = all.leak();
    let each = all[..asked_for].iter().flat_map(|tried| SCENARIOS.iter().map(move |it| trial(it, tried, all)));
    let together = TOGETHER.iter().map(|it| trial(it, &all[0], all).with_kind("all clients"));
    let trials = each.chain(together).collect();
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
