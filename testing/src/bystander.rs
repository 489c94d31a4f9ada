//! A client that has nothing to do with locks, but still needs the server's answers.

use crate::Server;
use crate::processor::{self, Wanted};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub struct Bystander {
    has_seen_enough: Arc<AtomicBool>,
    thread: JoinHandle<Testimony>,
}

pub struct Testimony {
    /// The longest time to an answer, minus the time in which the server or this client had no processor.
    pub silence: Duration,
    /// When the server wanted a processor and had none.
    pub wanted: Wanted,
}

impl Bystander {
    /// Starts to send PING to the server, about once a ms.
    pub fn of(server: &Server) -> Self {
        let (mut client, process) = (server.client(), server.id());
        let has_seen_enough = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&has_seen_enough);
        let mut wanted = Wanted::by(process);
        let thread = std::thread::spawn(move || {
            let mut silence = Duration::ZERO;
            while !stop.load(Ordering::Relaxed) {
                let (asked, before, here) = (Instant::now(), wanted.look(), processor::was_wanted_here());
                let is_served = client.is_served();
                let no_processor = (wanted.look() - before) + (processor::was_wanted_here() - here);
                silence = silence.max(asked.elapsed().saturating_sub(no_processor));
                if !is_served {
                    // The rest of the test notices that as well.
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            Testimony { silence, wanted }
        });
        Self { has_seen_enough, thread }
    }

    pub fn into_testimony(self) -> Testimony {
        self.has_seen_enough.store(true, Ordering::Relaxed);
        self.thread.join().expect("a bystander only looks")
    }
}
