//! The attempts of this program for one lock. A newcomer behind others need not try before it waits: the result is
//! known, and trying costs a thousand tasks that want fifty locks an eighth of their processor time. But a newcomer
//! must not overtake an attempt that is still trying and is about to wait.

#[derive(Default)]
pub(super) struct LocalQueue {
    trying: usize,
    waiting: usize,
}

impl LocalQueue {
    /// Returns whether others are ahead of it, so that it need not try.
    pub fn join(&mut self) -> bool {
        let waits = self.trying == 0 && self.waiting > 0;
        *self.count(waits) += 1;
        waits
    }

    pub fn waits(&mut self) {
        self.trying -= 1;
        self.waiting += 1;
    }

    /// Returns whether it is empty now.
    pub fn leave(&mut self, waits: bool) -> bool {
        *self.count(waits) -= 1;
        self.trying + self.waiting == 0
    }

    fn count(&mut self, waits: bool) -> &mut usize {
        if waits { &mut self.waiting } else { &mut self.trying }
    }
}
