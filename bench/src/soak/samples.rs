//! The samples of a run: a line of numbers each, below one with their names; and what they say of the run.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;
use std::path::Path;

const NAMES: [&str; 14] = [
    "seconds",
    "used_memory",
    "rss",
    "keys",
    "waiters",
    "tickets",
    "sessions",
    "grants",
    "commands",
    "cpu_ms",
    "pings",
    "ping_p99_us",
    "ping_max_us",
    "unexpected",
];

pub const SECONDS: usize = 0;
pub const MEMORY: usize = 1;
pub const RSS: usize = 2;
pub const WAITERS: usize = 4;
pub const SESSIONS: usize = 6;
pub const GRANTS: usize = 7;
pub const COMMANDS: usize = 8;
pub const CPU: usize = 9;
pub const PINGS: usize = 10;
pub const P99: usize = 11;
pub const LONGEST: usize = 12;
const UNEXPECTED: usize = 13;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample(pub [u64; NAMES.len()]);

impl Sample {
    pub fn line(&self) -> String {
        self.0.map(|number| number.to_string()).join("\t")
    }

    fn read(line: &str) -> Option<Self> {
        let numbers: Option<Vec<_>> = line.split('\t').map(|number| number.parse().ok()).collect();
        Some(Self(numbers?.try_into().ok()?))
    }
}

/// Waiters, tickets, sessions, and keys that are no fencing counters, after the load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct End(pub [u64; 4]);

pub fn heading(server: &str, commit: &str) -> String {
    format!("# {server}\t{commit}\n# {}", NAMES.join("\t"))
}

pub fn end_line(end: &End, unexpected: &BTreeMap<String, u64>) -> String {
    let mut line = format!("# end\t{}", end.0.map(|number| number.to_string()).join("\t"));
    for (what, times) in unexpected {
        let _ = write!(line, "\t{what}: {times}");
    }
    line
}

/// One run.
pub struct Samples {
    pub server: String,
    pub commit: String,
    pub all: Vec<Sample>,
    /// None if the run was cut short.
    pub end: Option<End>,
    pub unexpected: Vec<String>,
}

/// All runs of a directory, by the names of their files.
///
/// # Errors
/// If a file cannot be read or is no run.
pub fn read_all(directory: &Path) -> io::Result<Vec<Samples>> {
    let entries: io::Result<Vec<_>> = std::fs::read_dir(directory)?.map(|entry| entry.map(|it| it.path())).collect();
    let mut files: Vec<_> = entries?.into_iter().filter(|it| it.extension().is_some_and(|end| end == "tsv")).collect();
    files.sort();
    files
        .iter()
        .map(|file| {
            let text = std::fs::read_to_string(file)?;
            Samples::read(&text).ok_or_else(|| io::Error::other(format!("{} has no samples", file.display())))
        })
        .collect()
}

/// How much `used_memory` may grow between the second tenth of a run and its last. It varies by some hundred KiB with the
/// clients' buffers. An hour has two million commands, so a leak of one byte per command exceeds this.
const MEMORY_MAY_GROW: i64 = 1 << 20;

impl Samples {
    fn read(text: &str) -> Option<Self> {
        let (server, commit) = text.lines().next()?.strip_prefix("# ")?.split_once('\t')?;
        let end: Vec<_> =
            text.lines().find_map(|line| line.strip_prefix("# end\t")).unwrap_or_default().split('\t').collect();
        let left: Vec<_> = end.iter().take(4).filter_map(|number| number.parse().ok()).collect();
        let samples = Self {
            server: server.to_owned(),
            commit: commit.to_owned(),
            all: text.lines().filter_map(Sample::read).collect(),
            end: left.try_into().ok().map(End),
            unexpected: end.iter().skip(4).map(|what| (*what).to_owned()).collect(),
        };
        (!samples.all.is_empty()).then_some(samples)
    }

    pub fn last(&self, what: usize) -> u64 {
        self.all.last().map_or(0, |sample| sample.0[what])
    }

    pub fn highest(&self, what: usize) -> u64 {
        self.all.iter().map(|sample| sample.0[what]).max().unwrap_or_default()
    }

    pub fn median(&self, what: usize) -> u64 {
        median(&self.all, what)
    }

    /// How much a figure has grown: from the median of the second tenth, as the first one warms up, to that of the last.
    pub fn growth(&self, what: usize) -> i64 {
        let tenth = (self.all.len() / 10).max(1);
        let late = &self.all[self.all.len() - tenth..];
        let early = &self.all[tenth.min(self.all.len() - 1)..(2 * tenth).clamp(1, self.all.len())];
        let signed = |number| i64::try_from(number).unwrap_or(i64::MAX);
        signed(median(late, what)) - signed(median(early, what))
    }

    /// What is not as it should be.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let growth = self.growth(MEMORY);
        if growth > MEMORY_MAY_GROW {
            faults.push(format!("{}: its memory has grown by {growth} bytes", self.server));
        }
        match &self.end {
            None => faults.push(format!("{}: the run was cut short, so what it leaves behind is unknown", self.server)),
            Some(End(left)) if *left != [0; 4] => {
                let [waiters, tickets, sessions, keys] = left;
                faults.push(format!(
                    "{}: left over: {waiters} waiters, {tickets} tickets, {sessions} sessions, {keys} keys",
                    self.server
                ));
            }
            Some(_) => {}
        }
        if self.last(UNEXPECTED) > 0 || !self.unexpected.is_empty() {
            let what = self.unexpected.join("; ");
            faults.push(format!("{}: clients got replies that they should not get: {what}", self.server));
        }
        faults
    }
}

fn median(samples: &[Sample], what: usize) -> u64 {
    let mut numbers: Vec<_> = samples.iter().map(|sample| sample.0[what]).collect();
    numbers.sort_unstable();
    numbers.get(numbers.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run of a hundred samples with this memory, and what it ended with.
    fn run(memory: impl Fn(u64) -> u64, end: &str) -> Samples {
        let lines: Vec<_> = (0..100)
            .map(|number| {
                let mut sample = Sample([0; NAMES.len()]);
                (sample.0[SECONDS], sample.0[MEMORY]) = (5 * number, memory(number));
                sample.line()
            })
            .collect();
        Samples::read(&format!("{}\n{}\n{end}\n", heading("Redis 9.9", "abc"), lines.join("\n"))).unwrap()
    }

    fn ended() -> String {
        end_line(&End::default(), &BTreeMap::new())
    }

    #[test]
    fn a_run_that_warms_up_and_stays_there_has_no_fault() {
        let good = run(|number| if number < 10 { 1_000_000 } else { 9_000_000 + 100_000 * (number % 3) }, &ended());
        assert_eq!(good.faults(), [""; 0]);
        assert_eq!((good.server.as_str(), good.commit.as_str(), good.all.len()), ("Redis 9.9", "abc", 100));
    }

    #[test]
    fn a_leak_is_a_fault() {
        let leaking = run(|number| 9_000_000 + 20_000 * number, &ended());
        assert_eq!(leaking.faults(), ["Redis 9.9: its memory has grown by 1600000 bytes"]);
    }

    #[test]
    fn what_is_left_over_is_a_fault() {
        let left = run(|_| 1, &end_line(&End([0, 2, 1, 0]), &BTreeMap::new()));
        assert_eq!(left.faults(), ["Redis 9.9: left over: 0 waiters, 2 tickets, 1 sessions, 0 keys"]);
    }

    #[test]
    fn an_unexpected_reply_is_a_fault() {
        let unexpected = BTreeMap::from([("WRONGKIND key is".to_owned(), 3)]);
        let run = run(|_| 1, &end_line(&End::default(), &unexpected));
        assert_eq!(run.faults(), ["Redis 9.9: clients got replies that they should not get: WRONGKIND key is: 3"]);
    }

    #[test]
    fn what_a_run_that_was_cut_short_leaves_is_unknown() {
        assert_eq!(run(|_| 1, "").faults().len(), 1);
    }
}
