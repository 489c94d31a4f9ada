//! What happened around a violation, for a person: the lines of one lock in order of time, and all troubles.

use crate::checker::Violation;
use crate::history::{Call, Moment, Record, Sample};
use std::collections::{HashMap, HashSet};
use std::fmt::Write;
use std::time::Duration;

const BEFORE: Duration = Duration::from_secs(1);
const AFTER: Duration = Duration::from_millis(300);
const LINES: usize = 120;

/// How many of those who wait are named.
const WAITERS: usize = 4;

/// The lines of the violation's lock from a second before it until shortly after, by seconds since the history began.
/// The calls that show the violation are marked, and there even if they are older. Where there is too much, what is
/// furthest from the violation and not marked goes.
pub fn story(records: &[Record], violation: &Violation) -> String {
    let start = records.iter().map(Record::at).min().unwrap_or(violation.at);
    let lines = fit(lines(records, violation), violation.at);
    let mut story = format!("{}\n{}: {}\n", violation.promise.0, violation.lock, violation.what);
    for line in lines {
        let mark = if line.is_evidence { '>' } else { ' ' };
        writeln!(story, "{mark} {:10.4} {}", line.at.since(start).as_secs_f64(), line.text).expect("memory");
    }
    story
}

struct Line {
    at: Moment,
    text: String,
    is_evidence: bool,
}

fn lines(records: &[Record], violation: &Violation) -> Vec<Line> {
    let calls = calls(records, &violation.lock);
    let evidence: HashSet<(&str, u64)> =
        violation.evidence.iter().map(|(client, number)| (client.as_str(), *number)).collect();
    let (from, until) = (violation.at - BEFORE, violation.at + AFTER);
    // What was seen last on each server, so that only what has changed is told.
    let mut looks: HashMap<&str, String> = HashMap::new();
    let mut lines = Vec::new();
    for record in records {
        let of = record.of_call();
        let is_evidence = of.is_some_and(|of| evidence.contains(&of));
        let is_near = |at: Moment| from <= at && at <= until;
        if let Record::Troubled(trouble) = record {
            if trouble.began <= until && from <= trouble.ended {
                let began = format!("TROUBLE {}: {:?}", trouble.what, trouble.reach);
                lines.push(line(trouble.began, began, false));
                let ended = format!("TROUBLE ends: {}", trouble.what);
                lines.extend(is_near(trouble.ended).then(|| line(trouble.ended, ended, false)));
            }
        } else if let Record::Seen(sample) = record {
            // Every one is looked at, to know what has changed by the first that is told.
            if sample.lock == violation.lock {
                let text = seen(sample);
                let is_new = looks.insert(&sample.server, text.clone()).as_ref() != Some(&text);
                lines.extend((is_new && is_near(sample.asked)).then(|| line(sample.asked, text, false)));
            }
        } else if is_near(record.at()) || is_evidence {
            let call = of.and_then(|of| calls.get(&of).copied());
            lines.extend(in_words(record, call).map(|text| line(record.at(), text, is_evidence)));
        }
    }
    lines.sort_by_key(|line| line.at);
    lines
}

fn line(at: Moment, text: String, is_evidence: bool) -> Line {
    Line { at, text, is_evidence }
}

/// Those on the lock; without a lock, none.
fn calls<'a>(records: &'a [Record], lock: &str) -> HashMap<(&'a str, u64), &'a Call> {
    let calls = records.iter().filter_map(|record| match record {
        Record::Called(call) if call.lock == lock => Some(((call.client.as_str(), call.number), call)),
        _ => None,
    });
    calls.collect()
}

fn in_words(record: &Record, call: Option<&Call>) -> Option<String> {
    if let Record::Broken { promise, what, .. } = record {
        return Some(format!("BROKEN {promise}: {what}"));
    }
    let Call { at: called, client, number, holder, request, .. } = call?;
    let said = match record {
        Record::Called(_) => format!("as {holder}: {request:?}"),
        Record::Answered { at, answer, .. } => format!("<- {answer:?}, after {:?}", at.since(*called)),
        Record::Queued { .. } => "<- it waits by a ticket".to_owned(),
        Record::Vouched { at, until, .. } => format!("vouches for {:?} more", until.since(*at)),
        Record::Ended { .. } => "vouches no more".to_owned(),
        _ => return None,
    };
    Some(format!("{client} #{number} {said}"))
}

fn seen(Sample { server, holders, waiters, .. }: &Sample) -> String {
    let holders = list(holders.iter().map(|it| format!("{} ({:?} x{})", it.holder, it.side, it.count)));
    let waiters = list(waiters.iter().map(|it| format!("{} ({:?}, {:?})", it.holder, it.side, it.by)));
    format!("seen on {server}: held by {holders}; waiting: {waiters}")
}

fn list(names: impl ExactSizeIterator<Item = String>) -> String {
    let more = names.len().saturating_sub(WAITERS);
    let mut named: Vec<String> = names.take(WAITERS).collect();
    named.extend((more > 0).then(|| format!("{more} more")));
    if named.is_empty() { "nobody".to_owned() } else { named.join(", ") }
}

/// At most so many as a person reads.
fn fit(lines: Vec<Line>, at: Moment) -> Vec<Line> {
    let distance = |line: &Line| (!line.is_evidence, line.at.since(at).max(at.since(line.at)));
    let mut order: Vec<usize> = (0..lines.len()).collect();
    order.sort_by_key(|place| distance(&lines[*place]));
    let kept: HashSet<usize> = order.into_iter().take(LINES).collect();
    lines.into_iter().enumerate().filter(|(place, _)| kept.contains(place)).map(|(_, line)| line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::Promise;
    use crate::history::{Answer, Reach, Request, Side, Trouble};

    fn call(at: u64, client: &str, number: u64, lock: &str) -> Record {
        Record::Called(Call {
            at: Moment(at),
            client: client.to_owned(),
            number,
            lock: lock.to_owned(),
            holder: format!("{client}/{number}"),
            request: Request::Renew { lease_ms: 10 },
        })
    }

    fn violation(at: u64) -> Violation {
        let evidence = vec![("a".to_owned(), 1)];
        let what = "it was lost".to_owned();
        Violation { promise: Promise::of("A hold lasts."), lock: "l".to_owned(), at: Moment(at), what, evidence }
    }

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn tells_of_the_lock_around_the_time_and_of_what_shows_it() {
        let trouble = Trouble {
            began: Moment(9 * SECOND),
            ended: Moment(11 * SECOND),
            what: "pause".to_owned(),
            reach: Reach::Nobody,
        };
        let records = [
            call(0, "a", 1, "l"),
            call(1, "b", 1, "l"),
            Record::Troubled(trouble),
            call(10 * SECOND - 5, "b", 2, "l"),
            call(10 * SECOND - 4, "c", 1, "other"),
            Record::Answered {
                at: Moment(10 * SECOND),
                client: "b".to_owned(),
                number: 2,
                answer: Answer::Renewed(false),
            },
            call(11 * SECOND, "b", 3, "l"),
        ];
        let story = story(&records, &violation(10 * SECOND));
        let told: Vec<&str> = story.lines().skip(2).collect();
        assert_eq!(told.len(), 4, "{story}");
        assert!(told[0].starts_with(">") && told[0].contains("a #1 as a/1: Renew"), "{story}");
        assert!(told[1].contains("9.0000 TROUBLE pause"), "{story}");
        assert!(told[2].contains("b #2 as b/2"), "{story}");
        assert!(told[3].contains("b #2 <- Renewed(false)"), "{story}");
    }

    #[test]
    fn is_short_and_keeps_what_shows_it() {
        let mut records = vec![call(0, "a", 1, "l")];
        records.extend((0..1_000).map(|number| call(10 * SECOND - 1_000 + number, "b", number, "l")));
        let story = story(&records, &violation(10 * SECOND));
        assert_eq!(story.lines().count(), 2 + LINES);
        assert!(story.contains("a #1") && story.contains("b #999") && !story.contains("b #800"), "{story}");
    }

    #[test]
    fn tells_of_samples_only_what_changed() {
        let sample = |asked: u64, waiting: usize| {
            let (holder, by) = ("w".to_owned(), crate::history::WaitsBy::Client(7));
            let waiter = crate::history::Waiting { holder, side: Side::Plain, limit: 0, locks: 1, by, waited_ms: 1 };
            Record::Seen(Sample {
                asked: Moment(asked),
                answered: Moment(asked + 1),
                server: "s".to_owned(),
                lock: "l".to_owned(),
                ttl_ms: -2,
                holders: Vec::new(),
                waiters: vec![waiter; waiting],
            })
        };
        let records = [sample(1, 0), sample(2, 0), sample(3, 1), sample(4, 1)];
        let story = story(&records, &violation(5));
        assert_eq!(story.lines().count(), 4, "{story}");
    }
}
