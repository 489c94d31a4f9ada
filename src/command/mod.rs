//! The commands: text to types, a decision, and its answer as a reply. One file per verb, all alike: the grammar, the
//! request, `parse`, and what the command does. No rule of locking is in here.

mod acquire;
mod arguments;
mod break_lock;
#[cfg(feature = "panic-probe")]
mod call_probe;
mod cancel;
mod events;
mod inspect;
#[cfg(feature = "panic-probe")]
mod panic_probe;
mod queues;
mod release;
mod renew;
mod sessions;

pub use acquire::{Acquire, ReadAcquire, WriteAcquire};
pub use break_lock::Break;
#[cfg(feature = "panic-probe")]
pub use call_probe::CallProbe;
pub use cancel::Cancel;
pub use events::Events;
pub use inspect::Inspect;
#[cfg(feature = "panic-probe")]
pub use panic_probe::PanicProbe;
pub use queues::Queues;
pub use release::Release;
pub use renew::Renew;
pub use sessions::Sessions;
