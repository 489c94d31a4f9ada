//! Giving back: what a guard had, and what may have been granted to a request whose caller has gone.
//!
//! It goes on in the background, whether or not a caller waits for the result, until the server has answered. Where a
//! request may still be on its way to the server, an answer that nothing is held is not the end: the request may come
//! after it, so it is asked again, at growing distances, for as long as a lease lasts. A server that does not answer is
//! asked for as long as a lease lasts too, and longer if it has been silent all the time: it may stand still with our
//! request in its hands.
//!
//! **Only an answer that something was given back is success.** It says that the lock was held until then, and there is
//! no other word of that. That nothing is held is a loss, unless it may have come about since: by a request of ours
//! that was sent and not answered, or by the end of the lease. Neither is success, as the server may have forgotten the
//! lock before.
//!
//! - The answer to a request that was given up is waited for on, since it is the one that tells: a server that stands
//!   still for a while answers when it goes on. When it cannot come any more, as its connection broke, the lock is *in
//!   doubt*.
//! - A lease that ended before the only answer came is a server that did not answer in time, and no loss.

use super::hold::Hold;
use super::pause::Pause;
use super::shared::{Shared, Unsettled};
use crate::error::{Error, ErrorKind};
use crate::foreign::log;
use crate::link::request::{self, Extent, Released, Side};
use crate::link::{Doubt, Fault, LateAnswer, Ticket};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::RedisError;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};
use tracing::{Level, debug};

/// Whether it was held until it was given back, as soon as that is known, or that it cannot be known.
pub(super) type Outcome = oneshot::Receiver<Result<(), Error>>;

/// Gives back all that there may be. No caller waits for it.
pub(super) fn all(shared: &Arc<Shared>, hold: Arc<Hold>, side: Side, lease: Duration) {
    drop(begin(shared, hold, side, Extent::All, lease, None));
}

/// Takes back the wait of an attempt that has gone, and what may have been granted to it all the same. `began`: what
/// [`Hold::attempt_begins`] has said of the attempt.
pub(super) fn wait(
    shared: &Arc<Shared>,
    hold: Arc<Hold>,
    (side, began): (Side, u64),
    lease: Duration,
    ticket: Ticket,
    doubt: Doubt,
) {
    let settling = Unsettled::begin(shared);
    let shared_by_task = shared.clone();
    shared.thread.detach(async move {
        let mut pause = Pause::short();
        let was_found = loop {
            match ticket.cancel().await {
                Ok(was_found) => break was_found,
                // With its session everything of it is gone, by the server itself.
                Err(_) if ticket.session.is_over() => break false,
                Err(_) => sleep(pause.next()).await,
            }
        };
        drop(ticket);
        // If it was, the request has arrived, whose answer nobody has waited for.
        let is_uncertain = doubt.is_unanswered() || doubt.is_under_way() && !was_found;
        // The same owner has acquired the lock too, perhaps after this wait was granted it: then the server could not tell
        // whose hold is whose, and has left both.
        let is_mixed_up = hold.has_others(began);
        let is_to_be_given_back = hold.attempt_failed(side, is_uncertain || !was_found && hold.is_shared());
        let is_to_be_given_back = is_to_be_given_back || (!was_found || is_mixed_up) && hold.is_idle(side);
        if is_to_be_given_back || is_mixed_up && hold.mark_doubtful(side) {
            all(&shared_by_task, hold, side, lease);
        }
        drop(settling);
    });
}

/// Gives back one hold, or all. `vouched`: until when it can still be vouched for, unless it is lost already.
pub(super) fn begin(
    shared: &Arc<Shared>,
    hold: Arc<Hold>,
    side: Side,
    extent: Extent,
    lease: Duration,
    vouched: Option<Instant>,
) -> Outcome {
    let (tell, outcome) = oneshot::channel();
    let tell = Some((tell, Unsettled::begin(shared)));
    let (shared, late) = (shared.clone(), FuturesUnordered::new());
    let (unanswered, interrupted) = (None, None);
    let thread = shared.thread.clone();
    thread.detach(GivingBack { shared, hold, side, lease, vouched, late, unanswered, interrupted, tell }.run(extent));
    outcome
}

/// For how many leases a server is asked that does not answer.
const LEASES_MAX: u32 = 10;

struct GivingBack {
    shared: Arc<Shared>,
    hold: Arc<Hold>,
    side: Side,
    lease: Duration,
    vouched: Option<Instant>,
    /// Answers to releases that were given up, which may still come.
    late: FuturesUnordered<LateAnswer>,
    /// Why the answer to a request that was sent will never come.
    unanswered: Option<RedisError>,
    /// What came between this client and the server: the server that answers now may have forgotten its locks.
    interrupted: Option<RedisError>,
    tell: Option<(oneshot::Sender<Result<(), Error>>, Unsettled)>,
}

impl GivingBack {
    async fn run(mut self, extent: Extent) {
        match extent {
            Extent::All => self.give_back_all().await,
            Extent::One => self.give_back_one().await,
        }
    }

    /// The server must receive this once only. Where it may have, sending it again could take what another guard has.
    async fn give_back_one(&mut self) {
        let (began, mut pause) = (Instant::now(), Pause::short());
        loop {
            let fault = match self.release(Extent::One).await {
                Ok(released) => return self.tell_of(released).await,
                Err(fault) => fault,
            };
            let unknown = matches!(fault, Fault::Silent(_));
            if !unknown && fault.may_pass() && began.elapsed() < self.shared.settings.patience {
                sleep(pause.next()).await;
                continue;
            }
            if fault.may_pass() && self.hold.mark_doubtful(self.side) {
                self.give_back_all().await;
            }
            return self.tell_fault(fault).await;
        }
    }

    async fn give_back_all(&mut self) {
        let began = Instant::now();
        let (mut until, last) = (began + self.lease, began + self.lease * LEASES_MAX);
        let (mut growing, mut short) = (Pause::growing(), Pause::short());
        while Instant::now() < until {
            let hold = self.hold.clone();
            let nobody_acquires = hold.releasing.lock().await;
            if !self.hold.is_idle(self.side) {
                // There is a new attempt or guard under this owner, and the last guard to go will give back all.
                return self.tell_unless_it_was_held(|it| it.doubtful()).await;
            }
            let answer = self.release(Extent::All).await;
            drop(nobody_acquires);
            let pause = match answer {
                Ok(released) => {
                    self.tell_of(released).await;
                    if released == Released::Yes || !self.hold.is_doubtful(self.side) {
                        break;
                    }
                    growing.next()
                }
                Err(fault) if !fault.may_pass() => return self.tell_fault(fault).await,
                Err(fault) => {
                    log(Level::DEBUG, || {
                        let (hold, fault) = (self.hold.clone(), fault.clone());
                        move || debug!(?fault, lock = %hold.name(), "not given back yet")
                    });
                    if began.elapsed() >= self.shared.settings.patience {
                        self.tell_fault(fault).await;
                    }
                    until = last.min(Instant::now() + self.lease);
                    short.next()
                }
            };
            sleep(pause.min(until.saturating_duration_since(Instant::now()))).await;
        }
        self.hold.all_given_back(self.side);
        // Its lease must have ended by now.
        self.tell(Err(Error::new(ErrorKind::Unavailable, &self.hold.key)));
    }

    async fn release(&mut self, extent: Extent) -> Result<Released, Fault> {
        let Hold { key, holder, .. } = &*self.hold;
        let command = request::release(self.side, key, holder, extent);
        let is_awaited = self.tell.as_ref().is_some_and(|(tell, _)| !tell.is_closed());
        let mut doubt = if is_awaited { Doubt::keeping_answers() } else { Doubt::default() };
        let answer = self.shared.links.ask(key, &doubt, &command).await;
        match (doubt.late_answer(), &answer) {
            (Some(late), _) => self.late.push(late),
            (None, Err(fault)) if fault.doubts_the_server() => {
                let cause = fault.clone().into_cause();
                if doubt.remains() {
                    self.unanswered = Some(cause.clone());
                }
                self.interrupted = Some(cause);
            }
            _ => {}
        }
        request::released(&answer?.value)
    }

    async fn tell_of(&mut self, released: Released) {
        match released {
            Released::Yes => self.tell(Ok(())),
            Released::Nothing => self.tell_absence(Error::new(ErrorKind::Lost, &self.hold.key)).await,
        }
    }

    async fn tell_fault(&mut self, fault: Fault) {
        // With something else in its place, it is not held.
        let overwritten = fault.is_overwritten();
        let error = fault.into_error(&self.hold.key);
        match overwritten {
            true => self.tell_absence(error.into_loss()).await,
            false => self.tell(Err(error)),
        }
    }

    /// The server says that it is not held, in these words.
    async fn tell_absence(&mut self, lost: Error) {
        let answered_at = Instant::now();
        self.tell_unless_it_was_held(|it| {
            let has_ended = it.vouched.is_some_and(|until| until <= answered_at);
            match (&it.unanswered, &it.interrupted) {
                (Some(_), _) => it.doubtful(),
                (None, Some(_)) if has_ended => it.doubtful(),
                (None, None) if has_ended => Error::because(ErrorKind::Unavailable, &it.hold.key, too_late()),
                (None, _) => lost,
            }
        })
        .await;
    }

    /// Tells that it was held after all, if a late answer says so; else the error.
    async fn tell_unless_it_was_held(&mut self, error: impl FnOnce(&Self) -> Error) {
        if self.tell.is_some() {
            let was_held = self.was_held().await;
            self.tell(if was_held { Ok(()) } else { Err(error(self)) });
        }
    }

    /// Whether one of the late answers says so. A server that answers now has sent them by now, or never will.
    async fn was_held(&mut self) -> bool {
        let limit = self.shared.links.limits.answer;
        while !self.late.is_empty() {
            let answer = timeout(limit, self.late.next()).await.unwrap_or_else(|_| {
                self.late.clear();
                Some(Err(Fault::Silent(Fault::timed_out())))
            });
            match answer.map(|answer| answer.and_then(|answer| request::released(&answer))) {
                Some(Ok(Released::Yes)) => return true,
                Some(Err(Fault::Silent(cause))) => self.unanswered = Some(cause),
                // That request has given nothing back.
                Some(_) | None => {}
            }
        }
        false
    }

    fn doubtful(&self) -> Error {
        let cause = self.unanswered.clone().or_else(|| self.interrupted.clone());
        Error::in_doubt(&self.hold.key, cause.unwrap_or_else(Fault::timed_out))
    }

    /// Only the first result is told. A lock that was lost before its release stays lost, whatever the server says of
    /// it.
    fn tell(&mut self, result: Result<(), Error>) {
        if let Some((tell, _settled)) = self.tell.take() {
            self.late.clear();
            // The caller may have gone.
            let _ = tell.send(match self.vouched {
                Some(_) => result,
                None => result.map_err(Error::into_loss),
            });
        }
    }
}

fn too_late() -> RedisError {
    RedisError::from(io::Error::new(io::ErrorKind::TimedOut, "not before the lease had ended"))
}
