//! INFO, looked up by the names of its lines.

use crate::Client;

/// What INFO said at one moment.
#[derive(Debug, PartialEq, Eq)]
pub struct Info(String);

impl Info {
    /// All lines, each as its name and its value.
    pub fn lines(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.lines().filter_map(|line| line.split_once(':'))
    }

    pub fn find(&self, name: &str) -> Option<&str> {
        self.lines().find(|line| line.0 == name).map(|line| line.1)
    }

    /// # Panics
    /// If there is no such line, or no whole number in it.
    pub fn number(&self, name: &str) -> i64 {
        let number = self.find(name).and_then(|value| value.parse().ok());
        number.unwrap_or_else(|| panic!("INFO has no number {name}: {}", self.0))
    }
}

impl From<&str> for Info {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl Client {
    /// A section of INFO; `everything` is all of them.
    pub fn info(&mut self, section: &str) -> Info {
        Info::from(self.run(&["INFO", section]).as_text())
    }

    /// A number that the module reports, by its name without `rlock_`.
    pub fn figure(&mut self, name: &str) -> i64 {
        self.figures([name])[0]
    }

    /// Several of these, as they were at one moment.
    pub fn figures<const COUNT: usize>(&mut self, names: [&str; COUNT]) -> [i64; COUNT] {
        let info = self.info("rlock");
        names.map(|name| info.number(&format!("rlock_{name}")))
    }
}
