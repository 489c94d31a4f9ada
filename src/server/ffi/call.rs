//! Commands of the server's own, called where no function of the module API reports what they do.

use super::api::{api, flag};
use super::context::Context;
use redis_module::raw;
use std::ffi::{CStr, c_int};
use std::ptr::NonNull;
use std::slice;

/// More names and values than any map has that is asked for.
const NAMES_MAX: usize = 64;

/// What the server answered; freed when it is dropped.
pub struct CallReply(NonNull<raw::RedisModuleCallReply>);

/// Calls a command with arguments of the types in the format: `s` a string, `c` a C string, `l` a long long, behind
/// modifiers in capitals. None if the server does not run it.
macro_rules! call {
    ($context:expr, $command:expr, $format:expr, $($argument:expr),+) => {
        $crate::server::ffi::call::CallReply::from_server($crate::server::ffi::api::api!(RedisModule_Call(
            $context.as_ptr(),
            $command.as_ptr(),
            $format.as_ptr(),
            $($argument),+
        )))
    };
}
pub(in crate::server) use call;

impl CallReply {
    /// Takes over a reply that is ours to free; None for the server's null.
    pub fn from_server(reply: *mut raw::RedisModuleCallReply) -> Option<Self> {
        NonNull::new(reply).map(Self)
    }

    #[cfg(feature = "panic-probe")]
    pub fn as_ptr(&self) -> *mut raw::RedisModuleCallReply {
        self.0.as_ptr()
    }

    pub fn kind(&self) -> c_int {
        // SAFETY: the reply is alive.
        unsafe { api!(RedisModule_CallReplyType(self.0.as_ptr())) }
    }

    /// The text of the error, if the reply is one.
    pub fn error(&self) -> Option<&[u8]> {
        (self.kind() == flag::ERROR_REPLY).then(|| text(self.0).unwrap_or_default())
    }

    /// Whether it is an error with these words in it.
    pub fn is_error_with(&self, words: &[u8]) -> bool {
        self.error().is_some_and(|error| error.windows(words.len()).any(|piece| piece == words))
    }

    /// The text that follows this name in a map, which is sent as a flat array.
    pub fn named(&self, name: &[u8]) -> Option<&[u8]> {
        let mut names = (0..NAMES_MAX).step_by(2);
        names.find(|index| self.element(*index) == Some(name)).and_then(|index| self.element(index.saturating_add(1)))
    }

    /// The text of an element of an array.
    pub fn element(&self, index: usize) -> Option<&[u8]> {
        // SAFETY: the reply is alive; its elements live as long as it does.
        let element = unsafe { api!(RedisModule_CallReplyArrayElement(self.0.as_ptr(), index)) };
        NonNull::new(element).and_then(text)
    }
}

fn text<'a>(reply: NonNull<raw::RedisModuleCallReply>) -> Option<&'a [u8]> {
    let mut length = 0;
    // SAFETY: the reply is alive; its bytes live as long as it does, and the methods that call this keep `'a` to that.
    unsafe {
        let bytes = api!(RedisModule_CallReplyStringPtr(reply.as_ptr(), &raw mut length));
        (!bytes.is_null()).then(|| slice::from_raw_parts(bytes.cast(), length))
    }
}

impl Drop for CallReply {
    fn drop(&mut self) {
        // SAFETY: ours, and freed once.
        unsafe { api!(RedisModule_FreeCallReply(self.0.as_ptr())) };
    }
}

/// A setting of the server's. None if the server does not show it, for instance because CONFIG was renamed.
pub fn server_setting(context: &Context, name: &CStr) -> Option<Vec<u8>> {
    // SAFETY: two C strings, as the format says.
    let reply = unsafe { call!(context, c"CONFIG", c"cc", c"GET".as_ptr(), name.as_ptr()) }?;
    // The name, and its value.
    reply.element(1).map(<[u8]>::to_vec)
}
