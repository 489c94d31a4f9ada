//! Fencing tokens that do not grow.

use super::by_lock::LockHistory;
use super::troubles::is_covered;
use super::verdict::{TOKENS_GROW, Verdict};
use crate::history::{Moment, Operation, Reach, Trouble};
use std::collections::HashMap;

const FALLEN: &str = "a token was not above all others after a failover";

#[derive(Clone, Copy)]
struct Token<'a> {
    token: u64,
    answered: Moment,
    step: &'a Operation,
}

pub fn check(lock: &LockHistory, verdict: &mut Verdict) {
    let mut tokens: Vec<Token> = lock.steps.iter().filter_map(|step| token(step)).collect();
    tokens.sort_by_key(|it| it.step.call.at);
    let all = (Moment(0), Moment(u64::MAX));
    let takes_counters = |trouble: &&Trouble| matches!(trouble.reach, Reach::Locks { takes_counters: true, .. });
    let taken: Vec<_> = lock.troubles.removals(lock.name, all.0, all.1).filter(takes_counters).collect();
    let failovers = lock.troubles.failovers.touching(all.0, all.1).map(|it| it.2);
    let failovers: Vec<_> = failovers.filter(|it| !is_covered(it)).collect();
    for tokens in split(&tokens, &taken) {
        // No promise spans a failover that is not covered: how often tokens fall there is counted.
        let mut highest_before = None;
        for life in split(&tokens, &failovers) {
            report_falls(lock, &life, verdict);
            if let Some(before) = highest_before {
                let repeated = life.iter().filter(|it| it.token <= before).count();
                verdict.count(FALLEN, repeated as u64, life.len() as u64);
            }
            highest_before = highest_before.max(life.iter().map(|it| it.token).max());
        }
    }
}

fn token(step: &Operation) -> Option<Token<'_>> {
    let (answered, token) = step.granted()?;
    Some(Token { token: token?, answered, step })
}

/// Splits the tokens at the borders. A token across a border is on neither side.
fn split<'a>(tokens: &[Token<'a>], borders: &[&Trouble]) -> Vec<Vec<Token<'a>>> {
    let mut ends: Vec<Moment> = borders.iter().map(|border| border.ended).collect();
    ends.sort_unstable();
    let is_across =
        |token: &Token, border: &Trouble| border.ended > token.step.call.at && border.began < token.answered;
    let mut parts = vec![Vec::new(); ends.len() + 1];
    for token in tokens.iter().filter(|token| !borders.iter().any(|border| is_across(token, border))) {
        parts[ends.partition_point(|end| *end <= token.step.call.at)].push(*token);
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// Reports each token that was given before, and each that is not above every token that was known when it was requested.
fn report_falls(lock: &LockHistory, tokens: &[Token], verdict: &mut Verdict) {
    let mut answered = tokens.to_vec();
    answered.sort_by_key(|it| it.answered);
    let mut answered = answered.into_iter().peekable();
    let mut highest: Option<Token> = None;
    let mut given: HashMap<u64, Token> = HashMap::new();
    for token in tokens {
        while let Some(before) = answered.next_if(|it| it.answered < token.step.call.at) {
            highest = highest.into_iter().chain([before]).max_by_key(|it| it.token);
        }
        let twin = given.insert(token.token, *token);
        if let Some(earlier) = twin.or(highest.filter(|it| it.token >= token.token)) {
            let [before, after] = [earlier.step, token.step];
            let (was, is) = (earlier.token, token.token);
            let what =
                format!("{} was given token {is}, after {} had been given {was}", after.holder(), before.holder());
            let violation = lock.violation(TOKENS_GROW, token.answered, what, &[before, after]);
            verdict.violations.push(violation);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::TOKENS_GROW;
    use crate::checker::written::{Written, covered, failover, removed, take, token};

    /// Two tokens, in turn or at the same time.
    fn two(first: u64, second: u64, called: u64) -> Written {
        Written::default().did("a", take(5), (0, 10), token(first)).did("b", take(5), (called, 30), token(second))
    }

    #[test]
    fn of_two_that_follow_each_other_the_second_is_greater_and_none_is_given_twice() {
        assert_eq!(two(1, 2, 20).broken(), []);
        assert_eq!(two(2, 1, 5).broken(), [], "they were asked for together");
        for (first, second, called) in [(5, 4, 20), (5, 5, 20), (5, 5, 5)] {
            assert_eq!(two(first, second, called).broken(), [TOKENS_GROW]);
        }
    }

    #[test]
    fn removing_the_counter_restarts_tokens() {
        assert_eq!(two(5, 1, 20).troubled((12, 13), removed(true)).broken(), []);
        assert_eq!(two(5, 1, 20).troubled((12, 13), removed(false)).broken(), [TOKENS_GROW]);
        assert_eq!(two(5, 1, 20).troubled((31, 33), removed(true)).broken(), [TOKENS_GROW]);
    }

    #[test]
    fn after_a_failover_it_is_counted() {
        assert_eq!(two(5, 1, 20).troubled((12, 13), failover()).broken(), []);
        assert_eq!(two(5, 1, 20).troubled((12, 13), failover()).counted("token"), Some((1, 1)));
        assert_eq!(two(5, 6, 20).troubled((12, 13), failover()).counted("token"), Some((0, 1)));
    }

    #[test]
    fn after_one_that_is_covered_they_grow() {
        assert_eq!(two(5, 5, 20).troubled((12, 13), covered()).broken(), [TOKENS_GROW]);
        assert_eq!(two(5, 6, 20).troubled((12, 13), covered()).broken(), []);
    }
}
