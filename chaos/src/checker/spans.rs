//! Values with a beginning and an end, found by time.

use crate::history::Moment;

/// A lock or a round has few, so a search goes through all of them.
pub struct Spans<T>(Vec<(Moment, Moment, T)>);

impl<T> Spans<T> {
    pub fn from(spans: impl IntoIterator<Item = (Moment, Moment, T)>) -> Self {
        Self(spans.into_iter().collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The spans that end after the one moment and begin before the other.
    pub fn touching(&self, after: Moment, before: Moment) -> impl Iterator<Item = &(Moment, Moment, T)> {
        self.0.iter().filter(move |(began, ended, _)| *ended > after && *began < before)
    }

    pub fn touches(&self, after: Moment, before: Moment) -> bool {
        self.touching(after, before).next().is_some()
    }
}
