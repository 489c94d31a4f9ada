//! Doubt: requests that were sent and have no reply. **What is unknown is not called success.** As long as the server
//! may have executed such a request, an attempt may have been granted, a hold may be larger than its guards, and a
//! release may not be the one that released the lock. In the first two cases the client releases again; in the third
//! the release fails as *in doubt*.

use super::fault::{Fault, What};
use crate::error::Cause;

#[derive(Clone, Default)]
pub(super) struct Doubt {
    /// Overdue replies that may still come.
    overdue: u32,
    /// Why a reply will never come, or says nothing.
    cause: Option<Cause>,
}

impl Doubt {
    /// A request has no reply: the reply is overdue, or was lost with the connection.
    pub fn add_unanswered(&mut self, fault: &Fault) {
        if fault.is_overdue() {
            self.overdue += 1;
        } else if fault.what == What::Silent {
            self.make_permanent(&fault.cause);
        }
    }

    /// Gives up a request while its reply is under way.
    pub fn add_given_up(&mut self) {
        self.overdue += 1;
    }

    /// An overdue reply has come, or never will.
    pub fn settle_one<T>(&mut self, reply: &Result<T, Fault>) {
        self.overdue = self.overdue.saturating_sub(1);
        if let Err(Fault { what: What::Silent, cause, .. }) = reply {
            self.make_permanent(cause);
        }
    }

    /// For this reason the outcome will stay unknown.
    pub fn make_permanent(&mut self, cause: &Cause) {
        self.cause.get_or_insert_with(|| cause.clone());
    }

    /// Stops waiting for overdue replies.
    pub fn stop_waiting(&mut self) {
        if std::mem::take(&mut self.overdue) > 0 {
            self.make_permanent(&Fault::timed_out().cause);
        }
    }

    /// The server's reply about the attempt's ticket settles all overdue replies.
    pub fn clear(&mut self) {
        self.overdue = 0;
    }

    pub fn adds(&mut self, other: &Self) {
        self.overdue += other.overdue;
        other.cause.iter().for_each(|cause| self.make_permanent(cause));
    }

    pub fn exists(&self) -> bool {
        self.may_clear() || self.cause.is_some()
    }

    /// Whether a reply that settles it may still come.
    pub fn may_clear(&self) -> bool {
        self.overdue > 0
    }

    /// Why the outcome stays unknown.
    pub fn cause(&self) -> Option<&Cause> {
        self.cause.as_ref()
    }
}
