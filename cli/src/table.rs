//! Columns of text, each as wide as its widest cell. Text that does not fit in the columns goes to a line below its
//! row.
//!
//! The terminal would wrap lines that are too long, which makes a table unreadable. So if the width is limited, names
//! are shortened in the middle, since both ends distinguish them.

use crate::shown;

/// Whether the heading is emphasized, as on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heading {
    Plain,
    Bold,
}

/// How a table is shown.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    pub heading: Heading,
    /// How wide it may be. `None`: nothing is shortened, as for a program.
    pub room: Option<usize>,
}

/// The columns that may be shortened, in this order, each with its minimum width.
type Yielding = &'static [(usize, usize)];

pub struct Table<const COLUMNS: usize> {
    heading: [&'static str; COLUMNS],
    yielding: Yielding,
    rows: Vec<Row<COLUMNS>>,
}

struct Row<const COLUMNS: usize> {
    cells: [String; COLUMNS],
    /// Parts that stay whole.
    below: Vec<String>,
}

/// Between two columns.
const GAP: &str = "  ";

impl<const COLUMNS: usize> Table<COLUMNS> {
    pub fn new(heading: [&'static str; COLUMNS], yielding: Yielding) -> Self {
        Self { heading, yielding, rows: Vec::new() }
    }

    pub fn push(&mut self, cells: [String; COLUMNS]) {
        self.push_with(cells, Vec::new());
    }

    pub fn push_with(&mut self, cells: [String; COLUMNS], below: Vec<String>) {
        self.rows.push(Row { cells, below });
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn text(&self, form: Form) -> String {
        let widths = self.widths(form.room);
        let words = line(&self.heading, &widths);
        let first = match form.heading {
            Heading::Bold => format!("\x1b[1m{words}\x1b[0m"),
            Heading::Plain => words,
        };
        let rows = self.rows.iter().flat_map(|row| {
            let below = lines_of(&row.below, form.room);
            std::iter::once(line(&row.cells, &widths)).chain(below)
        });
        std::iter::once(first).chain(rows).map(|line| line + "\n").collect()
    }

    fn widths(&self, room: Option<usize>) -> [usize; COLUMNS] {
        let mut widths = std::array::from_fn(|column| self.width(column));
        let taken = |widths: &[usize; COLUMNS]| widths.iter().sum::<usize>() + GAP.len() * (COLUMNS - 1);
        for (column, least) in self.yielding {
            let excess = taken(&widths).saturating_sub(room.unwrap_or(usize::MAX));
            let least = self.heading[*column].len().max(*least);
            widths[*column] = widths[*column].saturating_sub(excess).max(least.min(widths[*column]));
        }
        widths
    }

    fn width(&self, column: usize) -> usize {
        let rows = self.rows.iter().map(|row| shown::width(&row.cells[column]));
        rows.chain([self.heading[column].len()]).max().unwrap_or_default()
    }
}

/// One row. A cell that is wider than its column is shortened.
pub fn line(cells: &[impl AsRef<str>], widths: &[usize]) -> String {
    let cells = cells.iter().zip(widths).map(|(cell, width)| {
        let cell = shown::shorten(cell.as_ref(), *width);
        let free = width.saturating_sub(shown::width(&cell));
        format!("{cell}{:free$}", "")
    });
    cells.collect::<Vec<_>>().join(GAP).trim_end().to_owned()
}

/// The parts, as many on a line as fit.
fn lines_of(parts: &[String], room: Option<usize>) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for (place, part) in parts.iter().enumerate() {
        let commas = if place + 1 == parts.len() { 1 } else { 2 };
        let fits = |line: &str| shown::width(line) + 1 + shown::width(part) + commas <= room.unwrap_or(usize::MAX);
        match lines.last_mut() {
            Some(line) if fits(line) => {
                *line += &format!(", {part}");
            }
            Some(line) => {
                line.push(',');
                lines.push(format!("{GAP}{part}"));
            }
            None => lines.push(format!("{GAP}{part}")),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: Form = Form { heading: Heading::Plain, room: None };

    fn within(room: usize) -> Form {
        Form { room: Some(room), ..WHOLE }
    }

    /// Columns are aligned by their width on the screen, where some characters take two places.
    #[test]
    fn wide_names_keep_the_columns_straight() {
        let mut table = Table::new(["KEY", "WAITERS"], &[]);
        for key in ["予約:42", "orders:42", "e\u{301}"] {
            table.push([key.to_owned(), "1".to_owned()]);
        }
        assert_eq!(table.text(WHOLE), "KEY        WAITERS\n予約:42    1\norders:42  1\ne\u{301}          1\n");
    }

    fn waiters() -> Table<2> {
        let mut table = Table::new(["WAITER", "SIDE"], &[(0, 10)]);
        let place = ["session c3a90b14", "ticket 7", "client 812 at 10.0.0.7:50112"].map(str::to_owned).to_vec();
        table.push_with(["ann".to_owned(), "read".to_owned()], place);
        table.push(["bob".to_owned(), "write".to_owned()]);
        table
    }

    #[test]
    fn what_stands_below_a_row_is_broken_between_its_parts() {
        let text = waiters().text(within(40));
        assert!(text.contains("\n  session c3a90b14, ticket 7,\n  client 812 at 10.0.0.7:50112\nbob"), "{text}");
    }

    #[test]
    fn names_give_way_one_after_the_other() {
        let mut table = Table::new(["KEY", "HOLDER", "WAITERS"], &[(1, 12), (0, 8), (1, 8)]);
        let names = ["orders:of-the-north:42", "web-3:4711:5d0f3f0e:1", "1"];
        table.push(names.map(str::to_owned));
        let row = |room| table.text(within(room)).lines().nth(1).unwrap().to_owned();
        assert_eq!(row(54), names.join("  "));
        assert_eq!(row(48), "orders:of-the-north:42  web-3:4711…0e:1  1");
        for room in 27..54 {
            let text = table.text(within(room));
            assert!(text.lines().all(|line| shown::width(line) <= room), "{room}: {text}");
        }
        assert_eq!(row(27), "order…42  web-3…:1  1");
        assert_eq!(row(5), row(27), "less says nothing");
        assert!(!table.text(WHOLE).contains('…'));
    }
}
