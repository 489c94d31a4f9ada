//! Replies that are maps: maps in RESP3, flat arrays in RESP2.

use crate::link::Fault;
use crate::link::request::not_an_answer;
use redis::{FromRedisValue, Value};
use std::collections::HashMap;
use std::time::Duration;

/// The fields of one map, by name. A field that an older module does not tell is nil.
pub(super) struct Fields(HashMap<String, Value>);

impl Fields {
    pub(super) fn of(value: Value) -> Result<Self, Fault> {
        let pairs = match value {
            Value::Map(pairs) => pairs,
            Value::Array(flat) if flat.len() % 2 == 0 => pairs_of(flat),
            _ => return Err(not_an_answer()),
        };
        let named = pairs.into_iter().map(|(name, value)| Ok((read::<String>(name)?, value)));
        named.collect::<Result<_, Fault>>().map(Self)
    }

    pub(super) fn take<T: FromRedisValue>(&mut self, name: &str) -> Result<T, Fault> {
        read(self.value(name))
    }

    /// A time in ms; negative ones mean that there is none.
    pub(super) fn take_time(&mut self, name: &str) -> Result<Option<Duration>, Fault> {
        let ms: Option<i64> = self.take(name)?;
        Ok(ms.and_then(|ms| u64::try_from(ms).ok()).map(Duration::from_millis))
    }

    pub(super) fn take_list<T>(
        &mut self,
        name: &str,
        each: impl Fn(Fields) -> Result<T, Fault>,
    ) -> Result<Vec<T>, Fault> {
        list(self.value(name), each)
    }

    fn value(&mut self, name: &str) -> Value {
        self.0.remove(name).unwrap_or(Value::Nil)
    }
}

/// A list of maps.
pub(super) fn list<T>(value: Value, each: impl Fn(Fields) -> Result<T, Fault>) -> Result<Vec<T>, Fault> {
    let Value::Array(maps) = value else { return Err(not_an_answer()) };
    maps.into_iter().map(|map| each(Fields::of(map)?)).collect()
}

pub(super) fn read<T: FromRedisValue>(value: Value) -> Result<T, Fault> {
    T::from_redis_value(value).map_err(|error| Fault::Refused(error.into()))
}

fn pairs_of(flat: Vec<Value>) -> Vec<(Value, Value)> {
    let mut flat = flat.into_iter();
    std::iter::from_fn(|| Some((flat.next()?, flat.next()?))).collect()
}
