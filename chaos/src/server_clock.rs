//! A server's own clock, which can be stepped while the machine's stays as it is.
//!
//! A library is preloaded into the server, where it adds an offset from a file to the time of day: see `chaos/clock`.

use nix::sys::mman::{MapFlags, ProtFlags, mmap};
use std::fs::OpenOptions;
use std::io::{self, ErrorKind};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, Ordering};

const LIBRARY: &str = "librlock_chaos_clock.so";
const FILE_VARIABLE: &str = "RLOCK_CHAOS_CLOCK";
const PRELOAD_VARIABLE: &str = "LD_PRELOAD";

/// One per server: every process started with its environment uses it, also after a crash.
#[derive(Debug)]
pub struct ServerClock {
    library: PathBuf,
    file: PathBuf,
    /// Mapped for as long as this process lives: a page for each server of a run is little.
    offset_ms: &'static AtomicI64,
}

impl ServerClock {
    /// A clock without an offset yet, with its own file. None if servers cannot have one: the library was not built, or
    /// servers run with the address sanitizer, which has to be loaded first itself.
    ///
    /// # Errors
    /// If the file cannot be made or mapped, or its path has a character that ends a path for the dynamic linker.
    pub fn new(file: &Path) -> io::Result<Option<Self>> {
        if std::env::var_os("ASAN_OPTIONS").is_some() {
            return Ok(None);
        }
        let Some(library) = built_library()? else { return Ok(None) };
        if library.to_str().is_none_or(|path| path.contains([':', ' '])) {
            return Err(io::Error::new(ErrorKind::InvalidInput, format!("{} cannot be preloaded", library.display())));
        }
        let offset_ms = new_file(file)?;
        Ok(Some(Self { library, file: file.canonicalize()?, offset_ms }))
    }

    /// The environment for the server's start.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let present = std::env::var(PRELOAD_VARIABLE).unwrap_or_default();
        let library = self.library.display();
        let preload = if present.is_empty() { library.to_string() } else { format!("{library}:{present}") };
        vec![(PRELOAD_VARIABLE, preload), (FILE_VARIABLE, self.file.display().to_string())]
    }

    /// Moves the clock, at once, forward or back.
    pub fn step(&self, by_ms: i64) {
        self.offset_ms.fetch_add(by_ms, Ordering::Relaxed);
    }

    /// Its offset from the machine's clock.
    pub fn offset_ms(&self) -> i64 {
        self.offset_ms.load(Ordering::Relaxed)
    }
}

/// Cargo puts a library that a program depends on next to the program or one directory deeper, where tests are, too.
fn built_library() -> io::Result<Option<PathBuf>> {
    let executable = std::env::current_exe()?.canonicalize()?;
    let near = executable.ancestors().skip(1).take(2);
    Ok(near.flat_map(|it| [it.join(LIBRARY), it.join("deps").join(LIBRARY)]).find(|it| it.is_file()))
}

fn new_file(path: &Path) -> io::Result<&'static AtomicI64> {
    // An earlier run may have left its file.
    let _ = std::fs::remove_file(path);
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
    let length = NonZeroUsize::new(size_of::<AtomicI64>()).expect("eight is not nought");
    file.set_len(length.get() as u64)?;
    let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
    // SAFETY: a mapping at a new address changes no memory of ours; it is as long as the file, and never unmapped.
    let place = unsafe { mmap(None, length, access, MapFlags::MAP_SHARED, &file, 0) }?;
    // SAFETY: it points to the beginning of a page, which is aligned and mapped for good; any eight bytes are a number.
    // Every process that maps the page uses it by atomic loads and stores only.
    Ok(unsafe { place.cast::<AtomicI64>().as_ref() })
}

#[cfg(test)]
mod tests {
    use super::ServerClock;
    use crate::history::Moment;
    use rlock_testing::{Client, Server, unix_ms};
    use std::process::Command;
    use tempfile::TempDir;

    /// More than a slow machine takes between two readings of a clock.
    const SLACK_MS: i64 = 10_000;
    const HOUR_MS: i64 = 3_600_000;

    fn server_with(clock: &ServerClock) -> Server {
        let start = Server::prepare().without_module();
        clock.environment().into_iter().fold(start, |start, (name, value)| start.environment(name, value)).start()
    }

    fn clock() -> Option<(TempDir, ServerClock)> {
        let directory = TempDir::new().unwrap();
        let clock = ServerClock::new(&directory.path().join("clock")).unwrap();
        assert_eq!(clock.is_none(), std::env::var_os("ASAN_OPTIONS").is_some(), "cargo builds the library");
        Some((directory, clock?))
    }

    fn is_off_by(client: &mut Client, offset_ms: i64) -> bool {
        (client.time_ms() - unix_ms() - offset_ms).abs() < SLACK_MS
    }

    #[test]
    fn the_steps_are_exact() {
        let Some((_directory, clock)) = clock() else { return };
        let server = server_with(&clock);
        let mut client = server.client();
        for step in [1_001, -999, -1_000_003, 7_000_999] {
            clock.step(step);
            let before = unix_ms() + clock.offset_ms();
            let now = client.time_ms();
            let after = unix_ms() + clock.offset_ms();
            assert!((before..=after).contains(&now), "{now} is not in {before}..={after}");
        }
    }

    #[test]
    fn seconds_step_as_well() {
        let Some((_directory, clock)) = clock() else { return };
        clock.step(-HOUR_MS);
        // LASTSAVE is the time of the server's start, in whole seconds.
        let last_save = server_with(&clock).client().say("LASTSAVE").as_int() * 1_000;
        assert!((last_save - unix_ms() + HOUR_MS).abs() < SLACK_MS);
    }

    /// Prints for the test below, which runs this one in its own process.
    #[test]
    fn prints_its_clocks() {
        println!("\nclocks: {} {}", unix_ms(), Moment::now().0);
    }

    #[test]
    fn only_the_time_of_day_steps() {
        let Some((_directory, clock)) = clock() else { return };
        clock.step(-HOUR_MS);
        let before = (unix_ms(), Moment::now());
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["prints_its_clocks", "--nocapture"])
            .envs(clock.environment())
            .output()
            .unwrap();
        let after = (unix_ms(), Moment::now());
        let printed = String::from_utf8(output.stdout).unwrap();
        let clocks = printed.lines().find_map(|line| line.strip_prefix("clocks: ")).unwrap();
        let (time_of_day, moment) = clocks.split_once(' ').unwrap();
        assert!((before.0..=after.0).contains(&(time_of_day.parse::<i64>().unwrap() + HOUR_MS)), "{printed}");
        assert!((before.1..=after.1).contains(&Moment(moment.parse().unwrap())), "{printed}");
    }

    #[test]
    fn a_server_that_comes_back_goes_by_the_same_clock_and_two_clocks_are_two() {
        let Some((directory, clock)) = clock() else { return };
        let other = ServerClock::new(&directory.path().join("other")).unwrap().unwrap();
        clock.step(HOUR_MS);
        assert_eq!((clock.offset_ms(), other.offset_ms()), (HOUR_MS, 0));
        assert!(is_off_by(&mut server_with(&clock).client(), HOUR_MS));
        assert!(is_off_by(&mut server_with(&other).client(), 0));
    }
}
