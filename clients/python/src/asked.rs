//! What Python asks for: names, locks and times, as it gives them.

use crate::Failure;
use pyo3::prelude::*;
use rlock_bindings::{Terms, Wanted};
use std::time::Duration;

/// A name or an owner, as Python gives it.
#[derive(FromPyObject)]
pub(crate) enum Name {
    Text(String),
    Bytes(Vec<u8>),
}

impl Name {
    fn shown(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        }
    }

    pub(crate) fn bytes(self) -> Vec<u8> {
        match self {
            Self::Text(text) => text.into_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }
}

/// The attributes of a lock object in Python.
#[derive(FromPyObject)]
pub(crate) struct Asked {
    pub(crate) kind: String,
    pub(crate) names: Vec<Name>,
    pub(crate) limit: i64,
    pub(crate) lease: Option<f64>,
    pub(crate) fixed: bool,
    pub(crate) fenced: bool,
    pub(crate) owner: Option<Name>,
    pub(crate) max_waiters: Option<i64>,
    pub(crate) replicas: Option<(i64, f64)>,
}

impl Asked {
    pub(crate) fn about(&self) -> String {
        self.names.iter().map(Name::shown).collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn read(self, wait: Option<f64>) -> Result<(Wanted, Terms), Failure> {
        let mut names = self.names.into_iter().map(Name::bytes);
        let wanted = match self.kind.as_str() {
            "all" => Wanted::All(names.collect()),
            kind => match (kind, names.next().unwrap_or_default()) {
                ("read", name) => Wanted::Read(name),
                ("write", name) => Wanted::Write(name),
                ("permit", name) => Wanted::Permit { name, limit: count("limit", self.limit)? },
                (_, name) => Wanted::Lock(name),
            },
        };
        let replicas = match self.replicas {
            None => None,
            Some((wanted, within)) => {
                let within = time("replicas", Some(within))?.unwrap_or(Duration::MAX);
                Some((count("replicas", wanted)? as usize, within))
            }
        };
        let terms = Terms {
            wait: time("wait", wait)?,
            lease: lease(self.lease)?,
            fixed: self.fixed,
            fenced: self.fenced,
            owner: self.owner.map(Name::bytes),
            max_waiters: self.max_waiters.map(|it| count("max_waiters", it)).transpose()?,
            replicas,
        };
        Ok((wanted, terms))
    }
}

/// A time that Python gives in seconds. None: forever.
pub(crate) fn time(about: &str, seconds: Option<f64>) -> Result<Option<Duration>, Failure> {
    seconds.filter(|it| *it != f64::INFINITY).map(|it| span(about, it)).transpose()
}

pub(crate) fn lease(seconds: Option<f64>) -> Result<Option<Duration>, Failure> {
    seconds.map(|it| span("lease", it)).transpose()
}

pub(crate) fn span(about: &str, seconds: f64) -> Result<Duration, Failure> {
    let refused = |_| Failure::new("configuration", about, &format!("{seconds} is not a time in seconds, at least 0"));
    Duration::try_from_secs_f64(seconds).map_err(refused)
}

pub(crate) fn count(about: &str, number: i64) -> Result<u32, Failure> {
    u32::try_from(number).map_err(|_| Failure::new("configuration", about, &format!("{number} is out of range")))
}
