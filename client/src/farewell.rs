//! Giving back: what a guard had, and what a request may have been granted that nobody waits for any more.
//!
//! It goes on in the background, whether or not somebody waits for the result, until the server has answered. Where a
//! request may still be on its way to the server, an answer that nothing is held is not the end: the request may come after
//! it, so it is asked again, at growing distances, for as long as a lease lasts. A server that does not answer is asked for
//! as long as a lease lasts too, and longer if it has been silent all the time: it may stand still with our request in its
//! hands.
//!
//! **That nothing is held is a loss only if it was so before.** A request that was sent and not answered may have given it
//! back, and a lease may end while its release is under way. Whoever asks for the release has done its work by then.

use crate::error::{Error, ErrorKind};
use crate::hold::Hold;
use crate::link::{Fault, Flight, Lane, Request};
use crate::locks::Shared;
use crate::pause::Pause;
use crate::request::{self, Extent, Released, Side};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep};
use tracing::debug;

/// Whether it was held until it was given back, as soon as that is known, or that the server does not answer.
pub(crate) type Told = oneshot::Receiver<Result<(), Error>>;

/// Gives back all that there may be, which nobody waits for.
pub(crate) fn to_all(shared: &Arc<Shared>, hold: Arc<Hold>, side: Side, lease: Duration) {
    drop(begin(shared, hold, side, Extent::All, lease, None));
}

/// Gives back one hold, or all. `vouched`: until when it can still be vouched for, unless it is lost already.
pub(crate) fn begin(
    shared: &Arc<Shared>,
    hold: Arc<Hold>,
    side: Side,
    extent: Extent,
    lease: Duration,
    vouched: Option<Instant>,
) -> Told {
    let (tell, told) = oneshot::channel();
    shared.unsettled.send_modify(|count| *count += 1);
    let farewell = Farewell { shared: shared.clone(), hold, side, lease, vouched, unanswered: false, tell: Some(tell) };
    shared.runtime.spawn(farewell.run(extent));
    told
}

/// For how many leases a server is asked that does not answer.
const LEASES_MAX: u32 = 10;

struct Farewell {
    shared: Arc<Shared>,
    hold: Arc<Hold>,
    side: Side,
    lease: Duration,
    vouched: Option<Instant>,
    /// A request was sent, and nobody knows what became of it.
    unanswered: bool,
    tell: Option<oneshot::Sender<Result<(), Error>>>,
}

impl Farewell {
    async fn run(mut self, extent: Extent) {
        match extent {
            Extent::All => self.give_back_all().await,
            Extent::One => self.give_back_one().await,
        }
    }

    /// Received once. If nobody knows whether it was, sending it again could take what another guard has.
    async fn give_back_one(&mut self) {
        let (began, mut pause) = (Instant::now(), Pause::short());
        loop {
            let fault = match self.release(Extent::One).await {
                Ok(released) => return self.tell_of(released),
                Err(fault) => fault,
            };
            let unknown = matches!(fault, Fault::Silent(_));
            if !unknown && fault.may_pass() && began.elapsed() < self.shared.options.patience {
                sleep(pause.next()).await;
                continue;
            }
            if fault.may_pass() && self.hold.doubt(self.side) {
                self.give_back_all().await;
            }
            return self.tell(Err(self.error(fault)));
        }
    }

    async fn give_back_all(&mut self) {
        let began = Instant::now();
        let (mut until, last) = (began + self.lease, began + self.lease * LEASES_MAX);
        let (mut growing, mut short) = (Pause::growing(), Pause::short());
        while Instant::now() < until {
            let hold = self.hold.clone();
            let nobody_acquires = hold.farewell.lock().await;
            if !self.hold.is_idle(self.side) {
                // Somebody acquires in this owner's name again. Of what there is, the last guard will give back all.
                return self.tell(Ok(()));
            }
            let answer = self.release(Extent::All).await;
            drop(nobody_acquires);
            let pause = match answer {
                Ok(released) => {
                    self.tell_of(released);
                    if released == Released::Yes || !self.hold.is_doubtful(self.side) {
                        break;
                    }
                    growing.next()
                }
                Err(fault) if !fault.may_pass() => return self.tell(Err(self.error(fault))),
                Err(fault) => {
                    debug!(?fault, lock = %String::from_utf8_lossy(&self.hold.key), "not given back yet");
                    if began.elapsed() >= self.shared.options.patience {
                        self.tell(Err(self.error(fault)));
                    }
                    until = last.min(Instant::now() + self.lease);
                    short.next()
                }
            };
            sleep(pause.min(until.saturating_duration_since(Instant::now()))).await;
        }
        self.hold.settled(self.side);
        // Whoever had it, it has run out.
        self.tell(Err(Error::new(ErrorKind::Unavailable, &self.hold.key)));
    }

    async fn release(&mut self, extent: Extent) -> Result<Released, Fault> {
        let Hold { key, holder, .. } = &*self.hold;
        let links = &self.shared.links;
        let request =
            || Request { command: request::release(self.side, key, holder, extent), limit: Some(links.limits.answer) };
        let flight = Flight::default();
        let answer = links.ask(key, Lane::Shared, &flight, request).await;
        self.unanswered |= flight.is_doubtful();
        request::released(&answer?.value)
    }

    fn tell_of(&mut self, released: Released) {
        self.tell(match released {
            Released::Yes => Ok(()),
            Released::Nothing => Err(Error::new(ErrorKind::Lost, &self.hold.key)),
        });
    }

    /// With something else in its place, it is not held.
    fn error(&self, fault: Fault) -> Error {
        let overwritten = fault.is_overwritten();
        let error = fault.into_error(&self.hold.key);
        if overwritten { error.into_loss() } else { error }
    }

    /// The first word is the one that counts.
    fn tell(&mut self, result: Result<(), Error>) {
        if let Some(tell) = self.tell.take() {
            // Nobody has to wait for it.
            let _ = tell.send(result.or_else(|error| self.judge(error)));
            self.shared.unsettled.send_modify(|count| *count -= 1);
        }
    }

    /// What an error says about the time before the release.
    fn judge(&self, error: Error) -> Result<(), Error> {
        match self.vouched {
            None => Err(error.into_loss()),
            Some(until) if error.is_lost() && (self.unanswered || until <= Instant::now()) => Ok(()),
            Some(_) => Err(error),
        }
    }
}
