//! How late this machine wakes sleeping threads.
//!
//! Work that is due at a time needs some processes in turn, and each may have to wait for a processor. So each
//! bound grows by a few times the lateness of a sleeper meanwhile; on a quiet machine that is next to nothing.

use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

const NAP: Duration = Duration::from_millis(5);

/// The client's own threads, its program's threads, and the thread that reads what the program says.
const PROCESSES: u32 = 3;

/// How late anything may be on a machine that is not late: languages start, collect garbage, compile.
const LATENESS: Duration = Duration::from_millis(250);

#[derive(Default)]
struct Taken {
    /// When a nap ended, and how late that was.
    late: Vec<(Instant, Duration)>,
    count: u64,
}

type Naps = Mutex<Taken>;

static NAPS: LazyLock<&'static Naps> = LazyLock::new(|| {
    let naps: &'static Naps = Box::leak(Box::default());
    thread::spawn(move || {
        loop {
            let due = Instant::now() + NAP;
            thread::sleep(NAP);
            let late = due.elapsed();
            let mut taken = naps.lock().unwrap_or_else(PoisonError::into_inner);
            taken.count += 1;
            if late > NAP {
                taken.late.push((Instant::now(), late));
            }
        }
    });
    naps
});

/// Begins to take naps.
pub fn watch() {
    LazyLock::force(&NAPS);
}

fn taken() -> MutexGuard<'static, Taken> {
    NAPS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How late something that began at that time may be. The nap that goes on may be late, too, so it ends first.
pub fn lateness_since(begin: Instant) -> Duration {
    let before = taken().count;
    while taken().count == before {
        thread::sleep(NAP);
    }
    let worst = taken().late.iter().filter(|(end, _)| *end >= begin).map(|(_, late)| *late).max();
    LATENESS + worst.unwrap_or_default() * PROCESSES
}

/// # Panics
/// If it took longer than the limit and this machine's lateness together.
pub fn assert_within(what: &str, begin: Instant, limit: Duration, end: Instant) {
    let (took, late) = (end.saturating_duration_since(begin), lateness_since(begin));
    assert!(took <= limit + late, "{what}: it took {took:?}, and not {limit:?}, where {late:?} may be added");
}

/// Polls until the condition holds.
///
/// # Panics
/// If it does not hold within the limit and this machine's lateness together.
pub fn wait_within(limit: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        let now = Instant::now();
        if now.saturating_duration_since(begin) > limit {
            assert_within(what, begin, limit, now);
        }
        thread::sleep(Duration::from_millis(1));
    }
}
