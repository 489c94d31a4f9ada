//! The commands: what each does with a request, and the reply. One file per verb. [`rlock_core::words`] parses the arguments,
//! and no rule of locking is in here.

mod acquire;
mod acquire_all;
mod break_lock;
mod cancel;
mod events;
mod inspect;
mod once;
mod queues;
mod release;
mod renew;
mod sessions;

pub use acquire::{Acquire, PermitAcquire, ReadAcquire, WriteAcquire};
pub use acquire_all::AcquireAll;
pub use break_lock::Break;
pub use cancel::Cancel;
pub use events::Events;
pub use inspect::Inspect;
pub use once::{Answer, Once};
pub use queues::Queues;
pub use release::Release;
pub use renew::Renew;
pub use sessions::Sessions;
