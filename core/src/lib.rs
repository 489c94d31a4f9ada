//! The decisions of rlock, without a server: this crate touches no key, reads no clock, and has no `unsafe`.
//!
//! [`lock`] is what a lock is and how it changes; [`waiting`] is which clients wait for it, and which is served next; [`words`] is
//! how commands are written and read.
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
pub mod words;
