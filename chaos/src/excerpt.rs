//! The records around a violation, for a person: those of its lock in order of time, and all troubles.

use crate::checker::Violation;
use crate::history::{Record, Sample};
use std::collections::HashSet;
use std::fmt::Write;
use std::time::Duration;

const BEFORE: Duration = Duration::from_secs(1);
const AFTER: Duration = Duration::from_millis(300);

/// The records of the violation's lock from a second before it until shortly after, with the seconds since the history
/// began. The calls that show the violation are marked, and included even if they are older.
pub fn excerpt(records: &[Record], violation: &Violation) -> String {
    let start = records.iter().map(Record::at).min().unwrap_or(violation.at);
    let (from, until) = (violation.at - BEFORE, violation.at + AFTER);
    let evidence: HashSet<(&str, u64)> =
        violation.evidence.iter().map(|(client, number)| (client.as_str(), *number)).collect();
    let mut calls = HashSet::new();
    let mut excerpt = format!("{}\n{}: {}\n", violation.promise.0, violation.lock, violation.what);
    for record in records {
        let call = record.of_call();
        if let Record::Called(called) = record {
            calls.extend(call.filter(|_| called.lock == violation.lock));
        }
        let is_evidence = call.is_some_and(|call| evidence.contains(&call));
        let is_near = match record {
            Record::Troubled(trouble) => trouble.began <= until && from <= trouble.ended,
            _ => from <= record.at() && record.at() <= until,
        };
        let is_included = match record {
            Record::Troubled(_) | Record::Broken { .. } => true,
            Record::Seen(Sample { lock, .. }) => *lock == violation.lock,
            _ => call.is_some_and(|call| calls.contains(&call)),
        };
        if is_evidence || is_near && is_included {
            let (mark, seconds) = (if is_evidence { '>' } else { ' ' }, record.at().since(start).as_secs_f64());
            writeln!(excerpt, "{mark} {seconds:10.4} {record:?}").expect("memory");
        }
    }
    excerpt
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::Promise;
    use crate::history::{Answer, Call, Moment, Reach, Request, Trouble};

    const SECOND: u64 = 1_000_000_000;

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

    #[test]
    fn the_excerpt_has_the_lock_around_the_time_and_the_evidence() {
        let (began, ended) = (Moment(8 * SECOND), Moment(11 * SECOND));
        let answer = Answer::Renewed(false);
        let records = [
            call(0, "a", 1, "l"),
            call(1, "b", 1, "l"),
            Record::Troubled(Trouble { began, ended, what: "pause".to_owned(), reach: Reach::Nobody }),
            call(10 * SECOND - 5, "b", 2, "l"),
            call(10 * SECOND - 4, "c", 1, "other"),
            Record::Answered { at: Moment(10 * SECOND), client: "b".to_owned(), number: 2, answer },
            call(12 * SECOND, "b", 3, "l"),
        ];
        let (lock, what, evidence) = ("l".to_owned(), "it was lost".to_owned(), vec![("a".to_owned(), 1)]);
        let promise = Promise::of("A hold lasts.");
        let excerpt = excerpt(&records, &Violation { promise, lock, at: Moment(10 * SECOND), what, evidence });
        let lines: Vec<&str> = excerpt.lines().skip(2).collect();
        assert_eq!(lines.len(), 4, "{excerpt}");
        assert!(lines[0].starts_with('>') && lines[0].contains("a/1"), "{excerpt}");
        assert!(lines[1].contains("8.0000") && lines[1].contains("pause"), "{excerpt}");
        assert!(lines[2].contains("b/2") && lines[3].contains("Renewed(false)"), "{excerpt}");
    }
}
