//! What a grace relies on: the old master stops granting before the new one begins. And the log lines about both.

use super::{standstill, state};
use crate::server::edge::settings::SETTINGS;
use crate::server::ffi::api;
use crate::server::ffi::call::server_setting;
use crate::server::ffi::context::Context;
use rlock_core::lock::decimal;
use rlock_core::waiting::GraceNews;
use std::ffi::CStr;

/// With these two settings, if neither is 0, the server itself stops in time.
const FENCES: [&CStr; 2] = [c"min-replicas-to-write", c"min-replicas-max-lag"];

/// The server's default for the second, for a server that does not show its settings.
const LAG_S_BY_DEFAULT: i64 = 10;

pub(super) fn log_grace(news: Option<GraceNews>) {
    match news {
        None => {}
        Some(GraceNews::Begins { left_ms }) => {
            state::get().grace_is_unchecked.set(true);
            api::notice(&format!(
                "rlock: after this start or promotion no lock gets a new holder for {left_ms} ms (rlock.grace)"
            ));
        }
        Some(GraceNews::IsOver) => api::notice("rlock: the grace is over: locks get new holders again"),
    }
}

/// Checks the settings that the grace relies on, if that is due, and logs a warning if one is 0.
pub(super) fn check_if_due(context: &Context) {
    if !state::get().grace_is_unchecked.replace(false) || SETTINGS.grace.get_ms() == 0 {
        return;
    }
    let settings = FENCES.map(|name| server_setting(context, name).and_then(|value| decimal(&value)));
    let missing = FENCES.into_iter().zip(settings).find(|(_, value)| *value == Some(0)).map(|(name, _)| name);
    let lag_s = settings.last().copied().flatten().unwrap_or(LAG_S_BY_DEFAULT);
    standstill::rest_on(missing.is_none().then(|| lag_s.saturating_mul(1_000)));
    if let Some(name) = missing {
        api::log(&format!(
            "rlock.grace is set, but {} is 0: a master that is cut off from its replicas goes on granting, so after a failover a lock may have two holders",
            name.to_string_lossy()
        ));
    }
}
