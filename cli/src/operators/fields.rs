//! Replies that are maps. An unexpected field is `None`: missing in an older module's reply, nil, or of another type.

use rlock_client::Reply;
use std::collections::HashMap;
use std::time::Duration;

/// The fields of one map, by name.
pub struct Fields(HashMap<Vec<u8>, Reply>);

impl Fields {
    pub fn of(reply: Reply) -> Option<Self> {
        let Reply::List(flat) = reply else { return None };
        let (mut flat, mut fields) = (flat.into_iter(), HashMap::new());
        while let Some(name) = flat.next() {
            fields.insert(bytes(name)?, flat.next()?);
        }
        Some(Self(fields))
    }

    pub fn bytes(&mut self, name: &str) -> Option<Vec<u8>> {
        bytes(self.reply(name)?)
    }

    pub fn text(&mut self, name: &str) -> Option<String> {
        String::from_utf8(self.bytes(name)?).ok()
    }

    /// A negative number means that there is none.
    pub fn number(&mut self, name: &str) -> Option<u64> {
        match self.reply(name)? {
            Reply::Int(number) => number.try_into().ok(),
            _ => None,
        }
    }

    pub fn count(&mut self, name: &str) -> Option<usize> {
        self.number(name)?.try_into().ok()
    }

    /// A time in ms.
    pub fn time(&mut self, name: &str) -> Option<Duration> {
        self.number(name).map(Duration::from_millis)
    }

    pub fn list<T>(&mut self, name: &str, each: impl Fn(Fields) -> Option<T>) -> Option<Vec<T>> {
        list(self.reply(name)?, each)
    }

    fn reply(&mut self, name: &str) -> Option<Reply> {
        self.0.remove(name.as_bytes())
    }
}

/// A list of maps.
pub fn list<T>(reply: Reply, each: impl Fn(Fields) -> Option<T>) -> Option<Vec<T>> {
    let Reply::List(maps) = reply else { return None };
    maps.into_iter().map(|map| each(Fields::of(map)?)).collect()
}

pub fn bytes(reply: Reply) -> Option<Vec<u8>> {
    match reply {
        Reply::Text(bytes) | Reply::Word(bytes) => Some(bytes),
        _ => None,
    }
}
