//! The wishes of a client that sends its commands itself, and what the answers mean: the same for commands and for
//! scripts.

use super::wish::Wish;
use crate::history::{Answer, By, Journal, Side};
use rlock_testing::Reply;
use std::time::Duration;

/// A lock that a client has, or wants to have.
#[derive(Clone, Debug)]
pub struct Hold {
    pub lock: String,
    /// Locks that are requested together with it, all or none; afterwards each is held by itself.
    pub beside: Vec<String>,
    pub holder: String,
    pub side: Side,
    pub by: By,
    /// How long the answer of its holder is kept, from and to. None: the holder sends no ANSWER.
    pub keep_ms: Option<(u64, u64)>,
    pub limit: u32,
    pub lease_ms: u64,
}

impl Hold {
    pub fn of(wish: &Wish, holder: String) -> Self {
        let Wish { lock, beside, side, by, keep_ms, limit, lease_ms, .. } = wish.clone();
        Self { lock, beside, holder, side, by, keep_ms, limit, lease_ms }
    }

    /// The same wish again, without a wait.
    pub fn wished_again(&self, fenced: bool) -> Wish {
        let Self { lock, beside, side, by, keep_ms, limit, lease_ms, .. } = self.clone();
        let (wait_ms, gives_up_after, by_ticket) = Default::default();
        Wish { lock, beside, side, by, keep_ms, by_ticket, limit, lease_ms, wait_ms, gives_up_after, fenced }
    }

    pub fn is_of_several(&self) -> bool {
        !self.beside.is_empty()
    }

    pub fn locks(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.lock).chain(&self.beside)
    }

    /// The hold of each lock by itself.
    pub fn each(&self) -> Vec<Self> {
        let one = |lock: &String| Self { lock: lock.clone(), beside: Vec::new(), ..self.clone() };
        self.locks().map(one).collect()
    }

    pub fn lease(&self) -> Duration {
        Duration::from_millis(self.lease_ms)
    }

    /// The same hold on this side.
    pub fn on(&self, side: Side) -> Self {
        Self { side, ..self.clone() }
    }
}

/// A reply that the command cannot have.
#[derive(Debug, PartialEq, Eq)]
pub struct Strange(pub String);

impl Strange {
    /// Records it, with the command that got it.
    pub fn report(&self, journal: &Journal, to: &str) {
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

pub fn once(reply: &Reply) -> Result<Answer, Strange> {
    match reply {
        Reply::Text(value) => Ok(Answer::Got { value: value.clone() }),
        _ => acquired(reply, false),
    }
}

pub fn stored(reply: &Reply) -> Result<Answer, Strange> {
    match reply {
        Reply::Nil => Ok(Answer::Stored(false)),
        Reply::Int(1) => Ok(Answer::Stored(true)),
        _ => failed(reply),
    }
}

/// The outcome of a session's only ticket. None: there is no event yet.
pub fn event(reply: &Reply) -> Result<Option<Answer>, Strange> {
    let events = match reply {
        Reply::List(events) => events,
        Reply::Error(line) => return Ok(Some(Answer::Unknown(line.clone()))),
        _ => return Err(strange(reply)),
    };
    let [Reply::List(event)] = &events[..] else {
        return if events.is_empty() { Ok(None) } else { Err(strange(reply)) };
    };
    let [_, _, Reply::Text(outcome), value, ..] = &event[..] else { return Err(strange(reply)) };
    match (outcome.as_str(), value) {
        ("granted", Reply::Nil) => Ok(Some(Answer::Granted { token: None })),
        ("answered", Reply::Nil) => Ok(Some(Answer::Answered)),
        ("timeout", Reply::Int(left_ms)) => Ok(Some(Answer::Refused { left_ms: *left_ms })),
        ("error", Reply::Text(line)) => Ok(Some(Answer::Failed(line.clone()))),
        _ => Err(strange(reply)),
    }
}

/// One answer for each lock of a hold: if one of several is granted, all are, each with its token.
pub fn acquired_each(reply: &Reply, fenced: bool, hold: &Hold) -> Result<Vec<Answer>, Strange> {
    let count = hold.locks().count();
    let pair = if let Reply::List(pair) = reply { &pair[..] } else { &[] };
    if let (true, true, [Reply::Nil, Reply::List(tokens)]) = (hold.is_of_several(), fenced, pair) {
        let granted = |reply: &Reply| match reply {
            Reply::Int(token @ 1..) => Some(Answer::Granted { token: Some(token.unsigned_abs()) }),
            _ => None,
        };
        let answers: Option<Vec<_>> = tokens.iter().map(granted).collect();
        return answers.filter(|answers| answers.len() == count).ok_or_else(|| strange(reply));
    }
    let answer = acquired(reply, fenced)?;
    let lacks_tokens = hold.is_of_several() && matches!(answer, Answer::Granted { token: Some(_) });
    if lacks_tokens { Err(strange(reply)) } else { Ok(vec![answer; count]) }
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

/// An error means that nothing was done, except an internal error, which may come in the middle of the work.
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
    fn replies_are_read_as_the_command_has_them_and_others_are_strange() {
        let pair = |first, second| Reply::List(vec![first, second]);
        let [no, defect] = ["UNBLOCKED by hand", "ERR internal error in rlock"].map(str::to_owned);
        let granted = |token| Ok(Answer::Granted { token });
        assert_eq!(acquired(&pair(Reply::Nil, Reply::Int(3)), true), granted(Some(3)));
        assert!(acquired(&pair(Reply::Nil, Reply::Int(3)), false).is_err());
        assert_eq!(acquired(&Reply::Nil, false), granted(None));
        assert!(acquired(&Reply::Nil, true).is_err());
        assert_eq!(acquired(&Reply::Int(-1), false), Ok(Answer::Refused { left_ms: -1 }));
        assert_eq!(acquired(&pair(Reply::Int(5), Reply::Nil), true), Ok(Answer::Refused { left_ms: 5 }));
        assert_eq!(acquired(&Reply::Error(no.clone()), true), Ok(Answer::Failed(no)));
        assert_eq!(released(&Reply::Error(defect.clone())), Ok(Answer::Unknown(defect)));
        assert!(released(&Reply::Int(2)).is_err() && renewed(&Reply::Nil).is_err());
    }

    #[test]
    fn an_answer_is_read_as_the_command_or_the_event_has_it() {
        let text = |text: &str| Reply::Text(text.to_owned());
        assert_eq!(once(&text("v")), Ok(Answer::Got { value: "v".to_owned() }));
        assert_eq!(once(&Reply::Int(5)), Ok(Answer::Refused { left_ms: 5 }));
        assert_eq!([Reply::Nil, Reply::Int(1)].map(|it| stored(&it)), [false, true].map(|it| Ok(Answer::Stored(it))));
        assert!(stored(&Reply::Int(0)).is_err());
        let report =
            |outcome, value| Reply::List(vec![Reply::List(vec![Reply::Int(1), text("t"), text(outcome), value])]);
        assert_eq!(event(&report("answered", Reply::Nil)), Ok(Some(Answer::Answered)));
        assert_eq!(event(&report("timeout", Reply::Int(3))), Ok(Some(Answer::Refused { left_ms: 3 })));
        assert_eq!(event(&Reply::List(Vec::new())), Ok(None));
        assert!(event(&report("answered", text("v"))).is_err());
    }

    #[test]
    fn of_several_locks_each_has_a_token() {
        let [lock, other, holder] = ["l", "m", "h"].map(str::to_owned);
        let (side, by, keep_ms) = (Side::Plain, By::Acquire, None);
        let hold = Hold { lock, beside: vec![other], holder, side, by, keep_ms, limit: 0, lease_ms: 5 };
        let several = |tokens: &[i64]| {
            let tokens = tokens.iter().map(|token| Reply::Int(*token)).collect();
            Reply::List(vec![Reply::Nil, Reply::List(tokens)])
        };
        let granted = |tokens: [Option<u64>; 2]| Ok(tokens.map(|token| Answer::Granted { token }).to_vec());
        assert_eq!(acquired_each(&several(&[3, 7]), true, &hold), granted([Some(3), Some(7)]));
        assert_eq!(acquired_each(&Reply::Nil, false, &hold), granted([None, None]));
        assert_eq!(acquired_each(&Reply::Int(5), false, &hold), Ok(vec![Answer::Refused { left_ms: 5 }; 2]));
        for wrong in [several(&[3]), several(&[]), several(&[3, 7, 9]), several(&[3, 0])] {
            assert!(acquired_each(&wrong, true, &hold).is_err(), "{wrong:?}");
        }
        assert!(acquired_each(&Reply::List(vec![Reply::Nil, Reply::Int(3)]), true, &hold).is_err());
    }
}
