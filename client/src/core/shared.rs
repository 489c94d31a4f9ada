//! What all clones of a client and all of its guards share: the connections, the watchdog, and the names of its
//! holders.

use super::holders::Holders;
use super::settings::Settings;
use super::watchdog::Watchdog;
use crate::link::Links;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::AbortHandle;

pub(crate) struct Shared {
    pub settings: Settings,
    pub links: Arc<Links>,
    pub holders: Holders,
    /// Where all of it goes on.
    pub(crate) thread: Handle,
    pub(super) watchdog: Arc<Watchdog>,
    watching: AbortHandle,
    /// How many locks are being given back whose outcome is not known yet.
    unsettled: watch::Sender<usize>,
}

impl Shared {
    pub(crate) fn new(links: Links, settings: Settings, thread: Handle) -> Self {
        let (links, watchdog) = (Arc::new(links), Arc::<Watchdog>::default());
        let watching = thread.spawn(watchdog.clone().run(links.clone())).abort_handle();
        let (holders, unsettled) = (Holders::new(), watch::Sender::new(0));
        Self { settings, links, holders, thread, watchdog, watching, unsettled }
    }

    /// Waits until the servers have answered to all that is being given back.
    pub(crate) async fn settle(&self) {
        // Never an error while this is there.
        let _ = self.unsettled.subscribe().wait_for(|count| *count == 0).await;
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.watching.abort();
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
