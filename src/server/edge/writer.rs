//! Replies of more than a few numbers, written piece by piece. Maps are flat arrays to a client that speaks RESP2.
//!
//! A map or an array says first how many pieces follow, and its writer must keep that: so nothing that can fail comes
//! between.

use crate::server::ffi::api::api;
use crate::server::ffi::context::Context;
use std::ffi::{CStr, c_long};

#[derive(Clone, Copy)]
pub struct Writer<'a>(&'a Context);

impl<'a> Writer<'a> {
    /// For a command that then replies [`super::Reply::Written`].
    #[must_use]
    pub fn new(context: &'a Context) -> Self {
        Self(context)
    }

    /// This many names follow, each with a value behind it.
    pub fn map(self, length: usize) -> Self {
        // SAFETY: the context is alive.
        unsafe { api!(RedisModule_ReplyWithMap(self.0.as_ptr(), as_long(length))) };
        self
    }

    /// This many values follow.
    pub fn array(self, length: usize) -> Self {
        // SAFETY: the context is alive.
        unsafe { api!(RedisModule_ReplyWithArray(self.0.as_ptr(), as_long(length))) };
        self
    }

    /// A name in a map, or one of a few words.
    pub fn word(self, word: &CStr) -> Self {
        // SAFETY: the context is alive; the word is copied.
        unsafe { api!(RedisModule_ReplyWithCString(self.0.as_ptr(), word.as_ptr())) };
        self
    }

    pub fn bytes(self, bytes: &[u8]) -> Self {
        // SAFETY: the context is alive; the bytes are copied.
        unsafe { api!(RedisModule_ReplyWithStringBuffer(self.0.as_ptr(), bytes.as_ptr().cast(), bytes.len())) };
        self
    }

    pub fn bytes_or_nil(self, bytes: Option<&[u8]>) -> Self {
        match bytes {
            Some(bytes) => self.bytes(bytes),
            None => self.nil(),
        }
    }

    pub fn number(self, number: i64) -> Self {
        // SAFETY: the context is alive.
        unsafe { api!(RedisModule_ReplyWithLongLong(self.0.as_ptr(), number)) };
        self
    }

    pub fn count(self, count: usize) -> Self {
        self.number(i64::try_from(count).unwrap_or(i64::MAX))
    }

    pub fn nil(self) -> Self {
        // SAFETY: the context is alive.
        unsafe { api!(RedisModule_ReplyWithNull(self.0.as_ptr())) };
        self
    }

    pub fn number_or_nil(self, number: Option<i64>) -> Self {
        match number {
            Some(number) => self.number(number),
            None => self.nil(),
        }
    }
}

fn as_long(length: usize) -> c_long {
    c_long::try_from(length).unwrap_or(c_long::MAX)
}
