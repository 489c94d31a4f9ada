//! An open key: one handle, closed when dropped.

use super::api::{api, flag};
use super::context::Context;
use super::string::{OwnedStr, Str};
use crate::lock::{Expiry, UnixMs};
use redis_module::raw;
use std::ffi::c_void;
use std::ptr;

pub struct Key<'a> {
    key: *mut raw::RedisModuleKey,
    name: Str<'a>,
}

/// What a key holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum KeyType {
    Nothing,
    Hash,
    Text,
    Other,
}

/// A field and its new value.
type Written<'a> = (Str<'a>, *mut raw::RedisModuleString);

/// The value that deletes a field: the header's `REDISMODULE_HASH_DELETE`.
const DELETE_FIELD: *mut raw::RedisModuleString = ptr::without_provenance_mut(1);

impl<'a> Key<'a> {
    /// Opens a key for writing, whether it is there or not. Opening alone changes nothing: see
    /// [`Context::signal_modified`].
    pub fn open(context: &'a Context, name: Str<'a>) -> Self {
        // SAFETY: the context and the name outlive the handle.
        let key = unsafe { api!(RedisModule_OpenKey(context.as_ptr(), name.as_ptr(), flag::WRITE)) };
        Self { key: key.cast(), name }
    }

    /// Opens a key for reading, if it is there; without counting as a use of it.
    pub fn peek(context: &'a Context, name: Str<'a>) -> Option<Self> {
        let mode = flag::READ | flag::WITHOUT_TOUCH;
        // SAFETY: the context and the name outlive the handle.
        let key = unsafe { api!(RedisModule_OpenKey(context.as_ptr(), name.as_ptr(), mode)) };
        // Opened for reading, an absent key has no handle.
        (!key.is_null()).then(|| Self { key: key.cast(), name })
    }

    /// When the key ends, if it is there; without counting as a use of it.
    pub fn peek_expiry(context: &Context, name: Str<'_>) -> Option<Expiry> {
        Key::peek(context, name).map(|key| key.expiry())
    }

    pub fn name(&self) -> Str<'a> {
        self.name
    }

    pub fn key_type(&self) -> KeyType {
        // SAFETY: the handle is open.
        match unsafe { api!(RedisModule_KeyType(self.key)) } {
            flag::EMPTY => KeyType::Nothing,
            flag::HASH => KeyType::Hash,
            flag::STRING => KeyType::Text,
            _ => KeyType::Other,
        }
    }

    pub fn expiry(&self) -> Expiry {
        // SAFETY: the handle is open.
        match unsafe { api!(RedisModule_GetAbsExpire(self.key)) } {
            at if at < 0 => Expiry::Never,
            at => Expiry::At(at),
        }
    }

    pub fn expire_at(&self, at: UnixMs) {
        // SAFETY: the handle is open for writing.
        unsafe { api!(RedisModule_SetAbsExpire(self.key, at)) };
    }

    pub fn delete(&self) {
        // SAFETY: the handle is open for writing.
        unsafe { api!(RedisModule_DeleteKey(self.key)) };
    }

    /// The number of fields of a hash.
    pub fn length(&self) -> usize {
        // SAFETY: the handle is open.
        unsafe { api!(RedisModule_ValueLength(self.key)) }
    }

    /// The value of a field of a hash.
    pub fn field(&self, field: Str<'_>) -> Option<OwnedStr> {
        let mut value: *mut raw::RedisModuleString = ptr::null_mut();
        // SAFETY: the handle is open; a field and where its value goes alternate, up to a null. The value that comes
        // back is a reference of our own.
        unsafe {
            api!(RedisModule_HashGet(
                self.key,
                flag::FIELDS_ARE_STRINGS,
                field.as_ptr(),
                &raw mut value,
                ptr::null_mut::<c_void>(),
            ));
        }
        OwnedStr::from_server(value)
    }

    /// Sets a field of a hash; on an absent key, makes the hash.
    pub fn set_field(&self, field: Str<'_>, value: Str<'_>) {
        self.write_field(field, value.as_ptr());
    }

    pub fn set_two_fields(&self, first: (Str<'_>, Str<'_>), second: (Str<'_>, Str<'_>)) {
        self.write_two_fields((first.0, first.1.as_ptr()), (second.0, second.1.as_ptr()));
    }

    pub fn delete_field(&self, field: Str<'_>) {
        self.write_field(field, DELETE_FIELD);
    }

    fn write_field(&self, field: Str<'_>, value: *mut raw::RedisModuleString) {
        // SAFETY: the handle is open for writing; a field and its value alternate, up to a null; both are copied.
        unsafe {
            api!(RedisModule_HashSet(
                self.key,
                flag::FIELDS_ARE_STRINGS,
                field.as_ptr(),
                value,
                ptr::null_mut::<c_void>(),
            ));
        }
    }

    fn write_two_fields(&self, first: Written<'_>, second: Written<'_>) {
        // SAFETY: as in `write_field`.
        unsafe {
            api!(RedisModule_HashSet(
                self.key,
                flag::FIELDS_ARE_STRINGS,
                first.0.as_ptr(),
                first.1,
                second.0.as_ptr(),
                second.1,
                ptr::null_mut::<c_void>(),
            ));
        }
    }

    /// All fields of a hash with their values, or None if there are more than `most`.
    ///
    /// They are copied, since the caller's use of them may change the key.
    pub fn fields(&self, most: usize) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
        (self.length() <= most).then(|| self.first_fields(most))
    }

    /// The first fields of a hash with their values: `most`, or all, or a few more.
    pub fn first_fields(&self, most: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut fields = Vec::with_capacity(self.length().min(most));
        // SAFETY: the cursor is ours until it is destroyed below; the handle is open; `copy_field` gets the vector
        // that is passed beside it, which nothing else touches meanwhile.
        unsafe {
            let cursor = api!(RedisModule_ScanCursorCreate());
            while api!(RedisModule_ScanKey(self.key, cursor, Some(copy_field), (&raw mut fields).cast())) != 0
                && fields.len() < most
            {}
            api!(RedisModule_ScanCursorDestroy(cursor));
        }
        fields
    }

    /// The bytes of a string value.
    pub fn text(&self) -> &[u8] {
        let mut length = 0;
        // SAFETY: the handle is open and holds a string; its bytes stay where they are until the key is written to,
        // which takes this same handle.
        unsafe {
            let bytes = api!(RedisModule_StringDMA(self.key, &raw mut length, flag::READ));
            if bytes.is_null() { &[] } else { std::slice::from_raw_parts(bytes.cast(), length) }
        }
    }

    /// Makes the key a string, whatever it was, without an expiry.
    pub fn set_text(&self, value: &OwnedStr) {
        // SAFETY: the handle is open for writing, and no bytes of it are borrowed; the server takes a reference of
        // its own.
        unsafe { api!(RedisModule_StringSet(self.key, value.lend().as_ptr())) };
    }
}

impl Drop for Key<'_> {
    fn drop(&mut self) {
        // SAFETY: open, and closed once.
        unsafe { api!(RedisModule_CloseKey(self.key)) }
    }
}

/// Receives one field of a hash that is scanned.
///
/// # Safety
/// The server passes the field and value for the time of this call, and `fields` as [`Key::fields`] gave it.
unsafe extern "C" fn copy_field(
    _key: *mut raw::RedisModuleKey,
    field: *mut raw::RedisModuleString,
    value: *mut raw::RedisModuleString,
    fields: *mut c_void,
) {
    // SAFETY: by this function's contract. Nothing in here panics.
    unsafe {
        let fields = &mut *fields.cast::<Vec<(Vec<u8>, Vec<u8>)>>();
        let strings = [field, value];
        if let [field, value] = Str::arguments(strings.as_ptr().cast_mut(), 2) {
            fields.push((field.bytes().to_vec(), value.bytes().to_vec()));
        }
    }
}
