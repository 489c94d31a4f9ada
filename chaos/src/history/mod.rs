//! What a run leaves behind: each thing that a client, a fault or an observer did, with the moment when it did it.
//!
//! Every process of a run writes a file of its own, a JSON object a line, in one system call each: so a process that is
//! killed has written all that it did before. All use the one clock of the machine, and the files are read together.

mod clock;
mod journal;
mod operation;
mod sample;
mod session;
mod trouble;

pub use clock::Moment;
pub use journal::{Journal, read_all};
pub use operation::{Answer, Call, Operation, Request, Side, pair};
pub use sample::{Holding, Sample, Waiting, WaitsBy};
pub use session::{Event, Poll, Told};
pub use trouble::{Reach, Trouble};

use serde::{Deserialize, Serialize};

/// One line of a journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Record {
    /// A client is about to send this.
    Called(Call),
    /// The call with that number, of that client, was answered. One that never is may have done its work or not.
    Answered { at: Moment, client: String, number: u64, answer: Answer },
    /// The call with that number, of that client, waits by a ticket now: what becomes of it is told later.
    Queued { at: Moment, client: String, number: u64 },
    /// A process is about to say this to its session.
    Polled(Poll),
    /// The poll with that number, of that session, was answered.
    Heard { at: Moment, session: String, number: u64, told: Told },
    /// `rlock-client` said at this moment that the lock of the call with that number is held until then.
    Vouched { at: Moment, client: String, number: u64, until: Moment },
    /// The work under that call is over, or its loss was told: nothing is vouched for from here on.
    Ended { at: Moment, client: String, number: u64 },
    /// Somebody looked at a lock.
    Seen(Sample),
    /// Somebody made trouble.
    Troubled(Trouble),
    /// From one moment to the other the server could certainly not write: it had said so, and was not told otherwise yet.
    Forbade { from: Moment, until: Moment, server: String, what: String },
    /// A figure of the run that is no promise: the longest silence of a server, say.
    Measured { at: Moment, what: String, value: f64 },
    /// A promise was seen broken while it happened: a server that ended by itself, what was left at the end.
    Broken { at: Moment, promise: String, what: String },
}
