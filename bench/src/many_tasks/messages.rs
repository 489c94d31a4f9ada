//! Messages about released locks, for all tasks of a process.
//!
//! As lean as possible: the process subscribes once, with one connection; each message wakes one task, the one that has
//! waited longest; and no task asks for the remaining time of a lease, since all leases have the same length.

use futures_util::StreamExt;
use redis::aio::PubSubStream;
use redis::{Client, RedisResult};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;

/// The maximum wait for a message, as long as [`crate::contenders::LEASE`]: the holder may have died.
const LEASE: Duration = Duration::from_secs(30);

pub struct Messages {
    /// By the lock's name.
    channels: HashMap<String, Channel>,
}

struct Channel {
    name: String,
    message: Arc<Notify>,
}

impl Messages {
    pub async fn subscribe(address: &str, locks: impl Iterator<Item = String>) -> RedisResult<Self> {
        let of = |lock: String| {
            let name = format!("released:{lock}");
            (lock, Channel { name, message: Arc::default() })
        };
        let channels: HashMap<_, _> = locks.map(of).collect();
        let mut subscriber = Client::open(address)?.get_async_pubsub().await?;
        for channel in channels.values() {
            subscriber.subscribe(&channel.name).await?;
        }
        let by_channel =
            channels.values().map(|channel| (channel.name.clone(), Arc::clone(&channel.message))).collect();
        tokio::spawn(listen(subscriber.into_on_message(), by_channel));
        Ok(Self { channels })
    }

    pub fn channel(&self, lock: &str) -> &str {
        &self.channels[lock].name
    }

    /// Waits for the next message, for at most one lease. A message that came after the task was refused, and has woken
    /// no other task, counts.
    pub async fn wait_for(&self, lock: &str) {
        let _ = timeout(LEASE, self.channels[lock].message.notified()).await;
    }
}

/// Runs until the server is gone.
async fn listen(mut messages: PubSubStream, by_channel: HashMap<String, Arc<Notify>>) {
    while let Some(message) = messages.next().await {
        if let Some(waiting) = by_channel.get(message.get_channel_name()) {
            waiting.notify_one();
        }
    }
}
