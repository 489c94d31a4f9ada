//! Things that last from one moment to another, found by when they are.

use crate::history::Moment;

/// In order of their beginnings. To find those that touch a time, it is enough to go back from the last that began
/// before it, to where all have ended.
pub struct Spans<T> {
    sorted: Vec<(Moment, Moment, T)>,
    /// When the last of all up to this place ends.
    ended: Vec<Moment>,
}

impl<T> Spans<T> {
    pub fn from(mut spans: Vec<(Moment, Moment, T)>) -> Self {
        spans.sort_by_key(|(began, ended, _)| (*began, *ended));
        let ended = spans
            .iter()
            .scan(Moment(0), |latest, (_, ended, _)| {
                *latest = (*latest).max(*ended);
                Some(*latest)
            })
            .collect();
        Self { sorted: spans, ended }
    }

    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// Those that end after the one moment and begin before the other, the last first.
    pub fn touching(&self, after: Moment, before: Moment) -> impl Iterator<Item = &(Moment, Moment, T)> {
        let count = self.sorted.partition_point(|(began, ..)| *began < before);
        self.sorted[..count]
            .iter()
            .zip(&self.ended)
            .rev()
            .take_while(move |(_, latest)| **latest > after)
            .map(|(span, _)| span)
            .filter(move |(_, ended, _)| *ended > after)
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
        assert_eq!(found(25, 60), "cba");
        assert_eq!(found(30, 41), "ca");
        assert_eq!(found(0, 10), "");
        assert_eq!(found(90, 95), "");
        assert_eq!(found(91, 200), "d");
    }
}
