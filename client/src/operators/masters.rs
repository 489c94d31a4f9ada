//! The masters of a cluster, each by itself.

use super::ask;
use crate::core::Shared;
use crate::error::Error;
use crate::link::{Links, Route};
use crate::locks::Locks;
use std::sync::Arc;

impl Locks {
    /// Each master with its address, as a client of its own: for questions to those that answer, where one that does
    /// not would keep the others' answers back. Such a client asks its one server, whatever that has.
    ///
    /// # Cancel safety
    /// Cancel safe: it only reads.
    ///
    /// # Errors
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) if nobody says where the masters are.
    pub async fn masters(&self) -> Result<Vec<(String, Self)>, Error> {
        let Shared { settings, links, holders, thread, .. } = &*self.shared;
        let masters = ask::masters(&self.shared).await.map_err(|fault| fault.into_error(b"masters"))?;
        let alone = |node: Arc<_>| Links { route: Route::Single(node), limits: links.limits };
        let shared = |links| Shared::new(links, *settings, holders.name(), thread.clone());
        let client = |node| Self { shared: Arc::new(shared(alone(node))) };
        Ok(masters.into_iter().map(|node| (node.name().to_owned(), client(node))).collect())
    }
}
