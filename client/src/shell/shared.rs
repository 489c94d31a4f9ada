//! What all clones of a client and all its guards share: the engine, its sockets and its clock.
//!
//! **The engine is stepped where something happens**: in a caller's thread, in the driver of a socket that has read
//! something, in the thread that watches the clock. Effects are executed at once. So a free lock is acquired and
//! released without waking another thread: the task that wants it writes the request, and the runtime in which that
//! task waits reads the reply.
//!
//! That runtime may be busy or idle, with no thread in it. So the thread that watches the clock reads replies that are
//! not read soon.

use super::dial::Dialer;
use super::scout::{self, Scout, Sentinels};
use super::socket::{Socket, Watched};
use super::thread::Thread;
use crate::callbacks::{self, woken_safely};
use crate::flights::Flights;
use crate::lease::Lease;
use crate::logs;
use crate::mutex::lock;
use crate::pending::PendingReply;
use rlock_client_core::{
    Address, Answer, CallerId, ConnectionId, Effect, Engine, Error, Event, Fault, GuardId, Lane, Log, NodeId, Reply,
    Settings,
};
use std::collections::BTreeMap;
use std::io;
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};
use tokio::runtime::{self, Handle};
use tokio::sync::Notify;
use tokio::time::sleep;
use uuid::Uuid;

/// After this many requests a runtime gets its own connection. Most programs that send fewer end soon.
const ASKS_OFTEN: u32 = 64;

/// How many runtimes are counted.
const RUNTIMES_MAX: usize = 64;

/// If a caller's runtime has not read a reply for this long, the client reads it.
const UNREAD_MAX: Duration = Duration::from_millis(20);

pub(crate) struct Shared {
    pub settings: Settings,
    pub thread: Thread,
    /// The prefix of all holders except owners: the process's name, if it has one, and a uuid.
    pub identity: String,
    /// Callers that share one request for an answer.
    pub flights: Arc<Flights>,
    dialer: Dialer,
    inner: Mutex<Inner>,
    /// Signals that a look-up is needed.
    looks: Arc<Notify>,
    /// The number of the next holder, and of the next caller or runtime.
    holders: AtomicU64,
    numbers: AtomicU64,
    me: Weak<Self>,
}

struct Inner {
    engine: Engine,
    /// The flag says whether a caller's runtime reads it.
    sockets: BTreeMap<ConnectionId, (Arc<Socket>, bool)>,
    /// The next step of the engine if no event happens.
    alarm: Option<Instant>,
    /// Where callers get their replies.
    callers: BTreeMap<CallerId, PendingReply>,
    /// The leases of the existing guards.
    leases: BTreeMap<GuardId, Arc<Lease>>,
    runtimes: Vec<Runtime>,
    /// Keeps this alive while background releases are under way.
    stays: Option<Arc<Shared>>,
}

/// A runtime that sends requests.
struct Runtime {
    id: runtime::Id,
    number: u64,
    asked: u32,
    last: Instant,
    /// It has no I/O.
    is_unfit: bool,
}

/// Where the locks are.
pub(crate) enum Servers {
    One,
    Cluster(Vec<Address>),
    Sentinels(Box<Sentinels>),
}

impl Shared {
    /// `name`: the process's name in its holders.
    pub(crate) fn new(
        engine: Engine,
        settings: Settings,
        name: &str,
        dialer: Dialer,
        thread: Thread,
        servers: Servers,
    ) -> Arc<Self> {
        let uuid = Uuid::new_v4();
        let identity = if name.is_empty() { uuid.to_string() } else { format!("{name}:{uuid}") };
        let (sockets, callers, leases, runtimes, alarm, stays) = Default::default();
        let inner = Mutex::new(Inner { engine, sockets, callers, leases, runtimes, alarm, stays });
        let (looks, [holders, numbers]) = (Arc::<Notify>::default(), [(); 2].map(|()| AtomicU64::new(1)));
        let shared = Arc::new_cyclic(|me| Self {
            settings,
            thread,
            identity,
            flights: Arc::default(),
            dialer,
            inner,
            looks,
            holders,
            numbers,
            me: me.clone(),
        });
        shared.watch(servers);
        shared
    }

    /// A unique number.
    pub(crate) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Relaxed)
    }

    /// A new holder. It ends with `<uuid>:<n>`, as Redisson's ends with `<uuid>:<thread>`.
    pub(crate) fn fresh_holder(&self) -> Arc<[u8]> {
        Arc::from(format!("{}:{}", self.identity, self.holders.fetch_add(1, Relaxed)).into_bytes())
    }

    /// The lane for requests that this task waits for.
    pub(crate) fn lane(&self, key: &[u8]) -> Lane {
        let Some(current) = Handle::try_current().ok().filter(|_| !callbacks::is_blocking()) else { return Lane::Own };
        let now = Instant::now();
        let mut inner = lock(&self.inner);
        let runtime = inner.runtime(current.id(), now, || self.number());
        runtime.asked = runtime.asked.saturating_add(1);
        let rested = now - mem::replace(&mut runtime.last, now);
        let lane = Lane::Caller(runtime.number);
        if runtime.asked < ASKS_OFTEN || runtime.is_unfit {
            return Lane::Own;
        }
        if rested > UNREAD_MAX {
            // The connection may have broken unnoticed.
            let connection = inner.engine.connection_of(key, lane);
            let socket =
                connection.and_then(|connection| Some((connection, inner.sockets.get(&connection)?.0.clone())));
            drop(inner);
            socket.into_iter().for_each(|(connection, socket)| self.read(connection, &socket));
        }
        lane
    }

    /// Passes received bytes to the engine.
    fn read(&self, connection: ConnectionId, socket: &Socket) {
        if let Err(why) = socket.read(true, |bytes| self.step(Event::Received(connection, bytes))) {
            lock(&self.inner).sockets.remove(&connection);
            self.step(Event::Broken(connection, Fault::silent(why)));
        }
    }

    /// Starts an engine request with a new caller number.
    pub(crate) fn asks<'a>(&self, event: impl FnOnce(CallerId) -> Event<'a>) -> (CallerId, PendingReply) {
        let (caller, reply) = (self.number(), PendingReply::default());
        self.step_for(event(caller), Some((caller, reply.clone())));
        (caller, reply)
    }

    /// Steps the engine. Only in the process that opened the client: in a fork, its mutex may stay locked forever.
    pub(crate) fn step(&self, event: Event<'_>) {
        self.step_for(event, None);
    }

    /// Effects that need only memory are executed in order, while the engine is locked. Calls to other code or the
    /// system come after the mutex is released.
    fn step_for(&self, event: Event<'_>, caller: Option<(CallerId, PendingReply)>) {
        let mut later = Vec::new();
        // Dropped after unlocking: dropping a task's last waker may drop a guard of this client.
        let (mut abandoned, mut released) = (None, None);
        let let_go = {
            let mut inner = lock(&self.inner);
            let Inner { engine, sockets, callers, leases, alarm, stays, .. } = &mut *inner;
            match &event {
                Event::Abandon(caller) => abandoned = callers.remove(caller),
                Event::Release { grant, .. } | Event::Answer { grant, .. } | Event::Detach(grant) => {
                    released = leases.remove(&grant.guard)
                }
                _ => {}
            }
            callers.extend(caller);
            for effect in engine.step(event, Instant::now()) {
                match effect {
                    Effect::Send { connection, bytes, at_once } => {
                        if let Some((socket, is_a_callers)) = sockets.get(&connection) {
                            socket.add(&bytes);
                            later.push(Later::Write(connection, socket.clone(), *is_a_callers, at_once));
                        }
                    }
                    Effect::Close(connection) => {
                        sockets.remove(&connection).into_iter().for_each(|(socket, _)| socket.close())
                    }
                    Effect::Notify(caller, answer) => {
                        let granted = keep_leases(leases, &answer);
                        let waker = callers.remove(&caller).and_then(|reply| reply.deliver((answer, granted)));
                        later.extend(waker.map(Later::Wake));
                    }
                    Effect::Guard(guard, standing) => {
                        let woken = leases.get(&guard).map(|lease| lease.stands(standing));
                        later.extend(woken.into_iter().flatten().map(Later::Wake));
                    }
                    Effect::Connect { connection, lane, address } => {
                        later.push(Later::Connect(connection, lane, address))
                    }
                    Effect::LookUp => later.push(Later::LookUp),
                    Effect::Log(log) => later.push(Later::Log(log)),
                }
            }
            if let Some(next) = engine.next().filter(|next| alarm.is_none_or(|set| *next < set)) {
                *alarm = Some(next);
                self.thread.alarms.wake_at(next, Waker::from(Arc::new(Alarm(self.me.clone()))));
            }
            mem::replace(stays, engine.has_unfinished().then(|| self.me.upgrade()).flatten())
        };
        later.into_iter().for_each(|it| self.do_later(it));
        // Outside the mutex, as this may be the last reference.
        drop((abandoned, released, let_go));
    }

    fn do_later(&self, it: Later) {
        match it {
            Later::Write(connection, socket, is_a_callers, at_once) => {
                if at_once {
                    socket.write();
                } else {
                    socket.write_soon();
                }
                if is_a_callers {
                    self.sees_to(connection, socket);
                }
            }
            Later::Wake(waker) => waker.wake(),
            Later::Connect(connection, lane, address) => self.connect(connection, lane, address),
            Later::LookUp => self.looks.notify_one(),
            Later::Log(log) => logs::write(log),
        }
    }

    fn connect(&self, connection: ConnectionId, lane: Lane, address: Arc<Address>) {
        let (me, dialer, thread) = (self.me.clone(), self.dialer.clone(), self.thread.clone());
        // The runtime that reads it: a caller's lane belongs to the caller's runtime.
        let there = match lane {
            Lane::Caller(number) => {
                Handle::try_current().ok().filter(|current| lock(&self.inner).is_runtime(current.id(), number))
            }
            _ => None,
        };
        let there = there.unwrap_or_else(|| self.thread.runtime.clone());
        self.thread.runtime.spawn(async move {
            let opened = dialer.open(&address, &thread).await;
            let Some(shared) = me.upgrade() else { return };
            match opened {
                Ok(conversation) => {
                    let socket = conversation.into_socket();
                    let is_a_callers = matches!(lane, Lane::Caller(_));
                    lock(&shared.inner).sockets.insert(connection, (socket.clone(), is_a_callers));
                    there.spawn(drive(Driven { connection, lane, socket, me, is_watched: false, why: None }));
                }
                Err(fault) => shared.step(Event::Broken(connection, fault)),
            }
        });
    }

    /// Reads a reply that its own driver does not read soon.
    fn sees_to(&self, connection: ConnectionId, socket: Arc<Socket>) {
        if socket.is_to_be_seen_to() {
            let helper = Helper { connection, socket, me: self.me.clone() };
            self.thread.alarms.wake_at(Instant::now() + UNREAD_MAX, Waker::from(Arc::new(helper)));
        }
    }

    fn watch(self: &Arc<Self>, servers: Servers) {
        let scout = Scout { dialer: self.dialer.clone(), thread: self.thread.clone(), limit: self.settings.answer };
        let (me, looks) = (Arc::downgrade(self), self.looks.clone());
        match servers {
            Servers::One => {}
            Servers::Cluster(seeds) => _ = self.thread.runtime.spawn(look_at_cluster(scout, me, looks, seeds)),
            Servers::Sentinels(sentinels) => {
                _ = self.thread.runtime.spawn(look_at_sentinels(scout, me, looks, sentinels));
            }
        }
    }

    /// Sends a caller's request to the key's server, or to this node. Without a command it only connects.
    pub(crate) async fn ask(
        &self,
        about: &[u8],
        key: &[u8],
        node: Option<NodeId>,
        bytes: Vec<u8>,
    ) -> Result<Reply, Error> {
        self.answered(about, |caller| Event::Ask { key: Arc::from(key), node, bytes, caller }).await
    }

    /// Waits until the owners of locks are known: in a cluster, looks them up again.
    pub(crate) async fn learn(&self, about: &[u8]) -> Result<(), Error> {
        self.answered(about, Event::Learn).await.map(drop)
    }

    async fn answered<'a>(&self, about: &[u8], event: impl FnOnce(CallerId) -> Event<'a>) -> Result<Reply, Error> {
        self.thread.check(about)?;
        let (_, reply) = self.asks(event);
        let answer = match woken_safely(reply).await.0 {
            Answer::Replied(answer) => answer,
            Answer::Acquired(_) | Answer::Answered(_) | Answer::Released(_) => Err(Fault::broken()),
        };
        answer.map_err(|fault| fault.into_error(about))
    }

    /// Waits until the servers have replied to all background releases.
    pub(crate) async fn settle(&self) {
        // In a fork no background work goes on.
        if self.thread.is_in_this_process() {
            let (_, reply) = self.asks(Event::Settle);
            woken_safely(reply).await;
        }
    }

    #[cfg(feature = "commands")]
    pub(crate) fn masters(&self) -> Vec<(NodeId, Arc<Address>)> {
        lock(&self.inner).engine.masters()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.thread.is_in_this_process() {
            mem::take(&mut lock(&self.inner).sockets).into_values().for_each(|(socket, _)| socket.close());
            self.looks.notify_one();
        }
    }
}

impl Inner {
    /// Beyond the limit, a new runtime replaces the one with the oldest request: most old runtimes have ended.
    fn runtime(&mut self, id: runtime::Id, now: Instant, number: impl FnOnce() -> u64) -> &mut Runtime {
        let runtimes = &mut self.runtimes;
        let known = runtimes.iter().position(|it| it.id == id);
        let place = known.unwrap_or_else(|| {
            let new = Runtime { id, number: number(), asked: 0, last: now, is_unfit: false };
            let oldest = (0..runtimes.len()).min_by_key(|place| runtimes[*place].last);
            oldest.filter(|_| runtimes.len() == RUNTIMES_MAX).map(|oldest| runtimes.swap_remove(oldest));
            runtimes.push(new);
            runtimes.len() - 1
        });
        &mut runtimes[place]
    }

    fn is_runtime(&self, id: runtime::Id, number: u64) -> bool {
        self.runtimes.iter().any(|it| it.id == id && it.number == number)
    }
}

/// Keeps the lease of each guard of a grant, and returns them.
fn keep_leases(leases: &mut BTreeMap<GuardId, Arc<Lease>>, answer: &Answer) -> Vec<Arc<Lease>> {
    let Answer::Acquired(Ok(Some(grant))) = answer else { return Vec::new() };
    let granted: Vec<_> = grant.all().map(|it| Arc::new(Lease::new(it.until))).collect();
    leases.extend(grant.all().map(|it| it.guard).zip(granted.iter().cloned()));
    granted
}

/// Work for after the engine is unlocked.
enum Later {
    /// Flags: a caller's runtime reads it; write at once.
    Write(ConnectionId, Arc<Socket>, bool, bool),
    Wake(Waker),
    Connect(ConnectionId, Lane, Arc<Address>),
    LookUp,
    Log(Log),
}

/// Steps the engine when it is time.
struct Alarm(Weak<Shared>);

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        if let Some(shared) = self.0.upgrade() {
            lock(&shared.inner).alarm = None;
            shared.step(Event::Passed);
        }
    }
}

/// Reads a reply that its runtime does not read.
struct Helper {
    connection: ConnectionId,
    socket: Arc<Socket>,
    me: Weak<Shared>,
}

impl Wake for Helper {
    fn wake(self: Arc<Self>) {
        self.socket.was_seen_to();
        let Some(shared) = self.me.upgrade() else { return };
        shared.read(self.connection, &self.socket);
        if lock(&shared.inner).engine.awaited(self.connection) > 0 {
            self.socket.write();
            shared.sees_to(self.connection, self.socket.clone());
        }
    }
}

/// A socket with its driver, until it breaks or its runtime ends.
struct Driven {
    connection: ConnectionId,
    lane: Lane,
    socket: Arc<Socket>,
    me: Weak<Shared>,
    is_watched: bool,
    /// Why the socket broke. `None`: its runtime ended.
    why: Option<io::Error>,
}

impl Drop for Driven {
    fn drop(&mut self) {
        // A fork must not close the connection of its parent.
        if !self.socket.is_in_this_process() {
            return;
        }
        self.socket.close();
        let Some(shared) = self.me.upgrade() else { return };
        let mut inner = lock(&shared.inner);
        inner.sockets.remove(&self.connection);
        if let (Lane::Caller(number), false) = (self.lane, self.is_watched) {
            let unfit = inner.runtimes.iter_mut().find(|runtime| runtime.number == number);
            unfit.into_iter().for_each(|runtime| runtime.is_unfit = true);
        }
        drop(inner);
        let why = self.why.take().unwrap_or_else(|| io::ErrorKind::ConnectionAborted.into());
        shared.step(Event::Broken(self.connection, Fault::silent(why)));
    }
}

/// Reads a connection. If only one reply is expected, it is read as soon as the runtime is notified, before the runtime
/// picks a task: a reading task would cost an extra turn. If many are expected, a task reads them after other tasks had
/// their turn, so that they come together.
struct Reading {
    connection: ConnectionId,
    me: Weak<Shared>,
    /// The socket, which has this as its waker.
    watched: Weak<Watched>,
    has_turn: Notify,
    broken: Mutex<Option<io::Error>>,
}

impl Reading {
    async fn until_broken(self: &Arc<Self>) -> io::Error {
        loop {
            match self.read() {
                Poll::Ready(Err(error)) => return error,
                // There is more, but other tasks go first.
                Poll::Ready(Ok(())) => tokio::task::yield_now().await,
                Poll::Pending => self.has_turn.notified().await,
            }
            if let Some(error) = lock(&self.broken).take() {
                return error;
            }
        }
    }

    fn read(self: &Arc<Self>) -> Poll<io::Result<()>> {
        let Some(watched) = self.watched.upgrade() else { return Poll::Pending };
        let waker = Waker::from(self.clone());
        let hand_on = |bytes: &[u8]| {
            if let Some(shared) = self.me.upgrade() {
                shared.step(Event::Received(self.connection, bytes));
            }
        };
        watched.poll_read(&mut Context::from_waker(&waker), hand_on)
    }
}

impl Wake for Reading {
    fn wake(self: Arc<Self>) {
        let awaited = self.me.upgrade().map(|shared| lock(&shared.inner).engine.awaited(self.connection));
        let read = if awaited == Some(1) { self.read() } else { Poll::Ready(Ok(())) };
        if let Poll::Ready(read) = read {
            *lock(&self.broken) = read.err();
            self.has_turn.notify_one();
        }
    }
}

async fn drive(mut driven: Driven) {
    if !driven.socket.is_in_this_process() {
        return;
    }
    let (connection, me) = (driven.connection, driven.me.clone());
    driven.why = Some(match driven.socket.clone().watched() {
        Ok(watched) => {
            driven.is_watched = true;
            let watched = Arc::new(watched);
            // Not earlier: requests on a connection without a reader would be lost.
            if let Some(shared) = me.upgrade() {
                shared.step(Event::Connected(connection));
            }
            let (watches, broken) = (Arc::downgrade(&watched), Mutex::default());
            let reading = Arc::new(Reading { connection, me, watched: watches, has_turn: Notify::new(), broken });
            tokio::select! {
                error = reading.until_broken() => error,
                error = watched.writes() => error,
            }
        }
        Err(error) => error,
    });
}

async fn look_at_cluster(scout: Scout, me: Weak<Shared>, looks: Arc<Notify>, seeds: Vec<Address>) {
    let seeds: Vec<_> = seeds.into_iter().map(Arc::new).collect();
    loop {
        looks.notified().await;
        let Some(known) = me.upgrade().map(|shared| lock(&shared.inner).engine.known()) else { return };
        let asked = |nodes: Vec<_>| nodes.into_iter().take(scout::ASKED_AT_ONCE);
        let slots = scout.slots(asked(seeds.clone()).chain(asked(known)).collect()).await;
        let Some(shared) = me.upgrade() else { return };
        shared.step(Event::Learnt(slots));
    }
}

async fn look_at_sentinels(scout: Scout, me: Weak<Shared>, looks: Arc<Notify>, sentinels: Box<Sentinels>) {
    loop {
        tokio::select! {
            () = looks.notified() => {}
            () = sentinels.news() => {}
            () = sleep(scout::LOOK) => {}
        }
        if me.strong_count() == 0 {
            return;
        }
        let master = sentinels.master(&scout).await;
        let Some(shared) = me.upgrade() else { return };
        shared.step(Event::Learnt(master));
    }
}
