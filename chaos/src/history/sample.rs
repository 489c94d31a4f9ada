//! What an observer saw of a lock: the answer to one RLOCK.INSPECT.

use super::{Moment, Side};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    pub asked: Moment,
    pub answered: Moment,
    /// The server's name in the run.
    pub server: String,
    pub lock: String,
    /// As PTTL says it: -1 without an end, -2 no key.
    pub ttl_ms: i64,
    pub holders: Vec<Holding>,
    /// In their order. All of them, or the first of so many that the rest was not asked for.
    pub waiters: Vec<Waiting>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Holding {
    pub holder: String,
    pub side: Side,
    pub count: i64,
    pub ttl_ms: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    pub holder: String,
    pub side: Side,
    pub client_id: i64,
    pub waited_ms: i64,
}
