//! A value for the server's main thread, the only thread on which the server calls the module.

use std::cell::RefCell;

pub struct MainThread<T>(RefCell<T>);

// SAFETY: see above; so nothing is ever shared with another thread.
unsafe impl<T> Sync for MainThread<T> {}

impl<T> MainThread<T> {
    pub const fn new(value: T) -> Self {
        Self(RefCell::new(value))
    }

    /// Lends the value. The closure must call nothing that could call back.
    #[inline]
    pub fn with<R>(&self, use_it: impl FnOnce(&mut T) -> R) -> R {
        use_it(&mut self.0.borrow_mut())
    }
}
