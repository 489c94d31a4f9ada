//! Which columns there is room for. A name is what all else is about, so it gives way last: first the holder goes, of
//! whom a piece says nothing, then the numbers from the right.

use std::ops::Range;

/// The numbers, in their order, and how wide each is.
const NUMBERS: [(&str, u16); 3] = [("WAITERS", 7), ("OLDEST WAIT", 11), ("GRANTS/S", 8)];

/// Between two columns.
pub const SPACE: u16 = 2;

/// What is left of a holder must at least tell some of them apart.
const HOLDER_MIN: u16 = 12;

/// A name that is longer than this does not take the numbers' place.
const KEY_MAX: u16 = 40;

#[derive(Debug, PartialEq, Eq)]
pub struct Columns {
    pub key: u16,
    /// 0: it is not shown.
    pub holder: u16,
    pub numbers: usize,
}

impl Columns {
    /// For so many columns of the screen, and names of which the longest is that wide.
    pub fn fit(width: u16, longest_key: u16) -> Self {
        let wanted = longest_key.min(KEY_MAX);
        let fits = |numbers: &usize| wanted + taken_by(*numbers) <= width;
        let numbers = (0..=NUMBERS.len()).rev().find(fits).unwrap_or(0);
        let left = width - taken_by(numbers).min(width);
        match left.checked_sub(wanted + SPACE) {
            Some(holder) if holder >= HOLDER_MIN && numbers == NUMBERS.len() => {
                let key = longest_key.min(left - SPACE - HOLDER_MIN);
                Self { key, holder: left - SPACE - key, numbers }
            }
            _ => Self { key: left, holder: 0, numbers },
        }
    }

    pub fn heading(&self, key: String) -> Vec<String> {
        let holder = (self.holder > 0).then(|| "HOLDER".to_owned());
        let numbers = NUMBERS.iter().take(self.numbers).map(|(name, _)| (*name).to_owned());
        std::iter::once(key).chain(holder).chain(numbers).collect()
    }

    pub fn widths(&self) -> Vec<u16> {
        let holder = (self.holder > 0).then_some(self.holder);
        std::iter::once(self.key)
            .chain(holder)
            .chain(NUMBERS.iter().take(self.numbers).map(|(_, width)| *width))
            .collect()
    }
}

fn taken_by(numbers: usize) -> u16 {
    NUMBERS.iter().take(numbers).map(|(_, width)| width + SPACE).sum()
}

/// The rows that are shown: as they were, if the selected one is among them and no line is free that could show one.
pub fn window(before: usize, selected: usize, height: usize, count: usize) -> Range<usize> {
    let first = before.min(selected).max((selected + 1).saturating_sub(height));
    let first = first.min(count.saturating_sub(height));
    first..count.min(first + height)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_gives_way_last() {
        let all = |width| Columns::fit(width, 9);
        assert_eq!(all(80), Columns { key: 9, holder: 37, numbers: 3 });
        assert_eq!(all(54), Columns { key: 22, holder: 0, numbers: 3 });
        assert_eq!(all(41), Columns { key: 9, holder: 0, numbers: 3 });
        assert_eq!(all(40), Columns { key: 18, holder: 0, numbers: 2 });
        assert_eq!(all(20), Columns { key: 11, holder: 0, numbers: 1 });
        assert_eq!(all(17), Columns { key: 17, holder: 0, numbers: 0 });
        assert_eq!(all(1), Columns { key: 1, holder: 0, numbers: 0 });
        assert_eq!(all(0), Columns { key: 0, holder: 0, numbers: 0 });
    }

    #[test]
    fn a_long_name_leaves_the_numbers_their_place() {
        assert_eq!(Columns::fit(80, 500), Columns { key: 48, holder: 0, numbers: 3 });
        assert_eq!(Columns::fit(120, 500), Columns { key: 74, holder: 12, numbers: 3 });
        assert_eq!(Columns::fit(60, u16::MAX), Columns { key: 51, holder: 0, numbers: 1 });
    }

    #[test]
    fn no_line_is_free_while_a_row_is_hidden() {
        assert_eq!(window(0, 0, 19, 31), 0..19);
        assert_eq!(window(0, 30, 19, 31), 12..31);
        assert_eq!(window(12, 15, 19, 31), 12..31);
        assert_eq!(window(12, 3, 19, 31), 3..22);
        assert_eq!(window(12, 0, 19, 12), 0..12);
        assert_eq!(window(12, 20, 35, 31), 0..31);
        assert_eq!(window(3, 3, 0, 31), 4..4);
        assert_eq!(window(0, 0, 5, 0), 0..0);
    }
}
