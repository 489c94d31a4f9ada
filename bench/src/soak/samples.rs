//! The samples of a run: lines of numbers below a line with their names; and the verdict on them.

use std::io;
use std::path::Path;

/// What the server must not have after the load, by INFO rlock.
pub const LEFT: [&str; 5] = ["waiters", "tickets", "sessions", "locks_with_waiters", "events_unacknowledged"];

/// By how many bytes the medians of these may grow from the second tenth of a run to its last.
///
/// Memory in use varies by some ten KiB between the tenths of a run, with the keys and buffers of the moment. A leak of 64
/// bytes a second exceeds the limit in an hour and a half, and one of a byte a command in minutes. Resident memory also has
/// free pages that the allocator keeps; its limit is for leaks past the server's allocator.
pub const MAY_GROW: [(&str, i64); 2] = [("used_memory", 256 << 10), ("rss", 4 << 20)];

/// What a run ended with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct End {
    /// The leftovers, and their number.
    pub left: Vec<(String, u64)>,
    /// Replies that no client should get, and how many.
    pub unexpected: Vec<(String, u64)>,
}

impl End {
    pub fn line(&self) -> String {
        let marked = |mark: &'static str| move |(what, times): &(String, u64)| format!("\t{mark}{times} {what}");
        let parts = self.left.iter().map(marked("left ")).chain(self.unexpected.iter().map(marked("got ")));
        format!("# end{}", parts.collect::<String>())
    }

    fn read(line: &str) -> Option<Self> {
        let marked = |mark: &str| {
            let parts = line.split('\t').filter_map(|part| part.strip_prefix(mark)?.split_once(' '));
            parts.map(|(times, what)| Some((what.to_owned(), times.parse().ok()?))).collect::<Option<_>>()
        };
        Some(Self { left: marked("left ")?, unexpected: marked("got ")? })
    }
}

/// One run.
pub struct Samples {
    pub server: String,
    pub commit: String,
    names: Vec<String>,
    rows: Vec<Vec<u64>>,
    /// None if the run was killed.
    pub end: Option<End>,
}

/// All runs of a directory, by the names of their files.
///
/// # Errors
/// If a file cannot be read or is not a run.
pub fn read_all(directory: &Path) -> io::Result<Vec<Samples>> {
    let entries: io::Result<Vec<_>> = std::fs::read_dir(directory)?.map(|entry| entry.map(|it| it.path())).collect();
    let mut files: Vec<_> = entries?.into_iter().filter(|it| it.extension().is_some_and(|end| end == "tsv")).collect();
    files.sort();
    let runs = files.iter().map(|file| {
        let text = std::fs::read_to_string(file)?;
        Samples::read(&text).ok_or_else(|| io::Error::other(format!("{} has no samples", file.display())))
    });
    runs.collect()
}

impl Samples {
    fn read(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let (server, commit) = lines.next()?.strip_prefix("# ")?.split_once('\t')?;
        let names: Vec<_> = lines.next()?.split('\t').map(str::to_owned).collect();
        // A run that was killed may have left half a line.
        let row = |line: &str| line.split('\t').map(|number| number.parse().ok()).collect::<Option<Vec<_>>>();
        let rows: Vec<_> = lines.clone().filter_map(row).filter(|row| row.len() == names.len()).collect();
        let end = lines.find_map(|line| End::read(line.strip_prefix("# end")?));
        (!rows.is_empty()).then(|| Self { server: server.to_owned(), commit: commit.to_owned(), names, rows, end })
    }

    /// # Panics
    /// If samples have no such number.
    pub fn all(&self, name: &str) -> Vec<u64> {
        let place = self.names.iter().position(|it| it == name).unwrap_or_else(|| panic!("samples have no {name}"));
        self.rows.iter().map(|row| row[place]).collect()
    }

    pub fn last(&self, name: &str) -> u64 {
        self.all(name).last().copied().unwrap_or_default()
    }

    pub fn highest(&self, name: &str) -> u64 {
        self.all(name).into_iter().max().unwrap_or_default()
    }

    pub fn median(&self, name: &str) -> u64 {
        median(&self.all(name))
    }

    /// The medians of the second tenth of the run and of the last. In the first tenth the server warms up.
    pub fn tenths(&self, name: &str) -> [i64; 2] {
        let all = self.all(name);
        let tenth = all.len().div_ceil(10);
        let early = all[tenth.min(all.len() - 1)..].iter().copied().take(tenth).collect::<Vec<_>>();
        [median(&early), median(&all[all.len() - tenth..])].map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX))
    }

    /// Everything that is wrong with this run.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for (name, limit) in MAY_GROW {
            let [early, late] = self.tenths(name);
            if late - early > limit {
                faults.push(format!("{name} has grown by {} bytes, and may by {limit}", late - early));
            }
        }
        // Without load nothing would grow, so a stall of the load is a fault, too.
        let pause = self.all("grants").windows(2).filter(|pair| pair[0] >= pair[1]).count();
        if pause * 100 > self.rows.len() {
            faults.push(format!("the load stalled: no grant in {pause} of {} samples", self.rows.len()));
        }
        let listed = |all: &[(String, u64)]| {
            all.iter().map(|(what, times)| format!("{times} {what}")).collect::<Vec<_>>().join(", ")
        };
        match &self.end {
            None => faults.push("the run was killed, so what it leaves behind is unknown".to_owned()),
            Some(end) => {
                if !end.left.is_empty() {
                    faults.push(format!("left over: {}", listed(&end.left)));
                }
                if !end.unexpected.is_empty() {
                    faults.push(format!("replies that no client should get: {}", listed(&end.unexpected)));
                }
            }
        }
        faults.into_iter().map(|fault| format!("{}: {fault}", self.server)).collect()
    }
}

fn median(numbers: &[u64]) -> u64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: fn(u64) -> [u64; 3] = |number| [3_000_000 + 90_000 * (number % 3), 15_000_000, 40 * number];

    /// The faults of a run of a hundred samples with this memory in use, resident memory and grants.
    fn faults(sample: impl Fn(u64) -> [u64; 3], end: Option<&End>) -> Vec<String> {
        let mut text = "# Redis 9.9\tabc\nused_memory\trss\tgrants\n".to_owned();
        for number in 0..100 {
            text += &(sample(number).map(|it| it.to_string()).join("\t") + "\n");
        }
        // Half a line, as a kill may leave it.
        text += &end.map_or("3000000\t150".to_owned(), End::line);
        let run = Samples::read(&text).unwrap();
        assert_eq!((run.server.as_str(), run.commit.as_str(), run.rows.len()), ("Redis 9.9", "abc", 100));
        assert_eq!(run.end.as_ref(), end);
        run.faults().into_iter().map(|fault| fault.strip_prefix("Redis 9.9: ").unwrap().to_owned()).collect()
    }

    #[test]
    fn a_run_that_warms_up_and_stays_there_has_no_fault() {
        let warm = |number| if number < 10 { [1_000_000, 9_000_000, 40 * number] } else { QUIET(number) };
        assert_eq!(faults(warm, Some(&End::default())), [""; 0]);
    }

    #[test]
    fn memory_that_grows_is_a_fault() {
        let leaks = |number| [3_000_000 + 3_400 * number, 15_000_000, number];
        let grown = "used_memory has grown by 272000 bytes, and may by 262144";
        assert_eq!(faults(leaks, Some(&End::default())), [grown]);
        let little = |number| [3_000_000 + 3_200 * number, 15_000_000, number];
        assert_eq!(faults(little, Some(&End::default())), [""; 0], "256,000 bytes");
    }

    #[test]
    fn resident_memory_that_grows_is_a_fault() {
        let leaks = |number| [3_000_000, 15_000_000 + 60_000 * number, number];
        assert_eq!(faults(leaks, Some(&End::default())), ["rss has grown by 4800000 bytes, and may by 4194304"]);
    }

    #[test]
    fn what_is_left_over_is_a_fault() {
        let end = End { left: vec![("tickets".to_owned(), 2), ("keys".to_owned(), 1)], ..End::default() };
        assert_eq!(faults(QUIET, Some(&end)), ["left over: 2 tickets, 1 keys"]);
    }

    #[test]
    fn an_unexpected_reply_is_a_fault() {
        let end = End { unexpected: vec![("WRONGKIND orders:1 is".to_owned(), 3)], ..End::default() };
        assert_eq!(faults(QUIET, Some(&end)), ["replies that no client should get: 3 WRONGKIND orders:1 is"]);
    }

    #[test]
    fn a_load_that_stalls_is_a_fault() {
        let stalls = |number: u64| [3_000_000, 15_000_000, number.min(90)];
        assert_eq!(faults(stalls, Some(&End::default())), ["the load stalled: no grant in 9 of 100 samples"]);
    }

    #[test]
    fn what_a_killed_run_leaves_is_unknown() {
        assert_eq!(faults(QUIET, None), ["the run was killed, so what it leaves behind is unknown"]);
    }
}
