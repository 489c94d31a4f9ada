//! The client's warnings, one for each lock that its watchdog finds lost, for Python's `logging`. The
//! client has a thread of its own for them, which may wait for the interpreter's lock as long as it likes.

use crate::ending::Inside;
use pyo3::prelude::*;
use std::fmt::{Debug, Write};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

pub(crate) fn hand_on() {
    // It fails if another copy of this module in this process was first.
    _ = tracing::subscriber::set_global_default(Warnings);
}

struct Warnings;

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::WARN)
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        // While the interpreter ends, the warning is dropped.
        let Some(_inside) = Inside::enter() else { return };
        Python::try_attach(|py| {
            let logger = py.import("logging").and_then(|it| it.call_method1("getLogger", ("rlock_client",)));
            let logged = logger.and_then(|it| it.call_method1("warning", ("%s", line.0)));
            logged.map_or_else(|error| error.write_unraisable(py, None), |_| ());
        });
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// The message, and the fields behind it.
struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        _ = match field.name() {
            "message" => write!(self.0, "{value:?}"),
            name => write!(self.0, ", {name}: {value:?}"),
        };
    }
}
