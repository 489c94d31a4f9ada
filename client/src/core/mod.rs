//! What a lock takes, beneath the types that callers see: asking for it, giving it back, and what is known of it in
//! between. Nothing here knows how a caller describes a lock; it is given a hold and its terms.

mod attempt;
mod crowds;
mod giving_back;
mod held_lock;
mod hold;
mod holders;
mod outage;
mod pause;
mod renewals;
mod settings;
mod shared;
mod terms;
mod watchdog;

pub(crate) use attempt::acquire;
pub(crate) use held_lock::HeldLock;
pub(crate) use hold::Hold;
pub(crate) use settings::Settings;
pub(crate) use shared::Shared;
pub(crate) use terms::{Lease, Replicas, Terms, Until};
