//! Fencing tokens that do not grow.

use super::by_lock::{LockHistory, Step};
use super::troubles::Troubles;
use super::verdict::{Promise, Violation};
use crate::history::{Moment, Reach, Request};
use std::collections::HashMap;

/// What became of tokens over failovers, where nothing is promised.
#[derive(Default)]
pub struct Repeated {
    pub times: u64,
    /// Of so many tokens that were given after a failover.
    pub of: u64,
}

struct Token<'l, 'a> {
    token: u64,
    called: Moment,
    answered: Moment,
    step: &'l Step<'a>,
}

pub fn check(lock: &LockHistory, troubles: &Troubles, violations: &mut Vec<Violation>, repeated: &mut Repeated) {
    let mut tokens: Vec<Token> = lock.steps.iter().filter_map(token).collect();
    tokens.sort_by_key(|it| it.called);
    if tokens.is_empty() {
        return;
    }
    for tokens in split(&tokens, &counters_taken(lock, troubles)) {
        let failovers: Vec<_> =
            troubles.failovers.touching(Moment(0), Moment(u64::MAX)).map(|it| (it.0, it.1)).collect();
        let lives = split_refs(&tokens, &failovers);
        for life in &lives {
            sweep(life, |earlier, later| violations.push(violation(lock, earlier, later)));
        }
        let first_call = lives.first().and_then(|life| life.last()).map(|it| it.called);
        repeated.of += tokens.iter().filter(|it| lives.len() > 1 && Some(it.called) > first_call).count() as u64;
        if lives.len() > 1 {
            let mut all = 0;
            sweep(&tokens, |_, _| all += 1);
            let mut within = 0;
            lives.iter().for_each(|life| sweep(life, |_, _| within += 1));
            repeated.times += all - within.min(all);
        }
    }
}

/// What several servers give out is no counter of the lock's.
fn token<'l, 'a>(step: &'l Step<'a>) -> Option<Token<'l, 'a>> {
    let (answered, token) = step.operation.granted()?;
    let is_majority = matches!(step.call().request, Request::Guard { majority: true, .. });
    let token = token.filter(|_| !is_majority)?;
    Some(Token { token, called: step.asked, answered, step })
}

fn counters_taken(lock: &LockHistory, troubles: &Troubles) -> Vec<(Moment, Moment)> {
    troubles
        .removals(lock.name, Moment(0), Moment(u64::MAX))
        .filter(|trouble| matches!(trouble.reach, Reach::Locks { takes_counters: true, .. }))
        .map(|trouble| (trouble.began, trouble.ended))
        .collect()
}

fn split<'t, 'l, 'a>(tokens: &'t [Token<'l, 'a>], borders: &[(Moment, Moment)]) -> Vec<Vec<&'t Token<'l, 'a>>> {
    split_refs(&tokens.iter().collect::<Vec<_>>(), borders)
}

/// By what lies between them. What lies across a border is on neither side.
fn split_refs<'t, 'l, 'a>(tokens: &[&'t Token<'l, 'a>], borders: &[(Moment, Moment)]) -> Vec<Vec<&'t Token<'l, 'a>>> {
    let mut ends: Vec<Moment> = borders.iter().map(|border| border.1).collect();
    ends.sort_unstable();
    let spans = super::spans::Spans::from(borders.iter().map(|(began, ended)| (*began, *ended, ())).collect());
    let mut parts: Vec<(usize, Vec<&Token>)> = Vec::new();
    for token in tokens.iter().filter(|token| !spans.touches(token.called, token.answered)) {
        let past = ends.partition_point(|end| *end <= token.called);
        match parts.last_mut() {
            Some((same, part)) if *same == past => part.push(token),
            _ => parts.push((past, vec![token])),
        }
    }
    parts.into_iter().map(|(_, part)| part).collect()
}

/// Tells of each token that was there before, and of each that is not above all that were known when it was asked for.
fn sweep<'t, 'l, 'a>(tokens: &[&'t Token<'l, 'a>], mut broken: impl FnMut(&'t Token<'l, 'a>, &'t Token<'l, 'a>)) {
    let mut answered = tokens.to_vec();
    answered.sort_by_key(|it| it.answered);
    let mut answered = answered.into_iter().peekable();
    let mut highest: Option<&Token> = None;
    let mut given: HashMap<u64, &Token> = HashMap::new();
    for token in tokens {
        while let Some(before) = answered.next_if(|it| it.answered < token.called) {
            if highest.is_none_or(|it| it.token < before.token) {
                highest = Some(before);
            }
        }
        let twin = given.insert(token.token, token);
        if let Some(earlier) = twin.or(highest.filter(|it| it.token >= token.token)) {
            broken(earlier, token);
        }
    }
}

fn violation(lock: &LockHistory, earlier: &Token, later: &Token) -> Violation {
    let (first, second) = (earlier.step.named(), later.step.named());
    Violation {
        promise: Promise::TokensGrow,
        lock: lock.name.to_owned(),
        at: later.answered,
        what: format!(
            "{} was given token {} by call {} of {}, after {} had been given {} by call {} of {}",
            later.step.who(),
            later.token,
            second.1,
            second.0,
            earlier.step.who(),
            earlier.token,
            first.1,
            first.0,
        ),
        evidence: vec![first, second],
    }
}

#[cfg(test)]
mod tests {
    use super::Promise::TokensGrow;
    use crate::checker::written::{Written, failover, removed, take, token};

    /// By two, one after the other, or at the same time.
    fn two(first: u64, second: u64, called: u64) -> Written {
        Written::default().did("a", take(5), (0, 10), token(first)).did("b", take(5), (called, 30), token(second))
    }

    #[test]
    fn growing_ones_are_right_and_so_are_those_asked_for_together() {
        assert_eq!(two(1, 2, 20).broken(), []);
        assert_eq!(two(2, 1, 5).broken(), []);
    }

    #[test]
    fn falling_ones_are_wrong() {
        assert_eq!(two(5, 4, 20).broken(), [TokensGrow]);
    }

    #[test]
    fn twins_are_wrong() {
        assert_eq!(two(5, 5, 20).broken(), [TokensGrow]);
        assert_eq!(two(5, 5, 5).broken(), [TokensGrow]);
    }

    #[test]
    fn who_takes_the_counter_begins_anew() {
        assert_eq!(two(5, 1, 20).troubled((12, 13), removed(true)).broken(), []);
        assert_eq!(two(5, 1, 20).troubled((12, 13), removed(false)).broken(), [TokensGrow]);
        assert_eq!(two(5, 1, 20).troubled((31, 33), removed(true)).broken(), [TokensGrow]);
    }

    #[test]
    fn after_a_failover_it_is_counted() {
        assert_eq!(two(5, 1, 20).troubled((12, 13), failover()).broken(), []);
        assert_eq!(two(5, 1, 20).troubled((12, 13), failover()).counted("token"), Some((1, 1)));
        assert_eq!(two(5, 6, 20).troubled((12, 13), failover()).counted("token"), Some((0, 1)));
    }
}
