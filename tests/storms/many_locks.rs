//! As many locks as clients in the batch: one holder has them all, and each lock has one waiter.

use crate::follower::Follower;
use crate::scene::{Freed, Scene};
use crate::setting::Setting;
use crate::{LONGEST_SILENCE, is_ok};
use rlock_testing::Reply;

/// The lease of each waiter. The end of a lease minus this is the moment of its grant.
const LEASE_MS: i64 = 600_000;

const LOCKS: usize = 10_000;

pub struct ManyLocks {
    pub scene: Scene,
    pub keys: Vec<String>,
    follower: Option<Follower>,
}

impl ManyLocks {
    pub fn with(setting: Setting) -> Self {
        let scene = Scene::with(LOCKS, setting);
        let keys = (0..scene.size()).map(|number| format!("orders:{number}")).collect();
        let follower = setting.has_replica.then(|| Follower::of(&scene.server));
        Self { scene, keys, follower }
    }

    /// Holds all locks, and has a waiter for each.
    pub fn hold_and_wait(&mut self) {
        self.hold();
        self.wait();
    }

    pub fn wait(&mut self) {
        let Self { scene, keys, .. } = self;
        scene.wait(|number| format!("RLOCK.ACQUIRE {} waiter {LEASE_MS} WAIT 0", keys[number]));
    }

    pub fn hold(&mut self) {
        let taken = self.say_for_each(|key| format!("RLOCK.ACQUIRE {key} holder {LEASE_MS}"));
        assert!(taken.iter().all(|reply| *reply == Reply::Nil), "all locks are free");
    }

    pub fn say_for_each(&mut self, command: impl Fn(&str) -> String) -> Vec<Reply> {
        self.scene.client.say_all(self.keys.iter().map(|key| command(key)))
    }

    /// Frees the locks, and waits until all waiters are served. `free` returns for each lock when it was free, and when the
    /// time for its grant began. Both are by the server's clock, so a batch that reads slowly makes no difference.
    pub fn free(&mut self, name: &str, late_ms: i64, free: impl FnOnce(&mut Self) -> Vec<Freed>) {
        let storm = self.scene.storm(name);
        let freed = free(self);
        let seen = storm.pass(&mut self.scene);
        self.scene.assert_all_are_granted();
        let ends = self.say_for_each(|key| format!("PEXPIRETIME {key}"));
        let granted: Vec<_> = ends.iter().map(|end| end.as_int() - LEASE_MS).collect();
        seen.report_grants(LONGEST_SILENCE, late_ms, &freed, &granted);
        assert_eq!(self.scene.client.figure("waiters"), 0);
        if let Some(follower) = &self.follower {
            follower.agrees(&mut self.scene.client, &self.keys);
        }
    }

    pub fn clear(&mut self) {
        assert!(is_ok(&self.scene.client.say("FLUSHALL")));
    }
}
