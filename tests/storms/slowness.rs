//! How slow this machine is at the moment.
//!
//! The bounds of the storms are what the module promises on a quiet machine. On a slower machine they are longer, by as
//! much as the server's own commands take longer there: the module has no part in these.

use rlock_testing::Server;
use std::time::{Duration, Instant};

/// Where the bounds hold unchanged, this many of the server's own commands, sent together, take this long. A quiet virtual
/// machine of two processors took 20 to 42 ms.
const COMMANDS: usize = 10_000;
const COMMANDS_TAKE: Duration = Duration::from_millis(20);

/// The factor of the bounds; never below 1.
#[derive(Clone, Copy)]
pub struct Slowness(pub f64);

impl Slowness {
    /// The slowness now, times `RLOCK_SLOWNESS`: a build that checks itself sets it, as it slows such a module down more than
    /// the server's own commands.
    pub fn of(server: &Server) -> Self {
        let mut client = server.client();
        let began = Instant::now();
        client.say_all(std::iter::repeat_n("GET nothing", COMMANDS));
        let now = began.elapsed().div_duration_f64(COMMANDS_TAKE);
        let built = std::env::var("RLOCK_SLOWNESS").map_or(1.0, |times| times.parse().expect("a number"));
        Self(now.max(1.0) * built)
    }

    pub fn max(self, other: Self) -> Self {
        Self(self.0.max(other.0))
    }

    pub fn of_ms(self, ms: i64) -> i64 {
        i64::try_from(self.times(Duration::from_millis(ms.unsigned_abs())).as_millis()).unwrap()
    }

    pub fn times(self, bound: Duration) -> Duration {
        bound.mul_f64(self.0)
    }
}
