//! Columns of text, each as wide as its widest cell.

/// Whether the heading stands out, as it does on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heading {
    Plain,
    Bold,
}

pub struct Table<const COLUMNS: usize> {
    heading: [&'static str; COLUMNS],
    rows: Vec<[String; COLUMNS]>,
}

impl<const COLUMNS: usize> Table<COLUMNS> {
    pub fn new(heading: [&'static str; COLUMNS]) -> Self {
        Self { heading, rows: Vec::new() }
    }

    pub fn push(&mut self, row: [String; COLUMNS]) {
        self.rows.push(row);
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub fn text(&self, heading: Heading) -> String {
        let words = self.line(&self.heading);
        let first = match heading {
            Heading::Bold => format!("\x1b[1m{words}\x1b[0m"),
            Heading::Plain => words,
        };
        let rows = self.rows.iter().map(|row| self.line(row));
        std::iter::once(first).chain(rows).map(|line| line + "\n").collect()
    }

    fn line<T: AsRef<str>>(&self, cells: &[T; COLUMNS]) -> String {
        let cells = cells.iter().enumerate().map(|(column, cell)| format!("{:<1$}", cell.as_ref(), self.width(column)));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    }

    fn width(&self, column: usize) -> usize {
        let rows = self.rows.iter().map(|row| row[column].chars().count());
        rows.chain([self.heading[column].len()]).max().unwrap_or_default()
    }
}
