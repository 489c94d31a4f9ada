//! What somebody has who has nothing but the holder: a script that took a lock by one program and gives it back by
//! another.

use super::ask;
use crate::error::Error;
use crate::link::request::{self, Extent, Released, Side};
use crate::locks::Locks;
use std::time::Duration;

impl Locks {
    /// Releases all that this [holder](crate::Guard::holder) has of a lock, whichever process acquired it. Returns
    /// whether it had anything: if not, the lock was lost before.
    ///
    /// # Cancel safety
    /// Dropped, it may have been done or not.
    ///
    /// # Errors
    /// As [`break_lock`](Self::break_lock). If it may have been done it can be repeated, and may then find nothing.
    pub async fn release_of(&self, name: impl AsRef<[u8]>, holder: impl AsRef<[u8]>) -> Result<bool, Error> {
        let name = name.as_ref();
        // A plain lock's has no word for the side, so it is for both.
        let command = request::release(Side::Plain, name, holder.as_ref(), Extent::All);
        let answer = ask::once(&self.shared, name, &command).await;
        let released = answer.and_then(|answer| request::released(&answer));
        released.map(|released| released == Released::Yes).map_err(|fault| fault.into_error(name))
    }

    /// Restarts the lease of this [holder](crate::Guard::holder), whichever process acquired it. Returns whether it
    /// holds the lock.
    ///
    /// # Cancel safety
    /// Dropped, it may have been done or not.
    ///
    /// # Errors
    /// As [`break_lock`](Self::break_lock).
    pub async fn renew_of(
        &self,
        name: impl AsRef<[u8]>,
        holder: impl AsRef<[u8]>,
        lease: Duration,
    ) -> Result<bool, Error> {
        let name = name.as_ref();
        let answer = ask::read(&self.shared, name, &request::renew(name, holder.as_ref(), lease)).await;
        answer.and_then(|answer| request::renewed(&answer)).map_err(|fault| fault.into_error(name))
    }
}
