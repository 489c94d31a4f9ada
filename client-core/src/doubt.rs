//! Doubt: requests that were sent and not answered. **What cannot be known is not called success.** As long as such a request
//! may have been done, an attempt counts as perhaps granted, a hold as perhaps larger than its guards, and a release as
//! perhaps not the one that released. So the first two are released once more, and the last fails as *in doubt*.

use super::fault::{Fault, What};
use crate::error::Cause;

#[derive(Clone, Default)]
pub(super) struct Doubt {
    /// Replies that are overdue and may still come.
    overdue: u32,
    /// Why another one never will, or says nothing.
    cause: Option<Cause>,
}

impl Doubt {
    /// A request has no reply: that is overdue, or lost with its connection.
    pub fn misses(&mut self, fault: &Fault) {
        if fault.is_overdue() {
            self.overdue += 1;
        } else if fault.what == What::Silent {
            self.deepens(&fault.cause);
        }
    }

    /// A request is given up whose reply is under way.
    pub fn gives_up(&mut self) {
        self.overdue += 1;
    }

    /// A reply that was overdue has come, or never will.
    pub fn hears<T>(&mut self, reply: &Result<T, Fault>) {
        self.overdue = self.overdue.saturating_sub(1);
        if let Err(Fault { what: What::Silent, cause, .. }) = reply {
            self.deepens(cause);
        }
    }

    /// For this reason it will never be known.
    pub fn deepens(&mut self, cause: &Cause) {
        self.cause.get_or_insert_with(|| cause.clone());
    }

    /// What is overdue is not waited for any longer.
    pub fn stays(&mut self) {
        if std::mem::take(&mut self.overdue) > 0 {
            self.deepens(&Fault::timed_out().cause);
        }
    }

    /// The server's word on its ticket answers all that is overdue.
    pub fn clears(&mut self) {
        self.overdue = 0;
    }

    pub fn adds(&mut self, other: &Self) {
        self.overdue += other.overdue;
        other.cause.iter().for_each(|cause| self.deepens(cause));
    }

    pub fn exists(&self) -> bool {
        self.may_clear() || self.cause.is_some()
    }

    /// Whether a reply may still come that says more.
    pub fn may_clear(&self) -> bool {
        self.overdue > 0
    }

    /// Why it will never be known.
    pub fn cause(&self) -> Option<&Cause> {
        self.cause.as_ref()
    }
}
