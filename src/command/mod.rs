//! The commands: text to types, a decision, and its answer as a reply. One file per verb, all alike: the grammar, the
//! request, `parse`, and what the command does. No rule of locking is in here.

mod acquire;
mod arguments;
#[cfg(feature = "panic-probe")]
mod panic_probe;
mod release;
mod renew;

pub use acquire::{Acquire, ReadAcquire, WriteAcquire};
#[cfg(feature = "panic-probe")]
pub use panic_probe::PanicProbe;
pub use release::Release;
pub use renew::Renew;
