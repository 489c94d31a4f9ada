//! The server as the host on which waiters are served: its keys, clients and clock; how long a turn lasts; and whether it may
//! grant a lock now. Before it runs a client's command, the server checks that itself. For a grant that no command of the
//! waiter causes, the module has to ask.

use super::blocked_client::BlockedClient;
use super::sessions::cancelled;
use super::standstill;
use super::state::{self, Blocked};
use crate::server::edge::reply;
use crate::server::edge::settings::SETTINGS;
use crate::server::edge::users::{self, Reader};
use crate::server::ffi::api::flag;
use crate::server::ffi::call::call;
use crate::server::ffi::context::{Context, Selected, monotonic_us, steady_ms};
use crate::server::ffi::string::{OwnedStr, Str};
use crate::server::ffi::this_server;
use crate::server::keys::{LockRecord, PAUSED, left_until_next, take_snapshot};
use rlock_core::lock::{Changes, Outcome, Plan, Refusal, Side, Snapshot, UnixMs};
use rlock_core::waiting::{
    Act, Answer, Host, Kept, LockName, Most, Note, OwnText, Paused, Permission, Purpose, User, WaitsFor,
};
use rlock_core::words::Error;
use std::cell::Cell;
use std::ffi::{CStr, c_int};

pub struct Server<'a> {
    pub(super) context: &'a Context,
    turn: Turn,
    /// Whether the server has said in this turn that it would let a client write.
    is_fit: Cell<bool>,
}

impl<'a> Server<'a> {
    pub fn new(context: &'a Context) -> Self {
        Self { context, turn: Turn::default(), is_fit: Cell::new(false) }
    }
}

impl OwnText for OwnedStr {
    type Lent<'a> = Str<'a>;

    fn lend(&self) -> Str<'_> {
        Self::lend(self)
    }
}

impl Server<'_> {
    /// Whether a waiter may be granted any lock now, as far as is known without asking about its key.
    fn may_grant_any(&self) -> Permission {
        match standstill::left_ms() {
            0 => match unfit_ms(self.context, flag::IS_FULL) {
                Some(ms) => Permission::Later(ms),
                None if self.is_fit.get() => Permission::Granted,
                None => Permission::OfKey,
            },
            ms => Permission::Later(ms),
        }
    }
}

impl Host for Server<'_> {
    type Client = BlockedClient;
    type OwnText = OwnedStr;
    type Lock<'a>
        = LockRecord<'a>
    where
        Self: 'a;
    type Selected<'a>
        = Selected<'a>
    where
        Self: 'a;

    fn next_note(&self) -> Option<Note> {
        state::next_note()
    }

    fn now(&self) -> UnixMs {
        self.context.now()
    }

    fn steady_ms(&self) -> i64 {
        steady_ms()
    }

    #[inline]
    fn grace_ms(&self) -> i64 {
        SETTINGS.grace.get_ms()
    }

    fn turn_is_over(&self) -> bool {
        self.turn.is_over()
    }

    fn user(&self, name: &[u8]) -> User {
        match Reader::named(&OwnedStr::new(name)) {
            None => User::IsGone,
            // Either all commands are paused or only writes: the server does not say which.
            Some(_) if self.context.writes_are_paused() => User::IsKeptBack,
            Some(_) => User::IsThere,
        }
    }

    fn own(&self, bytes: &[u8]) -> OwnedStr {
        OwnedStr::new(bytes)
    }

    fn database(&self) -> i32 {
        self.context.database()
    }

    fn select(&self, database: i32) -> Selected<'_> {
        self.context.select(database)
    }

    fn open<'a>(&'a self, key: Str<'a>, holder: Str<'a>) -> LockRecord<'a> {
        LockRecord::open(self.context, key, holder)
    }

    fn commit<'a, 'b>(
        &'a self,
        lock: LockRecord<'a>,
        plan: &Plan<'_, Str<'a>, Str<'b>>,
        others: Vec<(LockRecord<'a>, Changes)>,
    ) -> Result<(), Paused>
    where
        Self: 'b,
    {
        lock.commit(plan, others)
    }

    fn snapshot(&self, key: Str<'_>, most: usize) -> Result<Option<Snapshot>, Refusal> {
        take_snapshot(self.context, key, most)
    }

    #[inline]
    fn permission(&self, key: Option<Str<'_>>, purpose: Purpose) -> Permission {
        match (purpose, key) {
            (Purpose::Command, _) => match standstill::left_ms() {
                0 => Permission::Granted,
                ms => Permission::Later(ms),
            },
            (Purpose::Grant, None) => self.may_grant_any(),
            (Purpose::Grant, Some(_)) if self.is_fit.get() => Permission::Granted,
            (Purpose::Grant, Some(key)) => {
                let permission = probe(self.context, key, c"SMEslc");
                // In a cluster each key may be at another node.
                self.is_fit.set(!this_server::is_in_cluster() && permission == Permission::Granted);
                permission
            }
            (Purpose::Release, key) => match (unfit_ms(self.context, 0), key) {
                (Some(ms), _) => Permission::Later(ms),
                (None, Some(key)) if this_server::is_in_cluster() => probe(self.context, key, c"SEslc"),
                (None, _) => Permission::Granted,
            },
        }
    }

    fn left_ms(&self, lock: LockName<'_>) -> i64 {
        let _selected = self.context.select(lock.database);
        left_ms(self.context, &OwnedStr::new(lock.key))
    }

    fn limit(&self, of: Kept) -> Option<Most> {
        Some(match of {
            Kept::Blocked => Most { all: SETTINGS.max_waiters.get(), of_user: 0 },
            Kept::Tickets => Most { all: SETTINGS.max_tickets.get(), of_user: SETTINGS.max_tickets_per_user.get() },
            Kept::AnswerBytes => Most { all: SETTINGS.max_answer.get(), of_user: 0 },
            Kept::Sessions if is_out_of_memory(self.context) => return None,
            Kept::Sessions => Most { all: SETTINGS.max_sessions.get(), of_user: SETTINGS.max_sessions_per_user.get() },
        })
    }

    fn allows(&self, what: Act) -> bool {
        match what {
            Act::Block => self.context.may_block(),
            // In a cluster some servers look for each key in the slot of the transaction or the script that is under way.
            Act::TouchAnyKey => {
                !this_server::is_in_cluster() || self.context.flags() & (flag::IN_TRANSACTION | flag::IN_SCRIPT) == 0
            }
        }
    }

    fn block(&self) -> Option<BlockedClient> {
        BlockedClient::block(self.context, state::get().hooks.get()?.of_client)
    }

    fn waits(&self, side: Option<Side>, client: Option<(&BlockedClient, WaitsFor)>) {
        if let Some(side) = side {
            let on_key = state::get().hooks.get().map(|hooks| hooks.on_key);
            state::get().listening.borrow_mut().begin(self.context, side, on_key.map(|on_key| on_key as _));
        }
        if let Some((client, waits_for)) = client {
            let has_own_user = users::has_own_user(self.context);
            let blocked = Blocked { waits_for, since_us: monotonic_us(), has_own_user };
            state::get().clients.borrow_mut().blocked.insert(client.key(), blocked);
        }
    }

    fn answer(&self, client: BlockedClient, answer: Answer) {
        let answer = match answer {
            Answer::Outcome { outcome, fenced } => {
                if !matches!(outcome, Outcome::Granted { .. }) {
                    waits_for_answer(&client);
                }
                reply::of_acquire(outcome, fenced)
            }
            Answer::Value(value) => {
                waits_for_answer(&client);
                self.turn.copies(value.len());
                Ok(reply::Reply::Bytes(value))
            }
            Answer::GrantedAll { tokens } => Ok(reply::of_several(tokens)),
            Answer::Cancelled(tickets) => Ok(cancelled(tickets)),
            Answer::Events => return client.wake(),
            Answer::NoSession => Err(Error::NoSession),
        };
        client.answer(answer);
    }
}

/// From now on the client waits only for its reply: another request may have its ticket when the reply is sent.
fn waits_for_answer(client: &BlockedClient) {
    if let Some(blocked) = state::get().clients.borrow_mut().blocked.get_mut(&client.key()) {
        blocked.waits_for = WaitsFor::Answer;
    }
}

pub(super) fn left_ms(context: &Context, key: &OwnedStr) -> i64 {
    left_until_next(context, key.lend(), context.now())
}

/// How long the module may go on before the server's other clients get their turn: a few ms, since the answers to the waiters
/// granted meanwhile come on top of it, and take about as long again.
const TURN_US: u64 = 3_000;

/// The bytes of answers that are copied into replies in one turn: about a ms of it.
const TURN_BYTES: usize = 2 * 1024 * 1024;

/// The module's part of one turn of the event loop. It begins when it is first asked for, which most commands never do.
#[derive(Default)]
struct Turn {
    ends_at: Cell<Option<u64>>,
    copied: Cell<usize>,
}

impl Turn {
    pub fn is_over(&self) -> bool {
        let now = monotonic_us();
        let ends_at = self.ends_at.get().unwrap_or_else(|| now.saturating_add(TURN_US));
        self.ends_at.set(Some(ends_at));
        now >= ends_at || self.copied.get() >= TURN_BYTES
    }

    /// The server copies this many bytes into a reply when this turn is over.
    fn copies(&self, bytes: usize) {
        self.copied.set(self.copied.get().saturating_add(bytes));
    }
}

/// How long until a server that may not write is asked again.
const UNFIT_MS: i64 = 100;

/// For how many ms this server can write no key, as far as is known without a command. The flags in `unfit` count, too.
fn unfit_ms(context: &Context, unfit: c_int) -> Option<i64> {
    let flags = context.flags();
    if flags & flag::IS_MASTER == 0 || flags & (flag::IS_LOADING | unfit) != 0 {
        return Some(UNFIT_MS);
    }
    // Writing while writes are paused would abort the server.
    context.writes_are_paused().then_some(PAUSED.for_ms)
}

/// Whether the server would refuse a client's command that needs memory. Only a server that seems full is asked: one that
/// evicts keys makes room.
fn is_out_of_memory(context: &Context) -> bool {
    if context.flags() & flag::IS_FULL == 0 {
        return false;
    }
    // SAFETY: a C string, a long long and a C string, as the format says behind its modifiers: check memory, errors as
    // replies. It puts an empty piece into a string, which changes nothing.
    let reply = unsafe { call!(context, c"SETRANGE", c"MEclc", c"".as_ptr(), 0_i64, c"".as_ptr()) };
    reply.is_some_and(|reply| reply.error().is_some_and(|error| error.starts_with(b"OOM")))
}

/// Asks the server by a command that writes nothing but is checked as if it did: it puts an empty piece into a string.
/// On a lock it fails with the wrong type, which is as good as a yes.
fn probe(context: &Context, key: Str<'_>, format: &CStr) -> Permission {
    // SAFETY: a string, a long long and a C string, as both formats say behind their modifiers: check as for a script,
    // perhaps check memory, errors as replies.
    let reply = unsafe { call!(context, c"SETRANGE", format, key.as_ptr(), 0_i64, c"".as_ptr()) };
    let Some(reply) = reply else { return elsewhere() };
    match reply.error() {
        None => Permission::Granted,
        Some(error) if error.starts_with(b"WRONGTYPE") => Permission::Granted,
        Some(_) if this_server::is_in_cluster() && reply.is_error_with(b"non local key") => elsewhere(),
        Some(_) => Permission::Later(UNFIT_MS),
    }
}

fn elsewhere() -> Permission {
    if this_server::is_in_cluster() { Permission::Elsewhere } else { Permission::Later(UNFIT_MS) }
}
