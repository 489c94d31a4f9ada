//! Those of this program that want one lock. A newcomer behind others need not try first: that would only tell what is
//! known, and costs a thousand tasks that want fifty locks an eighth of their processor time. But it must not come before one
//! of them that tries still, and is to wait next.

#[derive(Default)]
pub(super) struct Crowd {
    trying: usize,
    waiting: usize,
}

impl Crowd {
    /// Returns whether it is behind others, so that it need not try.
    pub fn join(&mut self) -> bool {
        let waits = self.trying == 0 && self.waiting > 0;
        *self.count(waits) += 1;
        waits
    }

    pub fn waits(&mut self) {
        self.trying -= 1;
        self.waiting += 1;
    }

    /// Returns whether nobody is left.
    pub fn leave(&mut self, waits: bool) -> bool {
        *self.count(waits) -= 1;
        self.trying + self.waiting == 0
    }

    fn count(&mut self, waits: bool) -> &mut usize {
        if waits { &mut self.waiting } else { &mut self.trying }
    }
}
