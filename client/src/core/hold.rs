//! What this client knows of one holder's holds on one lock: how many guards there are, whether the server may have
//! more, and until when the lease can be vouched for.
//!
//! **Vouching.** A lease lasts at least until *the clock before the request was sent* plus its length, for the server
//! has started it later than that. So that is the deadline, less a margin for two clocks that run at different speeds.
//! When it has passed, or the server says that nothing is held, all guards there are by then are void, for good: a
//! renewal that comes through later makes nothing good that was done in between. Guards belong to an *era*, which ends
//! with that.
//!
//! **Counting.** Each guard stands for one request that was granted, so the server never counts fewer holds than there
//! are guards. It may count more, if a request was granted and its answer was lost. Then the last guard to go gives
//! back all of them (`ALL`); no guard does so before, as that would take the lock from the others.

use crate::clock::now;
use crate::error::Error;
use crate::link::request::{Extent, Leased, Side};
use crate::loss::Loss;
use std::borrow::Cow;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

pub(crate) struct Hold {
    pub key: Vec<u8>,
    pub holder: Vec<u8>,
    /// The caller chose the holder, so others may hold something under it that is not ours to give back.
    named: bool,
    vouched: watch::Sender<Vouched>,
    sides: Mutex<[Count; Side::ALL.len()]>,
    /// Why it is lost, or would be if nothing gets better until then.
    trouble: Mutex<Option<Loss>>,
    /// Held while a release is under way that could take away what is acquired in the meantime.
    pub releasing: tokio::sync::Mutex<()>,
}

/// Until when the lease can be vouched for, in which era.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vouched {
    pub until: Instant,
    pub era: u64,
}

/// A lease that began.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Began {
    pub lease: Leased,
    /// Whether that began a new lease for everything that this holder has.
    pub for_all: bool,
}

#[derive(Clone, Copy, Default)]
struct Count {
    guards: usize,
    /// Requests that are under way.
    attempts: usize,
    /// All that were granted.
    granted: u64,
    /// The server may count more holds than there are guards.
    doubtful: bool,
}

impl Hold {
    pub(crate) fn new(key: Vec<u8>, holder: Vec<u8>, named: bool) -> Self {
        let vouched = watch::Sender::new(Vouched { until: now(), era: 0 });
        let (sides, trouble, releasing) = Default::default();
        Self { key, holder, named, vouched, sides, trouble, releasing }
    }

    /// The lock's, for people.
    pub(crate) fn name(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.key)
    }

    /// The same of the holder.
    pub(crate) fn holder(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.holder)
    }

    /// The lease to ask for: never less than what is left of what others have under this holder, which it would
    /// shorten.
    pub(crate) fn lease_for(&self, lease: Duration) -> Duration {
        if self.is_shared() { lease.max(self.remaining()) } else { lease }
    }

    /// Whether there are guards already.
    pub(crate) fn is_shared(&self) -> bool {
        self.sides().iter().any(|count| count.guards > 0)
    }

    /// A request for one more hold is about to be made. Returns how many were granted before, of any side.
    pub(crate) fn attempt_begins(&self, side: Side) -> u64 {
        let mut sides = self.sides();
        sides[side as usize].attempts += 1;
        sides.iter().map(|count| count.granted).sum()
    }

    /// Whether somebody else has acquired it under the same owner since an attempt began, or is about to; be it the other
    /// side, as all have one lease.
    pub(crate) fn has_others(&self, began: u64) -> bool {
        let (mut guards, mut attempts, mut granted) = (0, 0, 0);
        for count in &*self.sides() {
            guards += count.guards;
            attempts += count.attempts;
            granted += count.granted;
        }
        self.named && (guards > 0 || attempts > 1 || granted != began)
    }

    /// It was not granted, as far as this client knows. Returns whether the server may have granted it all the same,
    /// and no guard is left that would give that back.
    pub(crate) fn attempt_failed(&self, side: Side, doubtful: bool) -> bool {
        let count = &mut self.sides()[side as usize];
        count.attempts -= 1;
        count.doubtful |= doubtful;
        count.doubtful && count.is_idle()
    }

    /// It was granted. Returns the era of the new guard.
    pub(crate) fn attempt_granted(&self, side: Side, doubtful: bool, began: Began) -> u64 {
        let mut sides = self.sides();
        let others = sides.iter().any(|count| count.guards > 0);
        let count = &mut sides[side as usize];
        count.attempts -= 1;
        count.granted += 1;
        count.guards += 1;
        count.doubtful |= doubtful;
        let until = vouched_until(&began.lease);
        let mut era = 0;
        self.vouched.send_modify(|vouched| {
            let others = others && vouched.until > now();
            vouched.until = match others {
                true if began.for_all => vouched.until.max(until),
                true => vouched.until.min(until),
                false => {
                    *self.trouble() = None;
                    void(vouched, &mut sides, Some(side));
                    until
                }
            };
            era = vouched.era;
        });
        era
    }

    /// The lease was restarted. Returns whether that came in time.
    pub(crate) fn renewed(&self, lease: Leased) -> bool {
        let mut sides = self.sides();
        let in_time = self.remaining() > Duration::ZERO;
        if in_time {
            *self.trouble() = None;
        }
        self.vouched.send_modify(|vouched| match in_time {
            true => vouched.until = vouched.until.max(vouched_until(&lease)),
            false => void(vouched, &mut sides, None),
        });
        in_time
    }

    /// A renewal has failed.
    pub(crate) fn not_renewed(&self, error: Error) {
        *self.trouble() = Some(Loss::NotRenewed(error));
    }

    /// Why it is lost, if it is.
    pub(crate) fn loss(&self) -> Loss {
        self.trouble().clone().unwrap_or(Loss::Ended)
    }

    /// Nothing can be vouched for any more.
    pub(crate) fn lost(&self, loss: Loss) {
        // Before the loss is told: whoever is told may ask why. That the server knows nothing of a lease that has ended is
        // no reason of its own: this program stood still, and may have been told so already.
        if !self.remaining().is_zero() || loss != Loss::NotHeld {
            *self.trouble() = Some(loss);
        }
        let mut sides = self.sides();
        self.vouched.send_modify(|vouched| void(vouched, &mut sides, None));
    }

    /// A guard goes. Returns what has to be given back, if anything.
    pub(crate) fn guard_goes(&self, side: Side, era: u64) -> Option<Extent> {
        let mut sides = self.sides();
        let count = &mut sides[side as usize];
        let valid = self.vouched.borrow().era == era;
        if valid {
            count.guards -= 1;
        }
        match (count.is_idle(), valid) {
            (true, _) if count.doubtful || !self.named => Some(Extent::All),
            (_, true) => Some(Extent::One),
            (_, false) => None,
        }
    }

    /// A hold may have been given back or not. Returns whether it is time to give back all.
    pub(crate) fn mark_doubtful(&self, side: Side) -> bool {
        let count = &mut self.sides()[side as usize];
        count.doubtful = true;
        count.is_idle()
    }

    /// All was given back.
    pub(crate) fn all_given_back(&self, side: Side) {
        let count = &mut self.sides()[side as usize];
        if count.is_idle() {
            count.doubtful = false;
        }
    }

    /// Whether requests for this side may still be on their way to the server.
    pub(crate) fn is_doubtful(&self, side: Side) -> bool {
        self.sides()[side as usize].doubtful
    }

    /// Whether there is neither a guard of this side nor an attempt to acquire it.
    pub(crate) fn is_idle(&self, side: Side) -> bool {
        self.sides()[side as usize].is_idle()
    }

    pub(crate) fn vouched(&self) -> Vouched {
        *self.vouched.borrow()
    }

    pub(crate) fn watch(&self) -> watch::Receiver<Vouched> {
        self.vouched.subscribe()
    }

    /// What is left of what can be vouched for.
    pub(crate) fn remaining(&self) -> Duration {
        self.vouched().until.saturating_duration_since(now())
    }

    fn trouble(&self) -> MutexGuard<'_, Option<Loss>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sides(&self) -> MutexGuard<'_, [Count; Side::ALL.len()]> {
        self.sides.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Count {
    fn is_idle(&self) -> bool {
        self.guards == 0 && self.attempts == 0
    }
}

/// Ends an era: its guards do not count any more, though the server may still count their holds. `kept`: the side of a
/// guard that has just come, and belongs to the next era.
fn void(vouched: &mut Vouched, sides: &mut [Count; Side::ALL.len()], kept: Option<Side>) {
    vouched.era += 1;
    vouched.until = vouched.until.min(now());
    for side in Side::ALL {
        let count = &mut sides[side as usize];
        let kept = usize::from(kept == Some(side));
        count.doubtful |= count.guards > kept;
        count.guards = kept;
    }
}

/// One hundredth of the lease, for clocks that do not run at the same speed, and two milliseconds, for servers and
/// timers that count in milliseconds.
fn margin(lease: Duration) -> Duration {
    lease / 100 + Duration::from_millis(2)
}

pub(crate) fn vouched_until(lease: &Leased) -> Instant {
    let Leased { after, length } = *lease;
    // A lease so long that it cannot be added is one that the server has refused.
    after.checked_add(length.saturating_sub(margin(length))).unwrap_or(after)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    const LEASE: Duration = Duration::from_secs(10);
    const MARGIN: Duration = Duration::from_millis(102);

    fn hold(named: bool) -> Hold {
        Hold::new(b"lock".to_vec(), b"holder".to_vec(), named)
    }

    /// One more guard, whose lease begins now.
    fn grant(hold: &Hold, doubtful: bool) -> u64 {
        hold.attempt_begins(Side::Plain);
        hold.attempt_granted(Side::Plain, doubtful, Began { lease: begun_at(Instant::now()), for_all: true })
    }

    fn begun_at(after: Instant) -> Leased {
        Leased { after, length: LEASE }
    }

    #[tokio::test(start_paused = true)]
    async fn a_lease_is_vouched_for_up_to_a_margin() {
        let hold = hold(false);
        grant(&hold, false);
        assert_eq!(hold.remaining(), LEASE - MARGIN);
        advance(LEASE - MARGIN).await;
        assert!(hold.remaining().is_zero());
    }

    #[tokio::test(start_paused = true)]
    async fn a_renewal_in_time_lengthens_and_one_too_late_ends() {
        let hold = hold(false);
        let era = grant(&hold, false);
        advance(LEASE / 2).await;
        let sent_at = Instant::now();
        advance(LEASE / 4).await;
        assert!(hold.renewed(begun_at(sent_at)));
        assert_eq!(hold.remaining(), LEASE - MARGIN - LEASE / 4, "counted from when it was sent");
        advance(LEASE).await;
        assert!(!hold.renewed(begun_at(Instant::now())));
        assert!(hold.remaining().is_zero() && hold.vouched().era != era);
    }

    #[tokio::test(start_paused = true)]
    async fn a_trouble_that_is_over_is_not_why_it_is_lost() {
        let hold = hold(false);
        let failed = || hold.not_renewed(Error::new(crate::ErrorKind::Unavailable, "lock"));
        grant(&hold, false);
        failed();
        assert!(matches!(hold.loss(), Loss::NotRenewed(_)));
        assert!(hold.renewed(begun_at(Instant::now())));
        assert!(matches!(hold.loss(), Loss::Ended));
        failed();
        advance(LEASE).await;
        assert!(matches!(hold.loss(), Loss::NotRenewed(_)));
        grant(&hold, false);
        assert!(matches!(hold.loss(), Loss::Ended), "of the new guard nothing is known");
    }

    #[test]
    fn what_is_given_back() {
        // A fresh holder has nothing that is somebody else's.
        let fresh = hold(false);
        let era = grant(&fresh, false);
        assert_eq!(fresh.guard_goes(Side::Plain, era), Some(Extent::All));
        // An owner may; one hold for each guard.
        let named = hold(true);
        let (first, second) = (grant(&named, false), grant(&named, false));
        assert_eq!(named.guard_goes(Side::Plain, first), Some(Extent::One));
        assert_eq!(named.guard_goes(Side::Plain, second), Some(Extent::One));
        // With a doubt, all, but not before the last guard goes.
        let (first, second) = (grant(&named, true), grant(&named, false));
        assert_eq!(named.guard_goes(Side::Plain, first), Some(Extent::One));
        assert_eq!(named.guard_goes(Side::Plain, second), Some(Extent::All));
    }

    #[test]
    fn a_guard_of_an_old_era_takes_nothing_from_the_next() {
        let named = hold(true);
        let old = grant(&named, false);
        named.lost(Loss::NotHeld);
        let new = grant(&named, false);
        assert_eq!(named.guard_goes(Side::Plain, old), None);
        assert_eq!(named.guard_goes(Side::Plain, new), Some(Extent::All), "the old one's hold may be there still");
    }

    #[test]
    fn a_doubt_is_cleared_up_by_whoever_is_last() {
        let named = hold(true);
        named.attempt_begins(Side::Plain);
        let era = grant(&named, false);
        assert!(!named.attempt_failed(Side::Plain, true), "a guard is left");
        assert_eq!(named.guard_goes(Side::Plain, era), Some(Extent::All));
        named.all_given_back(Side::Plain);
        named.attempt_begins(Side::Plain);
        assert!(!named.attempt_failed(Side::Plain, false));
        named.attempt_begins(Side::Plain);
        assert!(named.attempt_failed(Side::Plain, true));
    }
}
