//! Tickets of which two things are told, and sessions that end before their time.
//!
//! What is not acknowledged is told once more on the session's next connection. That is the same event again; two events of
//! one ticket, or two tickets of one event, are a mistake.

use super::sessions::{Session, Sessions, Telling};
use super::troubles::Troubles;
use super::verdict::{ONE_OUTCOME_EACH, SESSIONS_LAST, Verdict, Violation};
use std::collections::HashMap;

pub fn check(sessions: &Sessions, troubles: &Troubles, verdict: &mut Verdict) {
    for session in sessions.0.values() {
        two_outcomes(session, troubles, verdict);
        two_tickets(session, troubles, verdict);
        early_ends(session, troubles, verdict);
    }
}

fn two_outcomes(session: &Session, troubles: &Troubles, verdict: &mut Verdict) {
    for (ticket, tellings) in &session.tellings {
        let [first, others @ ..] = &tellings[..] else { continue };
        let is_another = |other: &&Telling| {
            // What is done with may be asked for anew.
            let is_new = other.event.seq > first.event.seq && session.may_be_done_with(first.event.seq, other.at);
            other.event != first.event && !is_new && is_one(session, troubles, first, other)
        };
        if let Some(other) = others.iter().find(is_another) {
            let what = format!("ticket {ticket} of session {}", session.name);
            verdict.violations.push(contradiction(&what, first, other));
        }
    }
}

/// Whether it is one session that tells both. One that was lost may have been opened anew under its name.
fn is_one(session: &Session, troubles: &Troubles, first: &Telling, other: &Telling) -> bool {
    session.lived((first.at, other.at)) && !troubles.may_end_sessions(first.poll.at, other.at)
}

fn two_tickets(session: &Session, troubles: &Troubles, verdict: &mut Verdict) {
    let mut by_seq: HashMap<u64, Telling> = HashMap::new();
    let mut all: Vec<Telling> = session.tellings.values().flatten().copied().collect();
    all.sort_by_key(|telling| (telling.at, telling.event.seq));
    for telling in all {
        let first = *by_seq.entry(telling.event.seq).or_insert(telling);
        if first.event.ticket != telling.event.ticket && is_one(session, troubles, &first, &telling) {
            let what = format!("event {} of session {}", telling.event.seq, session.name);
            verdict.violations.push(contradiction(&what, &first, &telling));
        }
    }
}

fn contradiction(what: &str, first: &Telling, other: &Telling) -> Violation {
    let what = format!("{what} was told as {:?}, and then as {:?}", first.event, other.event);
    Violation::told(ONE_OUTCOME_EACH, other.at, what)
}

/// What certainly lived when the question was sent and when it was answered cannot have been unknown in between.
fn early_ends(session: &Session, troubles: &Troubles, verdict: &mut Verdict) {
    let denied = session.denials().find(|(poll, answered)| {
        let life = session.lives.iter().find(|life| life.0 <= poll.at && *answered <= life.1);
        life.is_some_and(|life| !troubles.may_end_sessions(session.asked_for(life.0), *answered))
    });
    if let Some((poll, answered)) = denied {
        let what = format!("session {} had been polled in time, and was unknown to {poll:?}", session.name);
        verdict.violations.push(Violation::told(SESSIONS_LAST, answered, what));
    }
}

#[cfg(test)]
mod tests {
    use super::{ONE_OUTCOME_EACH, SESSIONS_LAST};
    use crate::checker::written::{Written, clock, granted, refused, restart, token};

    fn told(first: (u64, &str, crate::history::Answer), then: (u64, &str, crate::history::Answer)) -> Written {
        let history = Written::default().polled((0, 10), 1, 0, &[first]);
        history.polled((20, 30), 2, 0, &[then])
    }

    #[test]
    fn the_same_may_be_told_again() {
        assert_eq!(told((1, "t", token(5)), (1, "t", token(5))).broken(), []);
        assert_eq!(told((1, "t", granted()), (2, "u", refused(5))).broken(), []);
    }

    #[test]
    fn a_ticket_has_one_outcome() {
        assert_eq!(told((1, "t", granted()), (1, "t", refused(5))).broken(), [ONE_OUTCOME_EACH]);
        assert_eq!(told((1, "t", token(5)), (1, "t", token(6))).broken(), [ONE_OUTCOME_EACH]);
        assert_eq!(told((1, "t", granted()), (2, "t", granted())).broken(), [ONE_OUTCOME_EACH]);
    }

    #[test]
    fn a_ticket_that_is_done_with_may_wait_anew() {
        let acknowledged = Written::default().polled((0, 10), 1, 0, &[(1, "t", refused(5))]);
        assert_eq!(acknowledged.polled((20, 30), 1, 1, &[(2, "t", granted())]).broken(), []);
    }

    #[test]
    fn an_event_is_of_one_ticket() {
        assert_eq!(told((1, "t", granted()), (1, "u", granted())).broken(), [ONE_OUTCOME_EACH]);
    }

    #[test]
    fn a_session_that_was_opened_anew_begins_anew() {
        let told = || told((1, "t", granted()), (1, "u", granted()));
        assert_eq!(told().troubled((12, 15), restart()).broken(), []);
        assert_eq!(told().troubled((12, 15), clock(1_000)).broken(), []);
        let late = Written::default().polled((0, 10), 1, 0, &[(1, "t", granted())]);
        assert_eq!(late.polled((1_020, 1_030), 2, 0, &[(1, "t", refused(5))]).broken(), []);
    }

    #[test]
    fn a_session_is_unknown_when_its_time_is_up_and_not_before() {
        let polled = || Written::default().polled((0, 10), 1, 0, &[]);
        assert_eq!(polled().denied((1_010, 1_020)).broken(), []);
        assert_eq!(polled().denied((990, 1_020)).broken(), []);
        assert_eq!(polled().denied((500, 510)).broken(), [SESSIONS_LAST]);
    }

    #[test]
    fn a_session_may_end_with_its_server() {
        let denied = || Written::default().polled((0, 10), 1, 0, &[]).denied((500, 510));
        assert_eq!(denied().troubled((100, 200), restart()).broken(), []);
        assert_eq!(denied().troubled((100, 200), clock(5_000)).broken(), []);
        assert_eq!(denied().session_ended((400, 410)).broken(), []);
        // Its last answer may have been late.
        let late = Written::default().polled((0, 300), 1, 0, &[]).denied((310, 320));
        assert_eq!(late.troubled((100, 200), restart()).broken(), []);
    }
}
