//! A check's result: the failure that it is about, in plain words, the servers, and the line that fixes it.

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// A failure would lose a lock, let two clients hold it, or stop everything.
    Wrong,
    /// It could not be checked, so it may be wrong.
    Unknown,
    /// A deliberate choice that has a cost.
    Note,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub level: Level,
    /// The setting or the part that it is about, for programs.
    pub about: &'static str,
    /// The servers, by their addresses.
    pub at: Vec<String>,
    pub what: String,
    /// A command for those servers, or a line of their configuration.
    pub fix: Option<String>,
}

impl Level {
    pub fn word(self) -> &'static str {
        match self {
            Self::Wrong => "wrong",
            Self::Unknown => "not known",
            Self::Note => "note",
        }
    }
}

impl Finding {
    pub fn wrong(about: &'static str, at: &str, what: impl Into<String>) -> Self {
        Self::new(Level::Wrong, about, at, what)
    }

    pub fn unknown(about: &'static str, at: &str, what: impl Into<String>) -> Self {
        Self::new(Level::Unknown, about, at, what)
    }

    pub fn note(about: &'static str, at: &str, what: impl Into<String>) -> Self {
        Self::new(Level::Note, about, at, what)
    }

    fn new(level: Level, about: &'static str, at: &str, what: impl Into<String>) -> Self {
        Self { level, about, at: vec![at.to_owned()], what: what.into(), fix: None }
    }

    pub fn fixed_by(self, line: impl Into<String>) -> Self {
        Self { fix: Some(line.into()), ..self }
    }

    /// Suggests setting what `about` names to this value.
    pub fn set(self, value: impl std::fmt::Display) -> Self {
        let line = format!("CONFIG SET {} {value}", self.about);
        self.fixed_by(line)
    }
}

/// Merges findings that are the same for several servers; the worst come first.
pub fn gathered(findings: Vec<Finding>) -> Vec<Finding> {
    let mut gathered: Vec<Finding> = Vec::new();
    for finding in findings {
        let is_same = |known: &&mut Finding| {
            let Finding { level, about, what, fix, .. } = known;
            (*level, *about, what, fix) == (finding.level, finding.about, &finding.what, &finding.fix)
        };
        match gathered.iter_mut().find(is_same) {
            Some(known) => known.at.extend(finding.at),
            None => gathered.push(finding),
        }
    }
    gathered.sort_by_key(|finding| finding.level);
    gathered
}
