//! Whether docs/proof/histories.md describes every record.

use super::*;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const PAGE: &str = include_str!("../../../docs/proof/histories.md");

/// One record of each kind, with every member that it can have.
fn records() -> Vec<Record> {
    let at = Moment(1);
    let text = String::new;
    let (server, lock, holder) = (text, text, text);
    let called =
        |request| Record::Called(Call { at, client: text(), number: 1, lock: lock(), holder: holder(), request });
    let answered = |answer| Record::Answered { at, client: text(), number: 1, answer };
    let troubled = |reach| Record::Troubled(Trouble { began: at, ended: at, what: text(), reach });
    let acquire = |by| {
        let (side, wait_ms) = (Side::Plain, None);
        called(Request::Acquire { side, limit: 0, beside: Vec::new(), lease_ms: 1, wait_ms, fenced: true, by })
    };
    let waiting = |by| Waiting { holder: holder(), side: Side::Plain, limit: 0, locks: 1, by, waited_ms: 1 };
    let ticket = WaitsBy::Ticket { name: text(), connection: None, is_attended: true };
    let holding = Holding { holder: holder(), side: Side::Plain, count: 1, ttl_ms: None };
    let promotion = Promotion { from: at, until: at, server: server(), by: text(), knew: BTreeMap::new() };
    let mut all = vec![
        called(Request::Renew { lease_ms: 1 }),
        called(Request::Answer { value: text(), keep_ms: 1 }),
        Record::Vouched { at, client: text(), number: 1, until: at },
        Record::Ended { at, client: text(), number: 1 },
        Record::Seen(Sample {
            asked: at,
            answered: at,
            server: server(),
            lock: lock(),
            ttl_ms: 1,
            holders: vec![holding],
            waiters: vec![waiting(WaitsBy::Client(1)), waiting(ticket)],
        }),
        Record::Promoted(promotion),
        Record::Forbade { from: at, until: at, server: server(), what: text() },
        Record::Measured { at, what: text(), value: 1.0 },
        Record::Broken { at, promise: text(), what: text() },
    ];
    all.extend([By::Acquire, By::Once, By::Script].map(acquire));
    all.extend(Side::ALL.map(|side| called(Request::Guard { side, limit: 0, lease_ms: 1, fenced: true })));
    all.extend(Side::ALL.map(|side| called(Request::Release { side, all: true })));
    all.extend(
        [
            Answer::Granted { token: None },
            Answer::Refused { left_ms: 1 },
            Answer::Released(None),
            Answer::Renewed(true),
            Answer::Got { value: text() },
            Answer::Answered,
            Answer::Stored(true),
            Answer::Failed(text()),
            Answer::Unknown(text()),
        ]
        .map(answered),
    );
    all.extend(
        [
            Reach::Nobody,
            Reach::Locks { locks: Vec::new(), takes_counters: true, takes_answers: true },
            Reach::StoredAnswer { lock: lock() },
            Reach::Failover { server: server(), is_covered: true },
            Reach::ClocksApart { server: server() },
            Reach::Restart { server: server() },
            Reach::ClockStep { server: server(), by_ms: 1 },
            Reach::Clients,
            Reach::Answers,
            Reach::Wait { client_id: 1 },
            Reach::NoWrites { server: server() },
        ]
        .map(troubled),
    );
    all
}

/// The names of members, and the kinds that are written as a word.
fn names(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => members.iter().for_each(|(name, value)| {
            found.insert(name.clone());
            names(value, found);
        }),
        Value::Array(values) => values.iter().for_each(|value| names(value, found)),
        Value::String(word) if !word.is_empty() => _ = found.insert(word.clone()),
        _ => {}
    }
}

/// The names of an enum's variants, as its derived reader lists them when it meets one that does not exist.
fn variants<'a, T: serde::Deserialize<'a>>() -> BTreeSet<String> {
    let error = serde_json::from_str::<T>(r#""""#).err().expect("no variant has that name").to_string();
    let known = error.split_once("expected ").expect("the reader lists the variants").1;
    known.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn the_page_names_every_kind_and_every_member() {
    let mut found = BTreeSet::new();
    for record in records() {
        names(&serde_json::to_value(&record).unwrap(), &mut found);
    }
    for (what, all) in [
        ("record", variants::<Record>()),
        ("request", variants::<Request>()),
        ("answer", variants::<Answer>()),
        ("reach", variants::<Reach>()),
        ("side", variants::<Side>()),
        ("way to ask", variants::<By>()),
        ("way to wait", variants::<WaitsBy>()),
    ] {
        assert!(all.len() > 1, "{what}: {all:?}");
        assert_eq!(all.difference(&found).collect::<Vec<_>>(), [""; 0], "this test has no {what} like that");
    }
    let lacking: Vec<_> = found.iter().filter(|name| !PAGE.contains(&format!("`{name}`"))).collect();
    assert_eq!(lacking, [""; 0], "docs/proof/histories.md does not name these");
}

#[test]
fn the_example_of_the_page_is_a_history() {
    let example = PAGE.split_once("```json only-shown\n").unwrap().1.split_once("```").unwrap().0;
    let records: Vec<Record> = example.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let again: Vec<String> = records.iter().map(|record| serde_json::to_string(record).unwrap()).collect();
    assert_eq!(again, example.lines().collect::<Vec<_>>());
    let operations = pair(&records);
    let tokens: Vec<_> = operations.iter().filter_map(|it| it.granted()?.1).collect();
    assert_eq!((records.len(), operations.len(), tokens), (5, 3, vec![7, 8]));
}
