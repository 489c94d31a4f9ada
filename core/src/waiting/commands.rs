//! What the commands do: decide, make it true, and serve those who wait. The server and the random histories both come in
//! here, so what is proven is what is shipped.

use super::delivery::Use;
use super::host::{Host, Paused, Trigger};
use super::queue::{LockName, Ticket};
use super::serve;
use super::sessions::SessionId;
use super::waiter::{Names, Recipient, Waiter};
use crate::lock::{
    self, Acquired, Ahead, BROKEN_MAX, Lease, Outcome, Plan, Record, Refusal, Release, Released, Renewed, Side, UnixMs,
    Wish,
};

/// How a client waits for a lock that is not granted at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting<T> {
    /// 0 means for ever.
    pub limit_ms: i64,
    /// Without, the client is blocked.
    pub ticket: Option<T>,
}

/// What became of an acquire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acquiring {
    Done(Outcome),
    /// The client is blocked as this waiter, and gets its answer later.
    Blocked(Ticket),
    /// The ticket waits, and the session is told later.
    Waiting,
}

/// Why a command does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejected {
    Refused(Refusal),
    /// The server may not write.
    Paused,
    /// The ticket waits for something else, or its event is not acknowledged.
    TicketInUse,
    /// As many clients are blocked as may be.
    QueueFull,
    /// As many tickets are in use as may be.
    TicketsFull,
}

impl From<Refusal> for Rejected {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Paused> for Rejected {
    fn from(_: Paused) -> Self {
        Self::Paused
    }
}

/// Acquires a lock for the client of this command, which may wait for it: blocked, or by a ticket of an open session.
///
/// # Errors
/// With nothing changed.
pub fn acquire<'a, H: Host>(
    host: &'a H,
    key: H::Text<'a>,
    wish: &Wish<H::Text<'a>>,
    waiting: Option<Waiting<(SessionId, H::Text<'a>)>>,
) -> Result<Acquiring, Rejected> {
    let by_ticket = waiting.and_then(|waiting| waiting.ticket);
    if let Some((session, ticket)) = by_ticket {
        let (lock, wish) = (name_of(host, &key), wish.with_holder(wish.holder.as_ref()));
        match host.with_table(|table| table.use_of(session, ticket.as_ref(), lock, &wish)) {
            Use::Free => {}
            Use::Same => return Ok(Acquiring::Waiting),
            Use::Other => return Err(Rejected::TicketInUse),
        }
    }
    let (record, ahead) = open(host, key, wish);
    let now = host.now();
    let decision = lock::acquire(&record, wish, ahead, now)?;
    let limit_ms = match (decision.answer, waiting) {
        (Acquired::Granted { token }, _) => {
            host.commit(record, &Plan::of(wish.holder, &decision.changes))?;
            if host.anyone_waits() {
                serve::settle_behind(host, name_of(host, &key), wish.holder.as_ref(), Trigger::Command);
            }
            return Ok(Acquiring::Done(Outcome::Granted { token }));
        }
        (Acquired::Busy, Some(Waiting { limit_ms, .. })) if by_ticket.is_some() || host.may_block() => limit_ms,
        (Acquired::Busy, _) => return busy(&record, wish.side, now),
    };
    lock::check_wait(wish.side, &record)?;
    // Whoever is ahead has had it looked at; but with sessions, perhaps nobody attends those who are.
    let must_know = ahead == Ahead::Nobody || host.with_table(|table| table.has_sessions());
    let left_ms = must_know.then(|| lock::left_ms(wish.side, &record, now)).transpose()?;
    drop(record);
    let deadline = (limit_ms > 0).then(|| now.checked_add(limit_ms)).flatten();
    let lock = name_of(host, &key);
    if let Some((session, ticket)) = by_ticket {
        host.listen(wish.side);
        let names = Names::of_ticket(wish.holder.as_ref(), ticket.as_ref());
        let waiter = Waiter { recipient: Recipient::Session(session), wish: wish.with_holder(names) };
        serve::wait(host, lock, waiter, now, host.most_tickets(), deadline, left_ms)
            .map_err(|_| Rejected::TicketsFull)?;
        return Ok(Acquiring::Waiting);
    }
    // Checked before the client is blocked, since it cannot be unblocked without an answer.
    let most = host.most_blocked();
    if host.with_table(|table| table.blocked_clients() >= most) {
        return Err(Rejected::QueueFull);
    }
    host.listen(wish.side);
    let Some(client) = host.block() else { return busy(&host.open(key, wish.holder), wish.side, now) };
    let waiter =
        Waiter { recipient: Recipient::Client(client), wish: wish.with_holder(Names::from(wish.holder.as_ref())) };
    let ticket = serve::wait(host, lock, waiter, now, most, deadline, left_ms).map_err(|_| Rejected::QueueFull)?;
    Ok(Acquiring::Blocked(ticket))
}

/// For a client that does not wait, or that cannot be blocked.
fn busy(record: &impl Record, side: Side, now: UnixMs) -> Result<Acquiring, Rejected> {
    Ok(Acquiring::Done(Outcome::Busy { left_ms: lock::left_ms(side, record, now)? }))
}

/// Opens a lock, and returns whether another client waits for it. A lock whose key is gone is the waiters' first, even
/// if the server has not yet reported that.
fn open<'a, H: Host>(host: &'a H, key: H::Text<'a>, wish: &Wish<H::Text<'a>>) -> (H::Lock<'a>, Ahead) {
    let record = host.open(key, wish.holder);
    if !host.anyone_waits() {
        return (record, Ahead::Nobody);
    }
    let lock = name_of(host, &key);
    if !host.with_table(|table| table.is_waited_for(lock)) {
        return (record, Ahead::Nobody);
    }
    if record.is_there() {
        // Only a reader may join others in the lock, past waiters whom nobody attends.
        let may_pass = wish.side == Side::Read && host.with_table(|table| table.has_sessions());
        return (record, if may_pass { serve::ahead(host, lock) } else { Ahead::Someone });
    }
    drop(record);
    let ahead = serve::settle(host, lock, Trigger::Command);
    (host.open(key, wish.holder), ahead)
}

/// Gives holds back. If that frees a lock with waiters, the first of them gets it in the same step.
///
/// # Errors
/// With nothing changed.
pub fn release<'a, H: Host>(
    host: &'a H,
    key: H::Text<'a>,
    holder: H::Text<'a>,
    want: Release,
) -> Result<Released, Rejected> {
    let record = host.open(key, holder);
    let decision = lock::release(&record, want, host.now())?;
    serve::release(host, key, record, &Plan::of(holder, &decision.changes), Trigger::Command)?;
    Ok(decision.answer)
}

/// Restarts the lease of everything that a holder holds.
///
/// # Errors
/// With nothing changed.
pub fn renew<'a, H: Host>(
    host: &'a H,
    key: H::Text<'a>,
    holder: H::Text<'a>,
    lease: Lease,
) -> Result<Renewed, Rejected> {
    let record = host.open(key, holder);
    let decision = lock::renew(&record, lease, host.now())?;
    host.commit(record, &Plan::of(holder, &decision.changes))?;
    settle(host, key);
    Ok(decision.answer)
}

/// Breaks a lock, whoever has it: a release of every hold that anyone has. Returns whether there was one.
///
/// # Errors
/// With nothing changed.
pub fn break_lock<'a, H: Host>(host: &'a H, key: H::Text<'a>) -> Result<bool, Rejected> {
    let Some(snapshot) = host.snapshot(key, BROKEN_MAX)? else {
        settle(host, key);
        return Ok(false);
    };
    // An empty name, which no holder has: no hold of its own is changed.
    let nobody = host.own(b"");
    let (key, nobody) = (H::shorter(key), host.lend(&nobody));
    let record = host.open(key, nobody);
    let breaking = snapshot.break_up(record.derived_keys_are_reachable());
    let plan = Plan { broken: &breaking.read_holds, ..Plan::of(nobody, &breaking.lock) };
    serve::release(host, key, record, &plan, Trigger::Command)?;
    host.with_table(|table| table.counters.breaks = table.counters.breaks.wrapping_add(1));
    Ok(true)
}

/// Serves the waiters of this lock, whose lease may have changed.
fn settle<H: Host>(host: &H, key: H::Text<'_>) {
    if host.anyone_waits() {
        serve::settle(host, name_of(host, &key), Trigger::Command);
    }
}

fn name_of<'a, H: Host>(host: &H, key: &'a H::Text<'_>) -> LockName<'a> {
    LockName { database: host.database(), key: key.as_ref() }
}
