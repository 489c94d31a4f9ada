//! Strings of the server: lent ones and our own.

use super::api::{api, missing};
use redis_module::raw::RedisModuleString;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::slice;

/// A string that another owner keeps alive for `'a`: an argument of the current command, or an [`OwnedStr`].
#[derive(Clone, Copy)]
// The same pointer as the server's, so that its argument vector can be read in place.
#[repr(transparent)]
pub struct Str<'a> {
    string: NonNull<RedisModuleString>,
    lent: PhantomData<&'a RedisModuleString>,
}

impl<'a> Str<'a> {
    /// The arguments of a command, the command's own name first, read in place.
    ///
    /// # Safety
    /// `strings` must be null, or `count` valid string pointers that live, like their strings, for `'a`.
    pub unsafe fn arguments(strings: *mut *mut RedisModuleString, count: i32) -> &'a [Self] {
        // A module that is loaded without arguments gets no array at all.
        if strings.is_null() {
            return &[];
        }
        let count = usize::try_from(count).unwrap_or(0);
        // SAFETY: by the caller's promise; a `Str` is the pointer to a string, which the server never passes as null.
        unsafe { slice::from_raw_parts(strings.cast::<Self>(), count) }
    }

    #[must_use]
    pub fn bytes(self) -> &'a [u8] {
        let mut length = 0;
        // SAFETY: the string is alive for 'a; the server returns its bytes, which no one writes to in the meantime.
        unsafe {
            let bytes = api!(RedisModule_StringPtrLen(self.as_ptr(), &raw mut length));
            slice::from_raw_parts(bytes.cast(), length)
        }
    }

    pub fn as_ptr(self) -> *mut RedisModuleString {
        self.string.as_ptr()
    }
}

impl AsRef<[u8]> for Str<'_> {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

/// A string that we hold a reference to.
pub struct OwnedStr(NonNull<RedisModuleString>);

impl OwnedStr {
    pub fn new(bytes: &[u8]) -> Self {
        // SAFETY: the bytes are copied; without a context the string is ours until we free it.
        let string = unsafe { api!(RedisModule_CreateString(ptr::null_mut(), bytes.as_ptr().cast(), bytes.len())) };
        Self::from_server(string).unwrap_or_else(|| missing("string to give"))
    }

    pub fn number(number: i64) -> Self {
        // SAFETY: without a context the string is ours until we free it.
        let string = unsafe { api!(RedisModule_CreateStringFromLongLong(ptr::null_mut(), number)) };
        Self::from_server(string).unwrap_or_else(|| missing("string to give"))
    }

    /// Takes over a reference that the server hands out; None for its null.
    pub fn from_server(string: *mut RedisModuleString) -> Option<Self> {
        NonNull::new(string).map(Self)
    }

    pub fn lend(&self) -> Str<'_> {
        Str { string: self.0, lent: PhantomData }
    }
}

impl Drop for OwnedStr {
    fn drop(&mut self) {
        // SAFETY: ours, and freed once. The server keeps it for as long as anything else refers to it.
        unsafe { api!(RedisModule_FreeString(ptr::null_mut(), self.0.as_ptr())) }
    }
}
