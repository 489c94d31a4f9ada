//! What a client that sends its commands itself wants, and what the answers mean: the same for those that say it in the
//! commands and for those that say it in scripts.

use crate::history::{Answer, Event, Journal, Side, Told};
use rlock_testing::Reply;
use std::time::Duration;

/// What somebody has, or wants to have.
#[derive(Clone, Debug)]
pub struct Hold {
    pub lock: String,
    pub holder: String,
    pub side: Side,
    pub lease_ms: u64,
}

impl Hold {
    pub fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }

    /// The other side of it.
    pub fn on(&self, side: Side) -> Self {
        Self { side, ..self.clone() }
    }
}

/// A reply that the command does not have.
#[derive(Debug, PartialEq, Eq)]
pub struct Strange(pub String);

impl Strange {
    /// Tells of it: it was said to this one.
    pub fn tell(&self, journal: &Journal, to: &str) {
        journal.broken("every reply is one that the command has", format!("{to}: {}", self.0));
    }
}

pub fn acquired(reply: &Reply, fenced: bool) -> Result<Answer, Strange> {
    match (reply, fenced) {
        (Reply::Nil, false) => Ok(Answer::Granted { token: None }),
        (Reply::Int(left_ms), false) => Ok(Answer::Refused { left_ms: *left_ms }),
        (Reply::List(pair), true) => match pair[..] {
            [Reply::Nil, Reply::Int(token @ 0..)] => Ok(Answer::Granted { token: Some(token.unsigned_abs()) }),
            [Reply::Int(left_ms), Reply::Nil] => Ok(Answer::Refused { left_ms }),
            _ => Err(strange(reply)),
        },
        _ => failed(reply),
    }
}

pub fn released(reply: &Reply) -> Result<Answer, Strange> {
    match reply {
        Reply::Nil => Ok(Answer::Released(None)),
        Reply::Int(left @ (0 | 1)) => Ok(Answer::Released(Some(*left))),
        _ => failed(reply),
    }
}

pub fn renewed(reply: &Reply) -> Result<Answer, Strange> {
    match reply {
        Reply::Int(1) => Ok(Answer::Renewed(true)),
        Reply::Int(0) => Ok(Answer::Renewed(false)),
        _ => failed(reply),
    }
}

/// What a poll of a session is answered with.
pub fn told(reply: &Reply) -> Result<Told, Strange> {
    match reply {
        Reply::List(events) => events.iter().map(event).collect::<Option<_>>().map(Told::Events),
        Reply::Int(tickets) => Some(Told::Ended(*tickets)),
        Reply::Error(line) if line.starts_with("NOSESSION ") => Some(Told::NoSession),
        Reply::Error(line) => Some(Told::Failed(line.clone())),
        _ => None,
    }
    .ok_or_else(|| strange(reply))
}

fn event(reply: &Reply) -> Option<Event> {
    let Reply::List(fields) = reply else { return None };
    let [Reply::Int(seq @ 0..), Reply::Text(ticket), Reply::Text(outcome), value, ends_in @ ..] = &fields[..] else {
        return None;
    };
    let outcome = match (outcome.as_str(), value, ends_in) {
        ("granted", Reply::Nil, [Reply::Int(0..)]) => Answer::Granted { token: None },
        ("granted", Reply::Int(token @ 0..), [Reply::Int(0..)]) => {
            Answer::Granted { token: Some(token.unsigned_abs()) }
        }
        ("timeout", Reply::Int(left_ms), []) => Answer::Refused { left_ms: *left_ms },
        ("error", Reply::Text(line) | Reply::Error(line), []) => Answer::Failed(line.clone()),
        _ => return None,
    };
    Some(Event { seq: seq.unsigned_abs(), ticket: ticket.clone(), outcome })
}

/// Of so many tickets that were to be taken back, whether each was found.
pub fn cancelled(reply: &Reply, count: i64) -> Result<Answer, Strange> {
    match reply {
        Reply::Int(0) => Ok(Answer::Cancelled(Some(false))),
        Reply::Int(found) if *found == count => Ok(Answer::Cancelled(Some(true))),
        Reply::Int(found) if (0..count).contains(found) => Ok(Answer::Cancelled(None)),
        _ => failed(reply),
    }
}

/// An error says that nothing was done. But for that of a defect, which may have come in the middle.
fn failed(reply: &Reply) -> Result<Answer, Strange> {
    match reply {
        Reply::Error(line) if line.starts_with("ERR internal error") => Ok(Answer::Unknown(line.clone())),
        Reply::Error(line) => Ok(Answer::Failed(line.clone())),
        _ => Err(strange(reply)),
    }
}

fn strange(reply: &Reply) -> Strange {
    Strange(format!("{reply:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_bears_a_token_if_it_was_asked_for() {
        let pair = Reply::List(vec![Reply::Nil, Reply::Int(3)]);
        assert_eq!(acquired(&pair, true), Ok(Answer::Granted { token: Some(3) }));
        assert!(acquired(&pair, false).is_err());
        assert_eq!(acquired(&Reply::Nil, false), Ok(Answer::Granted { token: None }));
        assert!(acquired(&Reply::Nil, true).is_err());
    }

    #[test]
    fn a_refusal_says_what_is_left() {
        assert_eq!(acquired(&Reply::Int(-1), false), Ok(Answer::Refused { left_ms: -1 }));
        let pair = Reply::List(vec![Reply::Int(5), Reply::Nil]);
        assert_eq!(acquired(&pair, true), Ok(Answer::Refused { left_ms: 5 }));
    }

    #[test]
    fn errors_are_failures_and_defects_are_not_known() {
        let [no, defect] = ["UNBLOCKED by hand", "ERR internal error in rlock"].map(|it| Reply::Error(it.to_owned()));
        assert!(matches!(acquired(&no, true), Ok(Answer::Failed(_))));
        assert!(matches!(released(&defect), Ok(Answer::Unknown(_))));
    }

    #[test]
    fn events_say_what_became_of_tickets() {
        let [ticket, granted, timeout, error, line] =
            ["t", "granted", "timeout", "error", "UNBLOCKED by hand"].map(|it| Reply::Text(it.to_owned()));
        let event = |outcome: &Reply, value| {
            let ends_in = (*outcome == granted).then_some(Reply::Int(0));
            Reply::List([Reply::Int(7), ticket.clone(), outcome.clone(), value].into_iter().chain(ends_in).collect())
        };
        let outcome = |reply: Reply| match told(&Reply::List(vec![reply])) {
            Ok(Told::Events(mut events)) => Some(events.remove(0).outcome),
            _ => None,
        };
        assert_eq!(outcome(event(&granted, Reply::Nil)), Some(Answer::Granted { token: None }));
        assert_eq!(outcome(event(&granted, Reply::Int(3))), Some(Answer::Granted { token: Some(3) }));
        assert_eq!(outcome(event(&timeout, Reply::Int(-1))), Some(Answer::Refused { left_ms: -1 }));
        assert_eq!(outcome(event(&error, line)), Some(Answer::Failed("UNBLOCKED by hand".to_owned())));
        assert_eq!(outcome(event(&timeout, Reply::Nil)), None);
        assert_eq!(told(&Reply::List(Vec::new())), Ok(Told::Events(Vec::new())));
        assert_eq!(told(&Reply::Error("NOSESSION who?".to_owned())), Ok(Told::NoSession));
        assert!(told(&Reply::Nil).is_err());
    }

    #[test]
    fn of_several_tickets_all_were_found_or_none_or_nobody_knows_which() {
        let of_three = |found| cancelled(&Reply::Int(found), 3);
        assert_eq!(of_three(3), Ok(Answer::Cancelled(Some(true))));
        assert_eq!(of_three(2), Ok(Answer::Cancelled(None)));
        assert_eq!(of_three(0), Ok(Answer::Cancelled(Some(false))));
        assert!(of_three(4).is_err());
    }

    #[test]
    fn what_no_command_says_is_strange() {
        assert!(released(&Reply::Int(2)).is_err());
        assert!(renewed(&Reply::Nil).is_err());
    }
}
