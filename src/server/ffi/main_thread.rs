//! A value for the server's main thread, the only thread on which the server calls the module. It is made when it is first
//! asked for.

use std::cell::OnceCell;

pub struct MainThread<T>(OnceCell<T>);

// SAFETY: see above; so nothing is ever shared with another thread.
unsafe impl<T> Sync for MainThread<T> {}

impl<T: Default> MainThread<T> {
    pub const fn new() -> Self {
        Self(OnceCell::new())
    }

    #[inline]
    pub fn get(&self) -> &T {
        self.0.get_or_init(T::default)
    }
}
