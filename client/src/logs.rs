//! The client's log lines.

use crate::callbacks::log;
use rlock_client_core::{Grant, Log};
use std::borrow::Cow;
use tracing::{Level, debug, trace, warn};

pub(crate) fn acquired(grant: &Grant) {
    log(Level::DEBUG, || {
        let (key, holder, token) = (grant.key.clone(), grant.holder.clone(), grant.token);
        move || debug!(lock = %text(&key), holder = %text(&holder), token, "acquired")
    });
}

pub(crate) fn write(line: Log) {
    let level = match &line {
        Log::Renewed { .. } => Level::TRACE,
        Log::Lost { .. } => Level::WARN,
        Log::NoAnswer { .. } | Log::NotReleased { .. } | Log::NotRenewed { .. } => Level::DEBUG,
    };
    log(level, || {
        move || match line {
            Log::NoAnswer { lock, fault } => debug!(lock = %text(&lock), ?fault, "no answer"),
            Log::NotReleased { lock, fault } => debug!(lock = %text(&lock), ?fault, "not released yet"),
            Log::Renewed { lock, holder } => trace!(lock = %text(&lock), holder = %text(&holder), "renewed"),
            Log::NotRenewed { lock, why } => debug!(lock = %text(&lock), %why, "not renewed"),
            Log::Lost { lock, holder, why } => warn!(lock = %text(&lock), holder = %text(&holder), %why, "lost"),
        }
    });
}

fn text(name: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(name)
}
