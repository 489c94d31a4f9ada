//! What a server has of connections and of memory while something is done with it: the most that is seen.

use crate::waiters::told_by_info;
use rlock_testing::Client;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// So often that little passes unseen, and so seldom that it costs next to nothing beside what is measured.
const EACH: Duration = Duration::from_millis(25);

#[derive(Clone, Copy, Default)]
pub struct Most {
    /// Without the one that looks.
    pub connections: f64,
    pub memory: f64,
}

/// Does the work, and looks on meanwhile.
pub fn during<T>(client: &mut Client, work: impl FnOnce() -> T) -> (T, Most) {
    thread::scope(|scope| {
        let (end, ended) = channel::<()>();
        let watch = scope.spawn(move || {
            let mut most = Most::default();
            loop {
                most.look(client);
                if ended.recv_timeout(EACH) != Err(RecvTimeoutError::Timeout) {
                    return most;
                }
            }
        });
        let done = work();
        drop(end);
        (done, watch.join().expect("the server answers"))
    })
}

pub fn memory(client: &mut Client) -> f64 {
    told_by_info(client, "memory", "used_memory")
}

impl Most {
    fn look(&mut self, client: &mut Client) {
        let connections = told_by_info(client, "clients", "connected_clients") - 1.0;
        *self = Self { connections: self.connections.max(connections), memory: self.memory.max(memory(client)) };
    }
}
