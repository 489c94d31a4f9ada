//! What a failover does to locks, as a small model of which every state is visited: two servers and two clients that may be
//! late, lost, cut off, suspended or killed at any time. The protocol is that of the module with `rlock.grace` and
//! `min-replicas-to-write`; docs/proof/failover.md says what the model leaves out, and what it rests on.
//!
//! It does not run the module's code, which the other tests do. It asks whether the rules that the code follows are enough,
//! and whether each is needed: without any of them it finds a history in which a promise is broken, and tells it.
//!
//! The times are as short, and the bounds as tight, as they can be: one tick less of anything and a promise breaks.
//! `FAILOVER_TICKS` makes all of them longer: `make explore`.

mod explorer;
mod promises;
mod protocol;

use explorer::{Broken, explore};
use promises::Promise;
use protocol::{Action, Defect, Rules};

/// The grace is just as long as the longest lease, and a failover comes as soon as the old master has stopped writing.
fn rules() -> Rules {
    let longer = std::env::var("FAILOVER_TICKS").map_or(0, |ticks| ticks.parse().expect("a number"));
    let (lease, lag) = (2 + longer, longer);
    Rules { lease, grace: lease, lag, failover: lag + 1, fenced: None, confirmed: false, defect: None }
}

fn with(defect: Defect) -> Rules {
    Rules { defect: Some(defect), ..rules() }
}

fn holds(rules: Rules) {
    let begin = std::time::Instant::now();
    match explore(&rules) {
        Ok((states, depth)) => println!("{states} states, up to {depth} steps, {:.1?}: {rules:?}", begin.elapsed()),
        Err(broken) => panic!("{rules:?}\n{}", told(&broken)),
    }
}

fn breaks(promise: Promise, rules: Rules) {
    let broken = explore(&rules).expect_err("it is no defect");
    println!("{rules:?}, after {} steps:\n{}", broken.history.len(), told(&broken));
    assert_eq!(broken.promise, promise);
}

fn told(broken: &Broken) -> String {
    let mut ticks = 0;
    let steps = broken.history.iter().filter_map(|action| {
        ticks += usize::from(*action == Action::Tick);
        (*action != Action::Tick).then(|| format!("tick {ticks}: {action}\n"))
    });
    let steps: String = steps.collect();
    format!("{steps}tick {ticks}: {:?} is broken", broken.promise)
}

#[test]
fn one_holds_the_lock_through_any_failover() {
    holds(rules());
}

#[test]
fn tokens_grow_while_clocks_differ_by_less_than_the_grace() {
    holds(Rules { fenced: Some(1), ..rules() });
}

#[test]
fn a_confirmed_lease_is_kept_by_the_new_master() {
    holds(Rules { confirmed: true, ..rules() });
}

#[test]
fn a_confirmed_lease_needs_the_grace_alone() {
    holds(Rules { confirmed: true, failover: 0, ..with(Defect::NoMinReplicas) });
}

#[test]
fn holding_all_back_after_a_standstill_is_enough() {
    holds(with(Defect::StandstillHoldsAllBack));
}

#[test]
fn a_new_master_that_holds_all_back_needs_no_time_to_a_failover() {
    let Rules { lease, lag, .. } = rules();
    holds(Rules { grace: lease + lag + 1, failover: 0, ..with(Defect::NewMasterHoldsAllBack) });
}

#[test]
fn breaks_without_a_grace() {
    breaks(Promise::OneHolder, Rules { grace: 0, ..rules() });
}

#[test]
fn breaks_if_a_lease_is_longer_than_the_grace() {
    breaks(Promise::OneHolder, Rules { lease: rules().grace + 1, ..rules() });
}

#[test]
fn breaks_if_the_grace_counts_from_the_failure() {
    breaks(Promise::OneHolder, with(Defect::GraceFromTheFailure));
}

#[test]
fn breaks_if_only_the_first_promotion_begins_a_grace() {
    breaks(Promise::OneHolder, with(Defect::OnlyTheFirstPromotionBeginsOne));
}

#[test]
fn breaks_if_a_restart_begins_no_grace() {
    breaks(Promise::OneHolder, with(Defect::NoGraceAfterARestart));
}

#[test]
fn breaks_if_a_holder_re_enters_in_the_grace() {
    breaks(Promise::OneHolder, with(Defect::ReentryInTheGrace));
}

#[test]
fn breaks_if_a_lock_is_handed_over_in_the_grace() {
    breaks(Promise::OneHolder, with(Defect::HandOverInTheGrace));
}

#[test]
fn breaks_if_the_end_of_a_lease_serves_in_the_grace() {
    breaks(Promise::OneHolder, with(Defect::LeaseEndServesInTheGrace));
}

#[test]
fn breaks_if_each_try_begins_the_grace_anew() {
    breaks(Promise::LocksGoOn, with(Defect::EachTryBeginsTheGrace));
}

#[test]
fn breaks_if_the_old_master_goes_on() {
    breaks(Promise::OneHolder, with(Defect::NoMinReplicas));
}

#[test]
fn breaks_if_the_failover_comes_before_the_old_master_stops() {
    breaks(Promise::OneHolder, Rules { failover: rules().lag, ..rules() });
}

/// The new master renews in its grace, and the old one grants the same lock when the lease that it knows of ends.
#[test]
fn breaks_if_a_longer_grace_stands_for_the_time_to_a_failover() {
    breaks(Promise::OneHolder, Rules { grace: 2 * rules().grace + 2, failover: rules().lag, ..rules() });
}

#[test]
fn breaks_if_another_replica_stays_with_the_old_master() {
    breaks(Promise::OneHolder, with(Defect::AnotherReplicaStays));
}

#[test]
fn breaks_if_a_failover_is_undone() {
    breaks(Promise::OneHolder, with(Defect::FailoverUndone));
}

#[test]
fn breaks_if_the_old_master_does_not_see_that_it_stood_still() {
    breaks(Promise::OneHolder, with(Defect::StandstillUnnoticed));
}

#[test]
fn breaks_if_a_standstill_only_begins_a_grace() {
    breaks(Promise::OneHolder, with(Defect::StandstillBeginsAGrace));
}

#[test]
fn breaks_if_a_lease_counts_from_the_answer() {
    breaks(Promise::OneHolder, with(Defect::CountedFromTheAnswer));
}

#[test]
fn breaks_if_tokens_are_counted() {
    breaks(Promise::TokensGrow, Rules { fenced: Some(0), ..with(Defect::TokensByCount) });
}

#[test]
fn breaks_if_clocks_differ_by_the_grace() {
    let behind = i8::try_from(rules().grace).unwrap();
    breaks(Promise::TokensGrow, Rules { fenced: Some(behind), ..rules() });
}

#[test]
fn breaks_if_renewals_are_not_confirmed() {
    breaks(Promise::ConfirmedIsKept, Rules { confirmed: true, ..with(Defect::RenewalNotConfirmed) });
}
