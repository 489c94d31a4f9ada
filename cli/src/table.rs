//! Columns of text, each as wide as its widest cell. What has no room in the columns stands in a line below its row.

use crate::shown;

/// Whether the heading stands out, as it does on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heading {
    Plain,
    Bold,
}

pub struct Table<const COLUMNS: usize> {
    heading: [&'static str; COLUMNS],
    rows: Vec<Row<COLUMNS>>,
}

struct Row<const COLUMNS: usize> {
    cells: [String; COLUMNS],
    below: Option<String>,
}

impl<const COLUMNS: usize> Table<COLUMNS> {
    pub fn new(heading: [&'static str; COLUMNS]) -> Self {
        Self { heading, rows: Vec::new() }
    }

    pub fn push(&mut self, cells: [String; COLUMNS]) {
        self.rows.push(Row { cells, below: None });
    }

    pub fn push_with(&mut self, cells: [String; COLUMNS], below: String) {
        self.rows.push(Row { cells, below: Some(below) });
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn text(&self, heading: Heading) -> String {
        let widths = std::array::from_fn(|column| self.width(column));
        let words = line(&self.heading, &widths);
        let first = match heading {
            Heading::Bold => format!("\x1b[1m{words}\x1b[0m"),
            Heading::Plain => words,
        };
        let rows = self.rows.iter().flat_map(|row| {
            let below = row.below.as_ref().map(|below| format!("  {below}"));
            std::iter::once(line(&row.cells, &widths)).chain(below)
        });
        std::iter::once(first).chain(rows).map(|line| line + "\n").collect()
    }

    fn width(&self, column: usize) -> usize {
        let rows = self.rows.iter().map(|row| shown::width(&row.cells[column]));
        rows.chain([self.heading[column].len()]).max().unwrap_or_default()
    }
}

fn line<const COLUMNS: usize>(cells: &[impl AsRef<str>; COLUMNS], widths: &[usize; COLUMNS]) -> String {
    let cells = cells.iter().zip(widths).map(|(cell, width)| {
        let free = width.saturating_sub(shown::width(cell.as_ref()));
        format!("{}{:free$}", cell.as_ref(), "")
    });
    cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Columns begin where they begin on the screen, where some characters take two places.
    #[test]
    fn wide_names_keep_the_columns_straight() {
        let mut table = Table::new(["KEY", "WAITERS"]);
        for key in ["予約:42", "orders:42", "e\u{301}"] {
            table.push([key.to_owned(), "1".to_owned()]);
        }
        assert_eq!(table.text(Heading::Plain), "KEY        WAITERS\n予約:42    1\norders:42  1\ne\u{301}          1\n");
    }

    #[test]
    fn what_stands_below_a_row_makes_no_column_wider() {
        let mut table = Table::new(["WAITER", "SIDE"]);
        table.push_with(["ann".to_owned(), "read".to_owned()], "client 812 at 10.0.0.7:50112".to_owned());
        table.push(["bob".to_owned(), "write".to_owned()]);
        let expected = "WAITER  SIDE\nann     read\n  client 812 at 10.0.0.7:50112\nbob     write\n";
        assert_eq!(table.text(Heading::Plain), expected);
    }
}
