//! A client that is blocked until the lock is its own.
//!
//! The module must unblock each blocked client exactly once, whether it was answered, gave up or hung up: never is a
//! leak, twice is a use of freed memory. So unblocking consumes the value, and dropping the value unblocks the client.

use crate::server::edge::Reply;
use crate::server::ffi::api::api;
use crate::server::ffi::context::Context;
use redis_module::raw;
use rlock_core::words::Error;
use std::ffi::{c_int, c_void};
use std::ptr;

#[derive(Debug)]
pub struct BlockedClient {
    blocked: *mut raw::RedisModuleBlockedClient,
    /// The client's id, as CLIENT ID says it.
    number: u64,
}

/// Identifies a blocked client until it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ClientKey(pub *mut raw::RedisModuleBlockedClient);

/// What the server calls for a blocked client.
pub(super) struct Callbacks {
    /// The client was unblocked, and gets its answer now.
    pub reply: OnClient,
    /// CLIENT UNBLOCK … TIMEOUT ended the wait.
    pub unblocked: OnClient,
    /// The client is gone, or the server itself has ended its wait.
    pub disconnected: unsafe extern "C" fn(*mut raw::RedisModuleCtx, *mut raw::RedisModuleBlockedClient),
}

type OnClient = unsafe extern "C" fn(*mut raw::RedisModuleCtx, *mut *mut raw::RedisModuleString, c_int) -> c_int;

pub(super) type Answer = Result<Reply, Error>;

/// The answer to most waiters. It is not allocated each time: a pointer that no box can have represents it.
const GRANTED: Answer = Ok(Reply::Nil);
const STANDS_FOR_GRANTED: *mut Answer = ptr::dangling_mut();

impl BlockedClient {
    /// Blocks the client of the current command, which then gets no reply from the command. None for another module's
    /// call, and for a client that the server does not block: Valkey from 8.1 on blocks no client with a subscription.
    pub(super) fn block(context: &Context, callbacks: &Callbacks) -> Option<Self> {
        // The server gets no time limit: some servers lose the reply when the limit and a grant coincide.
        let no_limit = 0;
        if is_another_modules(context) {
            return None;
        }
        // SAFETY: the context is that of a command that may block its client; the callbacks are for these events.
        unsafe {
            let blocked = api!(RedisModule_BlockClient(
                context.as_ptr(),
                Some(callbacks.reply),
                Some(callbacks.unblocked),
                Some(free_answer),
                no_limit
            ));
            if blocked.is_null() {
                return None;
            }
            api!(RedisModule_SetDisconnectCallback(blocked, Some(callbacks.disconnected)));
            Some(Self { blocked, number: context.client() })
        }
    }

    pub(super) fn key(&self) -> ClientKey {
        ClientKey(self.blocked)
    }

    pub fn number(&self) -> u64 {
        self.number
    }

    /// Unblocks a client that waits for events. They are looked up when its reply is written.
    pub(super) fn wake(self) {
        self.answer(GRANTED);
    }

    /// Unblocks the client, with its reply. The server sends it before it sleeps the next time.
    pub(super) fn answer(self, answer: Answer) {
        let answer = if answer == GRANTED { STANDS_FOR_GRANTED } else { Box::into_raw(Box::new(answer)) };
        // SAFETY: blocked, unblocked once: `self` is forgotten. The answer is only read, and freed by `free_answer`.
        unsafe { api!(RedisModule_UnblockClient(self.blocked, answer.cast())) };
        std::mem::forget(self);
    }
}

impl Drop for BlockedClient {
    fn drop(&mut self) {
        // SAFETY: blocked, and unblocked once. No client is there to be answered any more.
        unsafe { api!(RedisModule_UnblockClient(self.blocked, ptr::null_mut())) };
    }
}

impl ClientKey {
    /// The client that a callback is for.
    ///
    /// # Safety
    /// The context must be that of a blocked client's callback.
    pub unsafe fn of(context: &Context) -> Self {
        // SAFETY: by the caller's promise.
        Self(unsafe { api!(RedisModule_GetBlockedClientHandle(context.as_ptr())) })
    }
}

/// What [`BlockedClient::answer`] gave to the client of this callback; None if the client was unblocked without an answer.
///
/// # Safety
/// The context must be that of a blocked client's callback.
pub(super) unsafe fn answer_of(context: &Context) -> Option<Answer> {
    // SAFETY: by the caller's promise; what the server has for us is null or what `answer` gave it.
    unsafe {
        let answer: *mut Answer = api!(RedisModule_GetBlockedClientPrivateData(context.as_ptr())).cast();
        if answer == STANDS_FOR_GRANTED { Some(GRANTED) } else { answer.as_ref().cloned() }
    }
}

/// # Safety
/// To be called by the server, with what `answer` gave it.
unsafe extern "C" fn free_answer(_context: *mut raw::RedisModuleCtx, answer: *mut c_void) {
    let answer: *mut Answer = answer.cast();
    if answer != STANDS_FOR_GRANTED {
        // SAFETY: it came from a box, and the server frees it once.
        drop(unsafe { Box::from_raw(answer) });
    }
}

/// Another module may call a command that blocks, and wait for the result; the client of such a call is not connected. If the
/// module has stopped waiting by the time of the grant, no client gets it. Servers before Redis 7.2 have no such calls.
fn is_another_modules(context: &Context) -> bool {
    // SAFETY: a pointer that the server has set at load, or has not.
    let may_be = unsafe { (&raw const raw::RedisModule_CallReplyPromiseSetUnblockHandler).read().is_some() };
    may_be && context.connected_user().is_none()
}

/// Closes the connection of a client. The server does not know a client that is gone.
pub(super) fn close(context: &Context, number: u64) {
    // SAFETY: the context is alive.
    unsafe { api!(RedisModule_DeauthenticateAndCloseClient(context.as_ptr(), number)) };
}
