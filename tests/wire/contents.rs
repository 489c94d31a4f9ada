//! Everything that a server stores, to be compared with another's, or with what it reads back from its files.

use crate::connection::Connection;
use crate::contract::Command;
use rlock_testing::resp::Frame;
use std::collections::BTreeMap;

/// The databases that are used, and an empty one behind them.
const DATABASES: usize = 4;

/// PEXPIRETIME's reply if there is no such key.
const NO_KEY: i64 = -2;

/// Each key in each database, with a digest of its value, and when it ends.
#[derive(PartialEq)]
pub struct Contents(BTreeMap<(usize, Vec<u8>), (Vec<u8>, i64)>);

impl Contents {
    /// Expired keys are left out, whether or not the server has removed them.
    pub fn of(connection: &mut Connection) -> Self {
        let mut contents = BTreeMap::new();
        for database in 0..DATABASES {
            connection.say(&format!("SELECT {database}"));
            let Frame::List(keys) = connection.say("KEYS *") else { panic!("KEYS is a list") };
            let about = |words: &[&str], key: &Frame| -> Command {
                words.iter().map(|word| word.as_bytes().to_vec()).chain([key.text().to_vec()]).collect()
            };
            let questions: Vec<_> = keys
                .iter()
                .flat_map(|key| [about(&["DEBUG", "DIGEST-VALUE"], key), about(&["PEXPIRETIME"], key)])
                .collect();
            let answers = connection.ask_all(&questions);
            for (key, answer) in keys.iter().zip(answers.chunks(2)) {
                let [Frame::List(digest), Frame::Int(end)] = answer else { panic!("{answer:?}") };
                // The key may have ended since its name was listed.
                if *end != NO_KEY {
                    contents.insert((database, key.text().to_vec()), (digest[0].text().to_vec(), *end));
                }
            }
        }
        connection.say("SELECT 0");
        Self(contents)
    }

    /// The keys that only one has, or that differ, except keys that have ended by `now`.
    pub fn differences(&self, other: &Self, now: i64) -> Vec<String> {
        let is_there = |end: i64| end < 0 || end > now;
        let mut differences = Vec::new();
        for (name, value) in &self.0 {
            if is_there(value.1) && other.0.get(name) != Some(value) {
                differences.push(difference(name, Some(value), other.0.get(name)));
            }
        }
        for (name, value) in &other.0 {
            if is_there(value.1) && !self.0.contains_key(name) {
                differences.push(difference(name, None, Some(value)));
            }
        }
        differences
    }
}

fn difference(
    (database, key): &(usize, Vec<u8>),
    one: Option<&(Vec<u8>, i64)>,
    other: Option<&(Vec<u8>, i64)>,
) -> String {
    let value = |value: Option<&(Vec<u8>, i64)>| {
        value
            .map_or_else(|| "nothing".to_owned(), |(digest, end)| format!("{} until {end}", digest[..8].escape_ascii()))
    };
    let key = key[..key.len().min(100)].escape_ascii();
    format!("{key} in database {database}: {} here, {} there", value(one), value(other))
}
