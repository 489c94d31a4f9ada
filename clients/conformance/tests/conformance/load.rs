//! How late this machine wakes sleeping threads.
//!
//! Work that is due at a time needs some processes in turn, and each may have to wait for a processor. So each
//! bound grows by a few times the lateness of a sleeper meanwhile; on a quiet machine that is next to nothing.

use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

const NAP: Duration = Duration::from_millis(5);

/// The client's own threads, its program's threads, and the thread that reads what the program says.
const PROCESSES: u32 = 3;

/// How late anything may be on a machine that is not late: languages start, collect garbage, compile.
const LATENESS: Duration = Duration::from_millis(250);

/// When a nap ended, and how late that was.
type Naps = Mutex<Vec<(Instant, Duration)>>;

static NAPS: LazyLock<&'static Naps> = LazyLock::new(|| {
    let naps: &'static Naps = Box::leak(Box::default());
    thread::spawn(move || {
        loop {
            let due = Instant::now() + NAP;
            thread::sleep(NAP);
            let nap = (Instant::now(), due.elapsed());
            naps.lock().unwrap_or_else(PoisonError::into_inner).push(nap);
        }
    });
    naps
});

/// Begins to take naps.
pub fn watch() {
    LazyLock::force(&NAPS);
}

/// How late something that began at that time may be. After a stall a test may run before the sleeper does, so the nap that
/// goes on ends first.
pub fn lateness_since(begin: Instant) -> Duration {
    let now = Instant::now();
    loop {
        let naps = NAPS.lock().unwrap_or_else(PoisonError::into_inner);
        if naps.last().is_some_and(|(end, _)| *end > now) {
            let since = naps.iter().rev().take_while(|(end, _)| *end >= begin).map(|(_, late)| *late);
            return LATENESS + since.filter(|late| *late > NAP).max().unwrap_or_default() * PROCESSES;
        }
        drop(naps);
        thread::sleep(NAP);
    }
}

/// # Panics
/// If it took longer than the limit and this machine's lateness together.
pub fn assert_within(what: &str, begin: Instant, limit: Duration, end: Instant) {
    let took = end.saturating_duration_since(begin);
    if took > limit {
        let late = lateness_since(begin);
        assert!(took <= limit + late, "{what}: it took {took:?}, and not {limit:?}, where {late:?} may be added");
    }
}

/// Polls until the condition holds.
///
/// # Panics
/// If it does not hold within the limit and this machine's lateness together.
pub fn wait_within(limit: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert_within(what, begin, limit, Instant::now());
        thread::sleep(Duration::from_millis(1));
    }
}
