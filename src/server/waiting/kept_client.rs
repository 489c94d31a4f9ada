//! A client that is kept waiting, and what the server calls when it goes.
//!
//! The server wants each kept client to be let go exactly once, whether it was answered, gave up or hung up: never is a
//! leak, twice is freed memory. So letting go consumes the value, and a value that is dropped lets go by itself.

use super::world::{self, left_ms};
use super::{clock, guarded, room};
use crate::lock::Client;
use crate::lock::serve::Answer;
use crate::server::api::{api, flag};
use crate::server::context::{Context, Reply};
use crate::server::entry::ErrorLine;
use crate::server::main_thread::MainThread;
use crate::server::string::{OwnedStr, Str};
use crate::server::version;
use redis_module::raw;
use std::ffi::{c_int, c_void};
use std::ptr;

#[derive(Debug)]
pub(super) struct KeptClient {
    kept: *mut raw::RedisModuleBlockedClient,
    /// As CLIENT ID says it.
    number: u64,
}

/// Tells kept clients apart, while they are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ClientId(*mut raw::RedisModuleBlockedClient);

type Told = Result<Reply, ErrorLine>;

/// What most who waited are told, so it is not made each time.
static GRANTED: Told = Ok(Reply::Nil);

/// Let go by the server before they could be told of their grant.
static UNTOLD: MainThread<Vec<u64>> = MainThread::new(Vec::new());

impl KeptClient {
    /// Keeps the client of the command under way, which then gets no reply from the command. None if it is another
    /// module, and where the server keeps no such client: Valkey from 8.1 on none that is subscribed to something.
    pub fn keep(context: &Context) -> Option<Self> {
        // Without a time limit of the server's: when it and a grant meet, some servers lose the reply.
        let no_limit = 0;
        // SAFETY: the context is that of a command whose client may be kept; the callbacks are functions of ours.
        unsafe {
            let number = api!(RedisModule_GetClientId(context.as_ptr()));
            if is_another_modules(number) {
                return None;
            }
            let client = api!(RedisModule_BlockClient(
                context.as_ptr(),
                Some(reply),
                Some(unblocked),
                Some(free_answer),
                no_limit
            ));
            if client.is_null() {
                return None;
            }
            api!(RedisModule_SetDisconnectCallback(client, Some(disconnected)));
            Some(Self { kept: client, number })
        }
    }

    pub fn number(&self) -> u64 {
        self.number
    }

    /// Lets the client go, with its reply. It is sent before the server sleeps the next time.
    pub fn answer(self, answer: Told) {
        let answer = if answer == GRANTED { (&raw const GRANTED).cast_mut() } else { Box::into_raw(Box::new(answer)) };
        // SAFETY: kept, and let go once: `self` is forgotten. The answer is only read, and freed by `free_answer`.
        unsafe { api!(RedisModule_UnblockClient(self.kept, answer.cast())) };
        std::mem::forget(self);
    }
}

/// Other modules may call commands that block, and wait for what becomes of them; then the client is none that is
/// connected. Nobody would hear of a grant if that module had gone on meanwhile. Not before Redis 7.2.
fn is_another_modules(client: u64) -> bool {
    // SAFETY: a pointer that the server has set at load, or has not.
    let may_be = unsafe { (&raw const raw::RedisModule_CallReplyPromiseSetUnblockHandler).read().is_some() };
    // SAFETY: nothing is asked about the client, but whether it is there.
    may_be && unsafe { api!(RedisModule_GetClientInfoById(ptr::null_mut(), client)) } != flag::OK
}

impl Client for KeptClient {
    type Id = ClientId;

    fn id(&self) -> ClientId {
        ClientId(self.kept)
    }
}

impl Drop for KeptClient {
    fn drop(&mut self) {
        // SAFETY: kept, and let go once. Nobody is there to be answered any more.
        unsafe { api!(RedisModule_UnblockClient(self.kept, ptr::null_mut())) };
    }
}

/// Replies to a client that was let go.
///
/// # Safety
/// To be called by the server, with the context of a kept client.
unsafe extern "C" fn reply(
    context: *mut raw::RedisModuleCtx,
    _arguments: *mut *mut raw::RedisModuleString,
    _count: c_int,
) -> c_int {
    guarded(flag::OK, || {
        // SAFETY: the context is the server's. What it has for us is null or what `answer` gave it.
        let (context, client, answer) = unsafe {
            let client = api!(RedisModule_GetBlockedClientHandle(context));
            let answer: *const Told = api!(RedisModule_GetBlockedClientPrivateData(context)).cast_const().cast();
            (Context::new(context), client, answer.as_ref())
        };
        room::with(|room| room.delivered(ClientId(client)));
        match answer {
            Some(Ok(reply)) => context.reply(*reply),
            Some(Err(line)) => context.reply_error(line.0),
            None => context.reply_error(c"UNBLOCKED the lock is no longer waited for"),
        }
        flag::OK
    })
}

/// # Safety
/// To be called by the server, with what `answer` gave it.
unsafe extern "C" fn free_answer(_context: *mut raw::RedisModuleCtx, answer: *mut c_void) {
    let answer: *mut Told = answer.cast();
    if !ptr::eq(answer, &raw const GRANTED) {
        // SAFETY: it came from a box, and the server frees it once.
        drop(unsafe { Box::from_raw(answer) });
    }
}

/// CLIENT UNBLOCK … TIMEOUT: the reply is that of a time that is up.
///
/// # Safety
/// To be called by the server, with the context of a kept client.
unsafe extern "C" fn unblocked(
    context: *mut raw::RedisModuleCtx,
    arguments: *mut *mut raw::RedisModuleString,
    count: c_int,
) -> c_int {
    guarded(flag::OK, || {
        // SAFETY: the context and the arguments of the command that waits are the server's.
        let (context, client, arguments) = unsafe {
            let client = api!(RedisModule_GetBlockedClientHandle(context));
            (Context::new(context), client, Str::arguments(arguments, count))
        };
        let waiter = room::with(|room| room.gone(ClientId(client)));
        let fenced = waiter.as_ref().is_some_and(|waiter| waiter.want.fenced);
        let left_ms = arguments.get(1).map_or(0, |key| left_ms(&context, &OwnedStr::new(key.bytes())));
        if let Ok(reply) = world::reply(fenced, Answer::TimeIsUp { left_ms }) {
            context.reply(reply);
        }
        drop(waiter);
        clock::arm(&context);
        flag::OK
    })
}

/// The client is gone, or was told by the server that it no longer waits. The server may be anywhere, in the middle of
/// becoming a replica even: only what is ours is put in order here, and locks are looked at later.
///
/// # Safety
/// To be called by the server, for a kept client.
unsafe extern "C" fn disconnected(context: *mut raw::RedisModuleCtx, client: *mut raw::RedisModuleBlockedClient) {
    guarded((), || {
        // SAFETY: the context is the server's, with the client that is gone.
        let (context, number) = unsafe { (Context::new(context), api!(RedisModule_GetClientId(context))) };
        let (untold, waiter) = room::with(|room| (room.is_untold(ClientId(client)), room.gone(ClientId(client))));
        if untold {
            UNTOLD.with(|numbers| numbers.push(number));
        }
        drop(waiter);
        clock::arm(&context);
    });
}

/// Closes clients that are not gone at all, but whose reply the server has lost: whatever it told them next they would
/// take for the answer to their wait.
pub(super) fn close_who_was_not_told(context: &Context) {
    for number in UNTOLD.with(std::mem::take) {
        if version::loses_replies() {
            // SAFETY: the context is alive; of a client that is gone indeed, the server knows no more.
            unsafe { api!(RedisModule_DeauthenticateAndCloseClient(context.as_ptr(), number)) };
        }
    }
}
