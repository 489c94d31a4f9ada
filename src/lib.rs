//! rlock: distributed locks inside Redis and Valkey, on Redisson's own keys.
//!
//! This file is the manifest: which commands there are, and where loading begins. `rlock-core` decides what a lock may do
//! and which waiter is next, everything that touches the server is in [`server`], and [`command`] joins them.
#![deny(unsafe_code)]
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

mod command;
#[allow(unsafe_code)]
mod server;

use redis_module::raw;
use server::Registration;
use std::ffi::c_int;

const COMMANDS: &[Registration] = &[
    Registration::of::<command::Acquire>(),
    Registration::of::<command::ReadAcquire>(),
    Registration::of::<command::WriteAcquire>(),
    Registration::of::<command::PermitAcquire>(),
    Registration::of::<command::AcquireAll>(),
    Registration::of::<command::Once>(),
    Registration::of::<command::Answer>(),
    Registration::of::<command::Release>(),
    Registration::of::<command::Renew>(),
    Registration::of::<command::Inspect>(),
    Registration::of::<command::Queues>(),
    Registration::of::<command::Break>(),
    Registration::of::<command::Events>(),
    Registration::of::<command::Cancel>(),
    Registration::of::<command::Sessions>(),
    #[cfg(feature = "panic-probe")]
    Registration::of::<server::probes::Panic>(),
    #[cfg(feature = "panic-probe")]
    Registration::of::<server::probes::Call>(),
];

/// # Safety
/// To be called by the server, which finds it by its name.
#[allow(unsafe_code, non_snake_case)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn RedisModule_OnLoad(
    context: *mut raw::RedisModuleCtx,
    strings: *mut *mut raw::RedisModuleString,
    count: c_int,
) -> c_int {
    // SAFETY: the arguments are passed on as the server gave them.
    unsafe { server::load(context, strings, count, COMMANDS) }
}
