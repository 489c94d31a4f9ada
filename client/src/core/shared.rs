//! What all clones of a client and all of its guards share: the connections, the watchdog, and the names of its
//! holders.

use super::crowds::Crowds;
use super::holders::Holders;
use super::settings::Settings;
use super::watchdog::Watchdog;
use crate::foreign::heard;
use crate::link::Links;
use crate::runtime::{Task, Thread};
use std::sync::Arc;
use tokio::sync::watch;

pub(crate) struct Shared {
    pub settings: Settings,
    pub links: Arc<Links>,
    pub holders: Holders,
    /// Where all of it goes on.
    pub(crate) thread: Thread,
    pub(super) watchdog: Arc<Watchdog>,
    pub(super) crowds: Arc<Crowds>,
    /// Goes on until this is dropped.
    _watching: Task<()>,
    /// How many locks are being given back whose outcome is not known yet.
    unsettled: watch::Sender<usize>,
}

impl Shared {
    /// `name`: what the process is called in its holders.
    pub(crate) fn new(links: Links, settings: Settings, name: &str, thread: Thread) -> Self {
        let (links, watchdog) = (Arc::new(links), Arc::<Watchdog>::default());
        let watching = thread.spawn({
            let (links, watchdog) = (links.clone(), watchdog.clone());
            async move { _ = tokio::join!(watchdog.run(links.clone()), links.route.watch()) }
        });
        let (holders, crowds, unsettled) = (Holders::new(name), Arc::default(), watch::Sender::new(0));
        Self { settings, links, holders, thread, watchdog, crowds, _watching: watching, unsettled }
    }

    /// Waits until the servers have answered to all that is being given back.
    pub(crate) async fn settle(&self) {
        // In another process nothing of it goes on. Never an error while this is there.
        let mut unsettled = self.unsettled.subscribe();
        let _ = heard(unsettled.wait_for(|count| *count == 0 || !self.thread.is_here())).await;
    }
}

/// One of those that are being given back, until this is dropped.
pub(super) struct Unsettled(watch::Sender<usize>);

impl Unsettled {
    pub(super) fn begin(shared: &Shared) -> Self {
        shared.unsettled.send_modify(|count| *count += 1);
        Self(shared.unsettled.clone())
    }
}

impl Drop for Unsettled {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}
