//! Takes a lock away by force.

use super::ask;
use crate::error::Error;
use crate::link::request::not_an_answer;
use crate::locks::Locks;
use redis::Value;

impl Locks {
    /// Frees a lock of either kind, whoever holds it: its holders find out with their next renewal, and the next
    /// waiters get it at once. Returns whether there was a lock. Fencing tokens go on growing.
    ///
    /// # Cancel safety
    /// Dropped, it may have been done or not.
    ///
    /// # Errors
    /// As [`inspect`](Self::inspect). After [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) it may have been
    /// done or not.
    pub async fn break_lock(&self, name: impl AsRef<[u8]>) -> Result<bool, Error> {
        let name = name.as_ref();
        let answer = ask::once(&self.shared, name, redis::cmd("RLOCK.BREAK").arg(name)).await;
        let broken = answer.and_then(|answer| match answer {
            Value::Int(broken) => Ok(broken != 0),
            _ => Err(not_an_answer()),
        });
        broken.map_err(|fault| fault.into_error(name))
    }
}
