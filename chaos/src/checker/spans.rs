//! Things that last from one moment to another, found by when they are.

use crate::history::Moment;

/// Of one lock, or of a round's troubles: there are few, so each is looked at.
pub struct Spans<T>(Vec<(Moment, Moment, T)>);

impl<T> Spans<T> {
    pub fn from(spans: impl IntoIterator<Item = (Moment, Moment, T)>) -> Self {
        Self(spans.into_iter().collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those that end after the one moment and begin before the other.
    pub fn touching(&self, after: Moment, before: Moment) -> impl Iterator<Item = &(Moment, Moment, T)> {
        self.0.iter().filter(move |(began, ended, _)| *ended > after && *began < before)
    }

    pub fn touches(&self, after: Moment, before: Moment) -> bool {
        self.touching(after, before).next().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_touches_and_nothing_else() {
        let spans = Spans::from(vec![
            (Moment(10), Moment(90), 'a'),
            (Moment(20), Moment(30), 'b'),
            (Moment(40), Moment(50), 'c'),
            (Moment(95), Moment(96), 'd'),
        ]);
        let found =
            |after, before| spans.touching(Moment(after), Moment(before)).map(|span| span.2).collect::<String>();
        assert_eq!(found(25, 60), "abc");
        assert_eq!(found(30, 41), "ac");
        assert_eq!(found(0, 10), "");
        assert_eq!(found(90, 95), "");
        assert_eq!(found(91, 200), "d");
    }
}
