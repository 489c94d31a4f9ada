//! One lock that a whole batch waits for, with one holder.

use crate::scene::Scene;
use crate::setting::AS_IT_COMES;
use rlock_testing::Reply;
use std::time::Duration;

pub const BATCH: usize = 8_000;

/// How long any client may have to wait for an answer while a batch leaves one queue: here no client's own command
/// takes long. On a quiet machine it should be about 30 ms.
pub const LONGEST_SILENCE: Duration = Duration::from_millis(500);

/// How much later than possible the last of the batch may be served.
pub const LATE_MS: i64 = 500;

pub const LEASE_MS: i64 = 600_000;

/// A batch that has yet to ask for the lock `gate`, which `holder` acquired by this command.
pub fn held_by(command: &str) -> Scene {
    let mut scene = Scene::with(BATCH, AS_IT_COMES);
    assert_eq!(scene.client.say(&format!("{command} gate holder {LEASE_MS}")), Reply::Nil);
    scene
}
