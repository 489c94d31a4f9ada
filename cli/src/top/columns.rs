//! Selects the columns that fit, and their widths: no wider than their content, however wide the screen is.
//!
//! A name gives meaning to its row, so it is dropped last: first the columns for wide screens go, then the holder,
//! because a short part of it is useless, then the numbers from the right. But one long name does not hide a column of
//! all other rows: it is shortened first.

use crate::arguments::Sort;
use std::ops::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    Key,
    Holder,
    Waiters,
    OldestWait,
    Rate,
    LeaseLeft,
    HolderFor,
    Kind,
    Next,
}

use Column::{Holder, HolderFor, Key, Kind, LeaseLeft, Next, OldestWait, Rate, Waiters};

const NUMBERS: [Column; 3] = [Waiters, OldestWait, Rate];

/// Between two columns, as in every table.
const SPACE: u16 = 2;

/// The minimum width of a holder. It is enough to distinguish some holders.
const HOLDER_MIN: u16 = 10;

/// A holder gets this much room before the columns for wide screens get any.
const HOLDER_GOOD: u16 = 20;

/// The part of a name beyond `KEY_MAX` hides no number, and the part beyond `KEY_BESIDE_HOLDER` does not hide the
/// holder: all other rows have these columns as well.
const KEY_MAX: u16 = 40;
const KEY_BESIDE_HOLDER: u16 = 32;

/// The width of the longest content of each column without a fixed width.
#[derive(Clone, Copy, Debug)]
pub struct Longest {
    pub key: u16,
    pub holder: u16,
    pub next: u16,
}

impl Column {
    pub fn heading(self) -> &'static str {
        match self {
            Key => "KEY",
            Holder => "HOLDER",
            Waiters => "WAITERS",
            OldestWait => "OLDEST WAIT",
            Rate => "GRANTS/S",
            LeaseLeft => "LEASE LEFT",
            HolderFor => "HOLDER FOR",
            Kind => "KIND",
            Next => "NEXT",
        }
    }

    /// The order that sorts by this column.
    pub fn sort(self) -> Option<Sort> {
        Some(match self {
            Key => Sort::Key,
            Waiters => Sort::Waiters,
            OldestWait => Sort::Wait,
            Rate => Sort::Rate,
            HolderFor => Sort::Held,
            Holder | LeaseLeft | Kind | Next => return None,
        })
    }

    /// The width of columns with a fixed width. The arrow that marks the order takes one more.
    fn width(self, sort: Sort) -> u16 {
        // A kind may be longer than its heading.
        let width = if self == Kind { "read-write".len() } else { self.heading().len() };
        width as u16 + u16::from(self.sort() == Some(sort))
    }
}

/// The columns in their order, each with its width, for so many columns of the screen.
pub fn fit(screen: u16, longest: Longest, sort: Sort) -> Vec<(Column, u16)> {
    let taken = |numbers: usize| NUMBERS[..numbers].iter().map(|it| it.width(sort) + SPACE).sum::<u16>();
    let wanted = longest.key.min(KEY_MAX);
    let count = (0..=NUMBERS.len()).rev().find(|count| wanted + taken(*count) <= screen).unwrap_or(0);
    let left = screen - taken(count).min(screen);
    let numbers = || NUMBERS[..count].iter().map(|column| (*column, column.width(sort)));
    let holder_min = HOLDER_MIN.min(longest.holder);
    if count < NUMBERS.len() || left < wanted.min(KEY_BESIDE_HOLDER) + SPACE + holder_min {
        return std::iter::once((Key, longest.key.min(left))).chain(numbers()).collect();
    }
    let key = longest.key.min(left - SPACE - holder_min);
    let room = left - SPACE - key;
    let mut holder = longest.holder.min(HOLDER_GOOD).min(room);
    let mut spare = room - holder;
    let mut more = Vec::new();
    let mut add = |column: Column, width: u16, spare: &mut u16| {
        if let Some(rest) = spare.checked_sub(width + SPACE) {
            more.push((column, width));
            *spare = rest;
        }
    };
    add(LeaseLeft, LeaseLeft.width(sort), &mut spare);
    add(HolderFor, HolderFor.width(sort), &mut spare);
    let grown = (longest.holder - holder).min(spare);
    (holder, spare) = (holder + grown, spare - grown);
    // A piece of the next waiter is enough. If there is no room for it, the kind is left out, too.
    let next = longest.next.min(spare.saturating_sub(SPACE + SPACE + Kind.width(sort))).max(HOLDER_GOOD);
    let before = spare;
    add(Next, next.min(longest.next), &mut spare);
    if spare < before {
        add(Kind, Kind.width(sort), &mut spare);
    }
    [(Key, key), (Holder, holder)].into_iter().chain(numbers()).chain(more).collect()
}

/// The rows that are shown. They stay the same if the selected row is among them and no line is empty that could show a row.
pub fn window(before: usize, selected: usize, height: usize, count: usize) -> Range<usize> {
    let first = before.min(selected).max((selected + 1).saturating_sub(height));
    let first = first.min(count.saturating_sub(height));
    first..count.min(first + height)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With holders as long as those that clients choose.
    fn fitted(screen: u16, key: u16) -> Vec<(Column, u16)> {
        fit(screen, Longest { key, holder: 49, next: 49 }, Sort::Waiters)
    }

    const ALL_NUMBERS: [(Column, u16); 3] = [(Waiters, 8), (OldestWait, 11), (Rate, 8)];

    #[test]
    fn the_name_gives_way_last() {
        let of = |screen, first: &[(Column, u16)], numbers: usize, more: &[(Column, u16)]| {
            assert_eq!(fitted(screen, 9), [first, &ALL_NUMBERS[..numbers], more].concat(), "{screen}");
        };
        of(80, &[(Key, 9), (Holder, 24)], 3, &[(LeaseLeft, 10)]);
        of(54, &[(Key, 9), (Holder, 10)], 3, &[]);
        of(53, &[(Key, 9)], 3, &[]);
        of(42, &[(Key, 9)], 3, &[]);
        of(41, &[(Key, 9)], 2, &[]);
        of(20, &[(Key, 9)], 1, &[]);
        of(17, &[(Key, 9)], 0, &[]);
        of(1, &[(Key, 1)], 0, &[]);
        of(0, &[(Key, 0)], 0, &[]);
    }

    #[test]
    fn a_wide_screen_has_more_columns_and_no_wider_ones() {
        let wide = [(Key, 9), (Holder, 49)];
        let more = [(LeaseLeft, 10), (HolderFor, 10), (Next, 49), (Kind, 10)];
        for screen in [190, 200, 1_000] {
            assert_eq!(fitted(screen, 9), [&wide[..], &ALL_NUMBERS, &more].concat(), "{screen}");
        }
        let named = |screen| fitted(screen, 24).into_iter().map(|(column, _)| column).collect::<Vec<_>>();
        assert!(named(160).contains(&HolderFor) && named(160).contains(&Next), "{:?}", named(160));
    }

    #[test]
    fn no_line_is_longer_than_the_screen() {
        for screen in 0..250 {
            for key in [0, 3, 9, 24, 40, 41, 500, u16::MAX] {
                for other in [6, 9, 10, 15, 49, 600] {
                    for sort in [Sort::Waiters, Sort::Key, Sort::Held] {
                        let fitted = fit(screen, Longest { key, holder: other, next: other }, sort);
                        let width: u16 = fitted.iter().map(|(_, width)| width + SPACE).sum();
                        assert!(width - SPACE <= screen, "{screen} {key} {other}: {fitted:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_long_name_leaves_the_numbers_their_place() {
        assert_eq!(fitted(80, 500), [&[(Key, 35), (Holder, 10)][..], &ALL_NUMBERS].concat());
        assert_eq!(fitted(76, 500), [&[(Key, 43)][..], &ALL_NUMBERS].concat());
        assert_eq!(fitted(120, 500), [&[(Key, 75), (Holder, 10)][..], &ALL_NUMBERS].concat());
        assert_eq!(fitted(60, u16::MAX), [(Key, 50), (Waiters, 8)]);
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
