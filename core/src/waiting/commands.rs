//! What the commands do: decide, apply, and serve the waiters. The server and the random histories both call this code, so
//! the tested code is the shipped code.

use super::agenda::{Cancelled, Cancelling, TicketNames};
use super::engine::Engine;
use super::host::{Act, Answer, Host, Kept, Paused, Permission, Purpose, Text, Trigger, WaitsFor};
use super::queue::{Joins, LockName, QueueFull, Ticket};
use super::serve::{Settled, Tried, acquire_open, lease_end};
use super::sessions::NoSession;
use super::tickets::Call;
use super::tickets::Use;
use super::waiter::{AskedBy, Names, Recipient, SessionId, Waiter};
use crate::lock::{
    self, Ahead, Busy, Lease, Obstacle, Outcome, Plan, Record, Refusal, Release, Released, Renewed, Side, UnixMs,
    Verdict, Wish, names,
};
use std::collections::BTreeSet;
use std::rc::Rc;

/// How a client waits for a lock that is not granted at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting<T> {
    /// 0 means forever.
    pub limit_ms: i64,
    /// The client waits only if fewer than this many waiters wait for the lock already.
    pub max: Option<usize>,
    /// Without a ticket, the client is blocked.
    pub ticket: Option<T>,
}

/// The same with the ticket of an open session.
pub type Wait<'a> = Waiting<(SessionId, &'a [u8])>;

/// What became of an acquire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acquiring {
    Done(Outcome),
    /// Several locks, with their fencing tokens, if they were asked for.
    GrantedAll {
        tokens: Vec<i64>,
    },
    /// The answer that another holder's work has left.
    Answered(Rc<[u8]>),
    /// The client is blocked as this waiter, and gets its answer later.
    Blocked(Ticket),
    /// The ticket waits, and the session gets an event later.
    Waiting,
    /// This many waiters wait for the lock already, and the client's `max` allows no more. Nothing is changed.
    TurnedAway {
        waiting: usize,
    },
}

/// What a client asks for.
struct Request<'a, T> {
    keys: &'a [T],
    locks: &'a [LockName<'a>],
    asked_by: AskedBy,
    wish: &'a Wish<T>,
}

/// A lock that a client asks for.
struct Opened<L> {
    record: L,
    /// Whether another client waits for it that this one may not overtake.
    ahead: Ahead,
    /// The waiters that this one overtakes if it is granted the lock.
    overtaken: Vec<Ticket>,
}

/// What became of a call for events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polled {
    /// It is answered now.
    Answered(SessionId),
    /// The client is blocked, and gets its answer later.
    Waits(SessionId),
    /// Another connection has taken over: there is nothing for this one.
    TakenOver,
}

/// Why a command does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejected {
    Refused(Refusal),
    /// The server may not write.
    Paused,
    /// The server stalled, and may not grant or renew yet.
    Stalled,
    /// The ticket waits for something else, or its event is not acknowledged.
    TicketInUse,
    /// Blocked clients would have more claims than they may.
    QueueFull,
    /// Tickets would have more claims than they may.
    TicketsFull,
    /// More than [`CANCELLED_AT_ONCE`] tickets are to be taken back at once.
    TooManyTickets,
    /// The value is longer than an answer may be.
    AnswerTooLong,
    /// The tickets of this user would have more claims than one user may have.
    TicketsOfUserFull,
}

/// The maximum number of tickets that one step takes back, for a client that cannot be blocked.
const CANCELLED_AT_ONCE: usize = 1_000;

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

impl<C> Engine<C> {
    /// Acquires a lock for the client of this command, which may wait for it: blocked, or by a ticket of an open session.
    ///
    /// # Errors
    /// With nothing changed.
    pub fn acquire<'a, H: Host<Client = C>>(
        &mut self,
        host: &'a H,
        key: Text<'a, H>,
        wish: &Wish<Text<'a, H>>,
        waiting: Option<Wait<'_>>,
    ) -> Result<Acquiring, Rejected> {
        self.acquire_by(AskedBy::Acquire, host, key, wish, waiting)
    }

    #[allow(clippy::inline_always, reason = "as for [`lock::acquire`]")]
    #[inline(always)]
    pub(super) fn acquire_by<'a, H: Host<Client = C>>(
        &mut self,
        asked_by: AskedBy,
        host: &'a H,
        key: Text<'a, H>,
        wish: &Wish<Text<'a, H>>,
        waiting: Option<Wait<'_>>,
    ) -> Result<Acquiring, Rejected> {
        may_go_on(host)?;
        let is_by_ticket = waiting.is_some_and(|waiting| waiting.ticket.is_some());
        if is_by_ticket && self.waits_already(host, (&[key], asked_by), wish, waiting)? {
            return Ok(Acquiring::Waiting);
        }
        let Opened { record, ahead, overtaken } = self.open(host, key, wish);
        let (grace, now) = (self.grace(host), host.now());
        let verdict = lock::acquire(&record, wish, ahead, grace, now)?;
        if asked_by == AskedBy::Once && may_begin(&verdict, waiting) && record.answer_may_be_elsewhere() {
            return Err(Refusal::KeysOnTheirWay.into());
        }
        let busy = match verdict {
            Verdict::Granted(effect) => {
                host.commit(record, &Plan::of(wish.holder, &effect.changes), Vec::new())?;
                self.granted_at_once(host, &[key], overtaken);
                return Ok(Acquiring::Done(Outcome::Granted { token: effect.token }));
            }
            Verdict::Busy(busy) => busy,
        };
        drop(record);
        // Most requests that find a lock busy do not wait for it.
        if waiting.is_none() {
            return Ok(self.refuse(host, &[key], &[(0, busy)]));
        }
        let locks = &[name_of(host, &key)];
        self.wait(host, &Request { keys: &[key], locks, asked_by, wish }, waiting, &[(0, busy)])
    }

    /// The same for several different plain locks: all or none.
    ///
    /// # Errors
    /// With nothing changed.
    pub fn acquire_all<'a, H: Host<Client = C>>(
        &mut self,
        host: &'a H,
        keys: &[Text<'a, H>],
        wish: &Wish<Text<'a, H>>,
        waiting: Option<Wait<'_>>,
    ) -> Result<Acquiring, Rejected> {
        may_go_on(host)?;
        if wish.fenced && one_counts_for_another(keys) {
            return Err(Refusal::BadToken.into());
        }
        let asked_by = AskedBy::AcquireAll;
        if self.waits_already(host, (keys, asked_by), wish, waiting)? {
            return Ok(Acquiring::Waiting);
        }
        let mut busy = Vec::new();
        let mut overtaken = Vec::new();
        for (number, key) in keys.iter().enumerate() {
            let opened = if busy.is_empty() {
                self.open(host, *key, wish)
            } else {
                // One lock is busy, so nothing will be granted, and the waiters of the other locks need not be checked.
                Opened { record: host.open(*key, wish.holder), ahead: Ahead::Nobody, overtaken: Vec::new() }
            };
            match lock::acquire(&opened.record, wish, opened.ahead, self.grace(host), host.now())? {
                Verdict::Granted(_) => overtaken.extend(opened.overtaken),
                Verdict::Busy(one) => busy.push((number, one)),
            }
        }
        if !busy.is_empty() {
            let locks = &names_of(host, keys);
            return self.wait(host, &Request { keys, locks, asked_by, wish }, waiting, &busy);
        }
        // Each lock could be granted when it was checked, and nothing has happened to any lock since: only a pause can be in
        // the way.
        let Tried::Granted(_, grants) = acquire_open(host, keys, wish, self.grace(host)) else {
            return Err(Rejected::Paused);
        };
        self.granted_at_once(host, keys, overtaken);
        let tokens = grants.iter().filter_map(|grant| grant.token).collect();
        Ok(Acquiring::GrantedAll { tokens })
    }

    fn granted_at_once<H: Host<Client = C>>(&mut self, host: &H, keys: &[Text<'_, H>], overtaken: Vec<Ticket>) {
        if self.length() > 0 {
            self.are_overtaken(overtaken);
            for key in keys {
                self.settle(host, name_of(host, key), Trigger::Command);
            }
        }
        self.counters.granted_at_once = self.counters.granted_at_once.wrapping_add(1);
    }

    /// Whether this very ticket waits, or was granted what it waited for.
    ///
    /// # Errors
    /// If it is in use for something else.
    fn waits_already<'a, H: Host<Client = C>>(
        &self,
        host: &'a H,
        (keys, asked_by): (&[Text<'a, H>], AskedBy),
        wish: &Wish<Text<'a, H>>,
        waiting: Option<Wait<'_>>,
    ) -> Result<bool, Rejected> {
        let Some((session, ticket)) = waiting.and_then(|waiting| waiting.ticket) else { return Ok(false) };
        let (locks, wish) = (names_of(host, keys), wish.with_holder(wish.holder.as_ref()));
        match self.use_of(session, ticket, (&locks, asked_by), &wish) {
            Use::Free => Ok(false),
            Use::Same => Ok(true),
            Use::Other => Err(Rejected::TicketInUse),
        }
    }

    /// Makes the client of this command wait for its locks, some of which are busy, if it wants to and can.
    fn wait<'a, H: Host<Client = C>>(
        &mut self,
        host: &'a H,
        request: &Request<'_, Text<'a, H>>,
        waiting: Option<Wait<'_>>,
        busy: &[(usize, Busy)],
    ) -> Result<Acquiring, Rejected> {
        let by_ticket = waiting.and_then(|waiting| waiting.ticket);
        let waiting = waiting.filter(|_| by_ticket.is_some() || host.allows(Act::Block));
        let Some(Waiting { limit_ms, max, .. }) = waiting else { return Ok(self.refuse(host, request.keys, busy)) };
        if busy.iter().any(|(_, busy)| busy.waits_for_itself) {
            return Err(Refusal::Deadlock.into());
        }
        let locks = request.locks;
        let former = self.wait_of(request.wish.holder.as_ref(), locks, request.asked_by);
        // Only a request that must wait gets here. One that takes the place of a former request makes no queue longer.
        let longest = || locks.iter().map(|lock| self.queues.length_of(*lock)).max().unwrap_or(0);
        if let Some(waiting) =
            max.filter(|_| former.is_none()).and_then(|max| Some(longest()).filter(|all| *all >= max))
        {
            self.counters.turned_away = self.counters.turned_away.wrapping_add(1);
            return Ok(Acquiring::TurnedAway { waiting });
        }
        // Checked before the client is blocked, since it cannot be unblocked without an answer. A blocked client leaves its room
        // to the one that takes its place. A ticket does not: its event takes the same room.
        let session = by_ticket.map(|(session, _)| session);
        if session.is_some() || former.is_none_or(|former| self.client(former).is_none()) {
            self.check_room(host, session, locks.len())?;
        }
        let Some(waiter) = waiter_for(host, request, by_ticket) else {
            return Ok(self.refuse(host, request.keys, busy));
        };
        let now = host.now();
        let deadline = (limit_ms > 0).then(|| now.checked_add(limit_ms)).flatten();
        let joins = self.places(locks, busy, former);
        if let Some(former) = former {
            self.let_go(host, former, Outcome::Replaced);
        }
        let full = if by_ticket.is_some() { Rejected::TicketsFull } else { Rejected::QueueFull };
        let ticket = self.join(locks, &joins, waiter, now, deadline).map_err(|QueueFull| full)?;
        self.look_again(locks, busy, former.is_some() || request.asked_by == AskedBy::AcquireAll, now);
        let client = self.client(ticket);
        host.waits(Some(request.wish.side), client.map(|client| (client, WaitsFor::Lock(ticket))));
        Ok(if client.is_some() { Acquiring::Blocked(ticket) } else { Acquiring::Waiting })
    }

    /// Schedules checks of the busy locks of a new waiter: at the end of their leases, and also at once if the waiter may be
    /// granted them now.
    fn look_again(&mut self, locks: &[LockName<'_>], busy: &[(usize, Busy)], may_be_now: bool, now: UnixMs) {
        for (number, Busy { left_ms, .. }) in busy {
            let Some(lock) = locks.get(*number).and_then(|lock| self.queues.find(*lock)) else { continue };
            if let Some(end) = lease_end(now, *left_ms) {
                self.recheck_by(lock, end);
            }
            if may_be_now {
                self.changed(lock);
            }
        }
    }

    /// Whether one more request for so many locks may wait: by a ticket of this session, or else as a blocked client.
    fn check_room<H: Host<Client = C>>(
        &self,
        host: &H,
        session: Option<SessionId>,
        locks: usize,
    ) -> Result<(), Rejected> {
        let fits = |claims: usize, most| claims.saturating_add(locks) <= most;
        let Some(session) = session else {
            let most = host.limit(Kept::Blocked).filter(|most| fits(self.claims_of_clients(), most.all));
            return most.map(|_| ()).ok_or(Rejected::QueueFull);
        };
        let most = host.limit(Kept::Tickets).filter(|most| fits(self.claims_of_tickets(), most.all));
        let of_user = self.sessions.get(session).map_or(0, |session| session.owner.claims.get());
        let fits_user = fits(of_user, most.ok_or(Rejected::TicketsFull)?.of_user());
        if fits_user { Ok(()) } else { Err(Rejected::TicketsOfUserFull) }
    }

    /// The place of a new waiter in the queue of each lock: that of the former request of its holder; or the front, if only a
    /// grace keeps it from a lock that its holder has, since the others wait for that holder; otherwise the end. An empty
    /// list means the end of each queue.
    fn places(&mut self, locks: &[LockName<'_>], busy: &[(usize, Busy)], former: Option<Ticket>) -> Vec<Joins> {
        let reenters = |busy: &Busy| busy.obstacle == (Obstacle::Grace { reenters: true });
        if former.is_none() && !busy.iter().any(|(_, busy)| reenters(busy)) {
            return Vec::new();
        }
        // Waiters are dismissed by their numbers, so a new waiter must not get one of these numbers.
        let is_dismissing = self.next_dismissed().is_some();
        let former = former.filter(|former| !self.is_dismissed(*former));
        let goes_first =
            |number: usize| busy.iter().any(|(of, busy)| *of == number && reenters(busy)) && !is_dismissing;
        let place = |(number, lock): (usize, &LockName<'_>)| match former {
            _ if goes_first(number) => Joins::First,
            Some(former) => self.claim_of(former, *lock).map_or(Joins::Last, Joins::At),
            None => Joins::Last,
        };
        locks.iter().enumerate().map(place).collect()
    }

    /// The answer to a client that does not wait, or that cannot be blocked.
    fn refuse<'a, H: Host<Client = C>>(
        &mut self,
        host: &'a H,
        keys: &[Text<'a, H>],
        busy: &[(usize, Busy)],
    ) -> Acquiring {
        let left_of = |(number, busy): &(usize, Busy)| match (busy.left_ms, keys.get(*number)) {
            (0, Some(key)) => self.kept_for_ms(host, name_of(host, key)),
            (left_ms, _) => left_ms,
        };
        let left_ms = busy.iter().map(left_of).reduce(lock::longer_left).unwrap_or(0);
        self.counters.refusals = self.counters.refusals.wrapping_add(1);
        Acquiring::Done(Outcome::Busy { left_ms })
    }

    /// Opens a lock, and finds out whether another client waits for it. A lock whose key is gone belongs to the waiters first, even
    /// if the server has not reported that yet.
    #[allow(clippy::inline_always, reason = "without waiters it only opens the lock")]
    #[inline(always)]
    fn open<'a, H: Host<Client = C>>(
        &mut self,
        host: &'a H,
        key: Text<'a, H>,
        wish: &Wish<Text<'a, H>>,
    ) -> Opened<H::Lock<'a>> {
        let record = host.open(key, wish.holder);
        if self.length() == 0 {
            return Opened { record, ahead: Ahead::Nobody, overtaken: Vec::new() };
        }
        self.opened_among_waiters(host, key, wish, record)
    }

    fn opened_among_waiters<'a, H: Host<Client = C>>(
        &mut self,
        host: &'a H,
        key: Text<'a, H>,
        wish: &Wish<Text<'a, H>>,
        record: H::Lock<'a>,
    ) -> Opened<H::Lock<'a>> {
        let opened = |record, ahead| Opened { record, ahead, overtaken: Vec::new() };
        let lock = name_of(host, &key);
        let Some(id) = self.queues.find(lock) else { return opened(record, Ahead::Nobody) };
        if record.is_there() {
            // Only a request for a shared side may join the holders, past waiters that are aside.
            let may_join = wish.side.is_shared() && !self.sessions.is_empty();
            let is_first = may_join && matches!(self.next_in_line(host, id, None, host.now()), Ok(None));
            return opened(record, if is_first { Ahead::Nobody } else { Ahead::Someone });
        }
        drop(record);
        let settled = self.settle(host, lock, Trigger::Command);
        let record = host.open(key, wish.holder);
        match settled {
            // A lock of another kind would keep the overtaken waiters out for good.
            Settled::MayBeOvertaken(overtaken) if overtaken.is_empty() || wish.side == Side::Plain => {
                Opened { record, ahead: Ahead::Nobody, overtaken }
            }
            _ => opened(record, Ahead::Someone),
        }
    }

    /// Releases one hold of a holder, or all. If that frees a lock with waiters, the first of them gets it in the same step.
    ///
    /// # Errors
    /// With nothing changed.
    pub fn release<'a, H: Host<Client = C>>(
        &mut self,
        host: &'a H,
        key: Text<'a, H>,
        holder: Text<'a, H>,
        want: Release,
    ) -> Result<Released, Rejected> {
        // A hold that stays may get a new lease.
        if want.lease.is_some() {
            may_go_on(host)?;
        }
        let record = host.open(key, holder);
        let now = host.now();
        let decision = lock::release(&record, want, self.grace(host), now)?;
        self.release_open(host, key, record, &Plan::of(holder, &decision.changes), Trigger::Command, now)?;
        Ok(decision.answer)
    }

    /// Restarts the lease of everything that a holder holds.
    ///
    /// # Errors
    /// With nothing changed.
    pub fn renew<'a, H: Host<Client = C>>(
        &mut self,
        host: &'a H,
        key: Text<'a, H>,
        holder: Text<'a, H>,
        lease: Lease,
    ) -> Result<Renewed, Rejected> {
        may_go_on(host)?;
        let record = host.open(key, holder);
        let decision = lock::renew(&record, lease, self.grace(host), host.now())?;
        host.commit(record, &Plan::of(holder, &decision.changes), Vec::new())?;
        if self.length() > 0 {
            self.settle(host, name_of(host, &key), Trigger::Command);
        }
        Ok(decision.answer)
    }

    /// A call for the events of a session, which it opens if need be. Without news the call may wait for `wait_ms`: 0 means as
    /// long as a call may wait.
    ///
    /// # Errors
    /// If the session cannot be had.
    pub fn poll<H: Host<Client = C>>(
        &mut self,
        host: &H,
        name: &[u8],
        owner: &[u8],
        call: Call,
        wait_ms: Option<i64>,
    ) -> Result<Polled, NoSession> {
        let now = host.now();
        let (session, former) = match self.call(name, owner, call, || host.limit(Kept::Sessions), now) {
            Err(NoSession::TakenOver) => return Ok(Polled::TakenOver),
            called => called?,
        };
        if let Some(former) = former {
            host.answer(former, Answer::Events);
        }
        let limit_ms = wait_ms.filter(|_| !self.has_news(session) && host.allows(Act::Block));
        let Some((limit_ms, client)) = limit_ms.and_then(|limit_ms| Some((limit_ms, host.block()?))) else {
            return Ok(Polled::Answered(session));
        };
        host.waits(None, Some((&client, WaitsFor::Events(session))));
        self.sessions.wait(session, client, limit_ms, now);
        self.returns(session, now);
        Ok(Polled::Waits(session))
    }

    /// Takes tickets of a session back. Returns what became of each; None if that takes longer than a turn, and the client is
    /// blocked for it.
    ///
    /// # Errors
    /// If there are more tickets than one turn may take, and the client cannot be blocked. Nothing has changed then.
    pub fn cancel<H: Host<Client = C>>(
        &mut self,
        host: &H,
        session: SessionId,
        names: TicketNames,
    ) -> Result<Option<Vec<Cancelled>>, Rejected> {
        let may_wait = host.allows(Act::Block);
        let is_many = names.len() > CANCELLED_AT_ONCE;
        let mut cancelling = Cancelling { client: None, session, names, done: Vec::new() };
        if !is_many {
            while self.cancel_on(host, &mut cancelling) && !(may_wait && host.turn_is_over()) {}
            if cancelling.names.is_empty() {
                return Ok(Some(cancelling.done));
            }
        }
        match may_wait.then(|| host.block()).flatten() {
            Some(client) => {
                host.waits(None, Some((&client, WaitsFor::Cancel)));
                cancelling.client = Some(client);
                self.cancelling.push_back(cancelling);
                Ok(None)
            }
            None if is_many => Err(Rejected::TooManyTickets),
            None => {
                while self.cancel_on(host, &mut cancelling) {}
                Ok(Some(cancelling.done))
            }
        }
    }

    /// Ends the wait of a blocked client. Returns the client if it has not been unblocked. A grant whose reply was not sent is
    /// released.
    pub fn stop_waiting(&mut self, what: WaitsFor, now: UnixMs, is_it: impl Fn(&C) -> bool) -> Option<C> {
        match what {
            WaitsFor::Lock(ticket) => self.gone(ticket),
            WaitsFor::Events(session) => {
                self.sessions.get(session)?.poll().filter(|poll| is_it(poll))?;
                self.sessions.take_poll(session, now)
            }
            // The rest of its tickets is taken back all the same.
            WaitsFor::Cancel => {
                let mut waiting = self.cancelling.iter_mut().map(|cancelling| &mut cancelling.client);
                waiting.find(|client| client.as_ref().is_some_and(&is_it))?.take()
            }
            WaitsFor::Answer => None,
        }
    }
}

/// The waiter of a request: a ticket, or the client of the command, blocked. None if it cannot be blocked.
fn waiter_for<'a, H: Host>(
    host: &'a H,
    request: &Request<'_, Text<'a, H>>,
    by_ticket: Option<(SessionId, &[u8])>,
) -> Option<Waiter<H::Client>> {
    let holder = request.wish.holder.as_ref();
    let (recipient, names) = match by_ticket {
        Some((session, ticket)) => (Recipient::Session(session), Names::of_ticket(holder, ticket)),
        None => (Recipient::Client(host.block()?), Names::from(holder)),
    };
    Some(Waiter::new(recipient, request.wish.with_holder(names), request.asked_by))
}

/// A server that stalled grants and renews nothing until it knows whether it is still a master.
#[inline]
pub(super) fn may_go_on<H: Host>(host: &H) -> Result<(), Rejected> {
    let permission = host.permission(None, Purpose::Command);
    if matches!(permission, Permission::Later(_)) { Err(Rejected::Stalled) } else { Ok(()) }
}

/// Whether a request begins the lock, now or after a wait.
fn may_begin(verdict: &Verdict, waiting: Option<Wait<'_>>) -> bool {
    match verdict {
        Verdict::Granted(effect) => effect.changes.begins(),
        Verdict::Busy(_) => waiting.is_some(),
    }
}

/// Whether one of these keys is the fencing counter of another: a lock cannot count. Without this check, that would be found
/// out only when the lock is held.
fn one_counts_for_another<K: AsRef<[u8]>>(keys: &[K]) -> bool {
    let all: BTreeSet<_> = keys.iter().map(AsRef::as_ref).collect();
    all.iter().any(|key| names::fencing_counter(key, |counter| all.contains(counter)))
}

fn names_of<'a, H: Host>(host: &H, keys: &'a [Text<'_, H>]) -> Vec<LockName<'a>> {
    keys.iter().map(|key| name_of(host, key)).collect()
}

pub(super) fn name_of<'a, H: Host>(host: &H, key: &'a Text<'_, H>) -> LockName<'a> {
    LockName { database: host.database(), key: key.as_ref() }
}
