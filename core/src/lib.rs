//! What rlock decides, without a server: no key is touched here, no clock is read, and nothing is `unsafe`.
//!
//! [`lock`] is what a lock is and how it changes; [`waiting`] is who waits for it, and who is served next.
#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::panic,
        clippy::unreachable,
        clippy::todo
    )
)]
#![warn(clippy::pedantic)]

pub mod lock;
pub mod waiting;
