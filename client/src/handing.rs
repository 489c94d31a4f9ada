//! Handing a lock on: one process detaches it, and another one adopts it.

use crate::arguments;
use crate::callbacks::woken_safely;
use crate::fencing::{Adopted, Unfenced};
use crate::guard::Guard;
use crate::held_lock::{Handing, HeldLock, Staying, adopt};
use crate::locks::Locks;
use futures_util::future::join_all;
use rlock_client_core::handed::What;
use rlock_client_core::{Aim, Error, Handed, Lasting, Side, Terms, Until, Wish};
use std::sync::Arc;
use std::time::Duration;

impl<F> Guard<F> {
    /// Hands the lock on to another process: it stays held on the server, this client stops renewing its lease, and
    /// [`Locks::adopt`] continues it with the returned text. The lease is restarted first; the other process must adopt
    /// the lock before it ends.
    ///
    /// Afterwards this guard holds nothing: dropping it does nothing, and [`lost`](Self::lost) does not resolve. Work that
    /// [runs](Self::run) under it goes on. If the call fails, or is dropped before it is done, the guard is unchanged.
    ///
    /// The text is one line of ASCII without spaces: `rlock1/KIND/LEASE/LIMIT/TOKENS/HOLDER/KEY`. **It is as secret as a
    /// holder's name**: any client that has it can release the lock.
    ///
    /// ```no_run
    /// # async fn send(_text: String) {}
    /// # async fn example(guard: rlock_client::Guard) -> Result<(), rlock_client::Error> {
    /// send(guard.detach().await?).await; // to the process that goes on
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// Cancel safe: if dropped before it is done, the guard keeps the lock.
    ///
    /// # Errors
    /// [`Lost`](crate::ErrorKind::Lost) if the lock is no longer held. [`Unavailable`](crate::ErrorKind::Unavailable)
    /// if no server replies within [`Options::patience`](crate::Options::patience).
    /// [`Configuration`](crate::ErrorKind::Configuration) for a [fixed lease](crate::Lock::fixed_lease), and for a lock
    /// that its [`owner`](crate::Lock::owner) holds more than once.
    pub fn detach(&self) -> impl Future<Output = Result<String, Error>> + Send + 'static + use<F> {
        self.detach_within(self.terms().lease.length())
    }

    /// The same, with another time in which the lock has to be adopted. If that is shorter than the rest of the lease,
    /// the guard is guaranteed only for that time from the call on, until a renewal succeeds.
    ///
    /// # Cancel safety
    /// Like [`detach`](Self::detach).
    ///
    /// # Errors
    /// Like [`detach`](Self::detach), and [`Configuration`](crate::ErrorKind::Configuration) if the time is below 1 ms.
    pub fn detach_within(
        &self,
        within: Duration,
    ) -> impl Future<Output = Result<String, Error>> + Send + 'static + use<F> {
        let (names, terms) = (self.names(), *self.terms());
        let parts: Vec<_> = self.locks().iter().map(HeldLock::handing).collect();
        woken_safely(async move {
            if matches!(terms.lease, Lasting::Fixed(_)) {
                return Err(Error::configuration(names, "a fixed lease cannot be detached"));
            }
            arguments::check_time(&names, within, "the time to adopt it must be at least 1 ms")?;
            let extended = join_all(parts.iter().map(|part| part.extend(within))).await;
            extended.into_iter().filter_map(Result::err).max_by_key(Error::is_lost).map_or(Ok(()), Err)?;
            let text = text(&terms, &parts);
            Handing::detach(parts)?;
            Ok(text)
        })
    }
}

fn text(terms: &Terms, parts: &[Handing]) -> String {
    let what = match (terms.side, terms.permits) {
        (Side::Plain, _) if parts.len() > 1 => What::Several,
        (Side::Plain, Some(limit)) => What::Permit { limit },
        (Side::Plain, None) => What::Plain,
        (Side::Read, _) => What::Read,
        (Side::Write, _) => What::Write,
    };
    let holder = parts.first().map(|part| part.grant.holder.to_vec()).unwrap_or_default();
    let tokens = parts.iter().filter_map(|part| part.grant.token).collect();
    let keys = parts.iter().map(|part| part.grant.key.to_vec()).collect();
    Handed { what, lease: terms.lease.length(), tokens, holder, keys }.to_string()
}

impl Locks {
    /// Continues a lock that another process has [detached](Guard::detach): the client renews the lease from now on,
    /// and the guard reports a loss and releases the lock, as if it had been acquired here.
    ///
    /// The same text can be adopted twice. Then both guards hold the lock under one holder, and a release by one is a loss for
    /// the other.
    ///
    /// ```no_run
    /// # async fn finish() {}
    /// # async fn example(locks: rlock_client::Locks, text: String) -> Result<(), rlock_client::Error> {
    /// locks.adopt(text).await?.run(finish()).await
    /// # }
    /// ```
    ///
    /// # Cancel safety
    /// If dropped before it is done, the lock stays as it is until its lease ends, and can be adopted again.
    ///
    /// # Errors
    /// [`Configuration`](crate::ErrorKind::Configuration) if this is not the text of a detached lock.
    /// [`Lost`](crate::ErrorKind::Lost) if the lock is no longer held: its lease has ended, or it was released or
    /// broken. Of several locks, the ones still held are then released. [`Unavailable`](crate::ErrorKind::Unavailable)
    /// as for [`acquire`](crate::Lock::acquire); the lock can be adopted again.
    pub async fn adopt(&self, text: impl AsRef<[u8]>) -> Result<Guard<Adopted>, Error> {
        let Handed { what, lease, tokens, holder, keys } = Handed::parse(text.as_ref())?;
        let (side, permits, lease) = (what.side(), what.limit(), Lasting::Kept(lease));
        let terms = Terms { side, permits, max: None, lease, fenced: false, replicas: None };
        let holder = Arc::<[u8]>::from(holder);
        let tokens_of_each = tokens.iter().copied().map(Some).chain(std::iter::repeat(None));
        let adopting = keys.into_iter().zip(tokens_of_each).map(|(key, token)| {
            let (aim, key, holder, until) = (Aim::Adoption, Arc::from(key), holder.clone(), Until::Granted);
            let wish = Wish { aim, key, more: Vec::new(), holder, named: false, terms, until };
            async move { adopt(&self.shared, wish, token).await.map(Staying::of) }
        });
        let mut adopted = Vec::new();
        let mut errors = Vec::new();
        for each in woken_safely(join_all(adopting)).await {
            each.map_or_else(|error| errors.push(error), |it| adopted.push(it));
        }
        match errors.into_iter().max_by_key(Error::is_lost) {
            None => {
                let locks = adopted.into_iter().filter_map(Staying::into_held).collect();
                Ok(Guard::of(locks, Adopted { tokens }, terms))
            }
            Some(error) => {
                if error.is_lost() {
                    // They are of no use without the lost one.
                    adopted.into_iter().filter_map(Staying::into_held).for_each(drop);
                }
                Err(error)
            }
        }
    }
}

impl Guard<Adopted> {
    /// The fencing token of the grant, if the lock is fenced. Of several locks, the first one's.
    #[must_use]
    pub fn token(&self) -> Option<u64> {
        self.tokens().first().copied()
    }

    /// The fencing tokens of several locks, in the order in which they were acquired. Empty if they are not fenced.
    #[must_use]
    pub fn tokens(&self) -> &[u64] {
        &self.fencing().tokens
    }

    /// Converts it to a plain guard. Read the token before.
    pub fn unfenced(self) -> Guard {
        self.with(Unfenced::NONE)
    }
}
