//! Whether a server that keeps somebody waiting still runs. One that stands still leaves its connections open, and a wait
//! on it would never end; so it is asked now and then, once for all who wait.

use super::fault::Fault;
use super::node::{Lane, Node};
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::{Instant, sleep};

#[derive(Default)]
pub(crate) struct Pulse(AsyncMutex<Option<Beat>>);

/// What came of asking the last time.
struct Beat {
    felt_at: Instant,
    alive: bool,
}

impl Node {
    /// Resolves when the server has not answered for as long as an answer may take.
    pub(crate) async fn stands_still(&self) {
        let pause = self.limits().answer;
        loop {
            sleep(pause).await;
            let mut last = self.pulse.0.lock().await;
            let beat = match last.take().filter(|beat| beat.felt_at.elapsed() < pause) {
                Some(beat) => beat,
                None => Beat { alive: self.answers().await, felt_at: Instant::now() },
            };
            if !last.insert(beat).alive {
                return;
            }
        }
    }

    /// Any answer will do, be it an error. A connection that is refused or broken is told to the wait by its own.
    async fn answers(&self) -> bool {
        let mut line = match self.line(Lane::Shared).await {
            Ok(line) => line,
            Err(fault) => return fault.is_prompt(),
        };
        let answer = line.send(&redis::cmd("PING"), Some(self.limits().answer)).await;
        if answer.as_ref().is_err_and(Fault::doubts_the_server) {
            self.discard(&line);
        }
        answer.err().is_none_or(|fault| fault.is_prompt())
    }
}
