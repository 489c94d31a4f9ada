//! One lock that a whole crowd waits for, under one who has it.

use crate::scene::Scene;
use crate::setting::AS_IT_COMES;
use rlock_testing::Reply;
use std::time::Duration;

pub const CROWD: usize = 8_000;

/// The longest that anyone may have to wait for an answer while a crowd leaves one queue: nothing here is a stroke of a
/// client's own that takes its time. On a quiet machine it is to be some 30 ms.
pub const LONGEST_SILENCE: Duration = Duration::from_millis(500);

/// How much later than it could the last of the crowd may be served.
pub const LATE_MS: i64 = 500;

pub const LEASE_MS: i64 = 600_000;

/// A crowd that has yet to ask for the lock `gate`, which `holder` has by this command.
pub fn held_by(command: &str) -> Scene {
    let mut scene = Scene::with(CROWD, AS_IT_COMES);
    assert_eq!(scene.client.say(&format!("{command} gate holder {LEASE_MS}")), Reply::Nil);
    scene
}
