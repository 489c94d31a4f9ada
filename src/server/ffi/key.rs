//! An open key: one handle, closed when dropped.
//!
//! The server does not check what it is asked: if a key holds nothing, some functions read invalid memory. So a handle alone
//! is asked only whether the key holds something. Everything else is asked of the [`Value`], which is gone before the key is
//! written to.

use super::api::{api, flag};
use super::context::Context;
use super::string::{OwnedStr, Str};
use redis_module::raw;
use rlock_core::lock::{Expiry, UnixMs};
use std::ffi::{c_int, c_void};
use std::ops::Deref;
use std::{ptr, slice};

/// A key that is open.
pub struct Key<'a> {
    key: *mut raw::RedisModuleKey,
    name: Str<'a>,
}

/// A key that is open for writing, too.
pub struct WritableKey<'a>(Key<'a>);

impl<'a> Deref for WritableKey<'a> {
    type Target = Key<'a>;

    fn deref(&self) -> &Key<'a> {
        &self.0
    }
}

/// What a key holds.
#[derive(Clone, Copy)]
pub struct Value<'a> {
    key: &'a Key<'a>,
    kind: c_int,
}

/// The fields of a hash.
#[derive(Clone, Copy)]
pub struct Hash<'a>(&'a Key<'a>);

/// The members of a sorted set, by their scores.
#[derive(Clone, Copy)]
pub struct SortedSet<'a>(&'a Key<'a>);

/// The value that deletes a field: the header's `REDISMODULE_HASH_DELETE`.
const DELETE_FIELD: *mut raw::RedisModuleString = ptr::without_provenance_mut(1);

impl<'a> Key<'a> {
    /// Opens a key for reading, if it is there. This does not count as a use, and does not remove an expired key (except on
    /// Redis 7.0): the event of a removal would make Valkey 8.1 switch the asking client to the key's database.
    pub fn peek(context: &'a Context, name: Str<'a>) -> Option<Self> {
        let mode = flag::READ | flag::WITHOUT_TOUCH | flag::WITHOUT_EXPIRY;
        // SAFETY: the context and the name outlive the handle.
        let key = unsafe { api!(RedisModule_OpenKey(context.as_ptr(), name.as_ptr(), mode)) };
        // Opened for reading, an absent key has no handle.
        (!key.is_null()).then(|| Self { key: key.cast(), name })
    }

    /// When the key ends, if it is there. This does not count as a use.
    pub fn peek_expiry(context: &Context, name: Str<'_>) -> Option<Expiry> {
        Key::peek(context, name)?.value().map(Value::expiry)
    }

    pub fn name(&self) -> Str<'a> {
        self.name
    }

    /// None if nothing is there.
    pub fn value(&self) -> Option<Value<'_>> {
        // SAFETY: the handle is open; any handle may be asked this.
        let kind = unsafe { api!(RedisModule_KeyType(self.key)) };
        (kind != flag::EMPTY).then_some(Value { key: self, kind })
    }
}

impl<'a> Value<'a> {
    pub fn expiry(self) -> Expiry {
        // SAFETY: the handle is open, and holds a value: without one, Redis reads from null (from 8.2 on).
        match unsafe { api!(RedisModule_GetAbsExpire(self.key.key)) } {
            at if at < 0 => Expiry::Never,
            at => Expiry::At(at),
        }
    }

    pub fn hash(self) -> Option<Hash<'a>> {
        (self.kind == flag::HASH).then_some(Hash(self.key))
    }

    pub fn sorted_set(self) -> Option<SortedSet<'a>> {
        (self.kind == flag::SORTED_SET).then_some(SortedSet(self.key))
    }

    pub fn is_text(self) -> bool {
        self.kind == flag::STRING
    }

    /// The bytes of a string.
    pub fn text(self) -> Option<&'a [u8]> {
        if !self.is_text() {
            return None;
        }
        let mut length = 0;
        // SAFETY: the handle is open and holds a string; its bytes stay where they are until the key is written to or
        // closed, which is impossible while it is borrowed. (The server first moves a short string elsewhere, even if the
        // key was opened for reading: only its encoding changes.)
        unsafe {
            let bytes = api!(RedisModule_StringDMA(self.key.key, &raw mut length, flag::READ));
            (!bytes.is_null()).then(|| slice::from_raw_parts(bytes.cast(), length))
        }
    }
}

impl Hash<'_> {
    /// The number of fields.
    pub fn length(self) -> usize {
        // SAFETY: the handle is open.
        unsafe { api!(RedisModule_ValueLength(self.0.key)) }
    }

    pub fn field(self, field: Str<'_>) -> Option<OwnedStr> {
        let mut value: *mut raw::RedisModuleString = ptr::null_mut();
        // SAFETY: the handle is open, and holds a hash; a field and where its value goes alternate, up to a null. The
        // value that comes back is a reference of our own.
        unsafe {
            api!(RedisModule_HashGet(
                self.0.key,
                flag::FIELDS_ARE_STRINGS,
                field.as_ptr(),
                &raw mut value,
                ptr::null_mut::<c_void>(),
            ));
        }
        OwnedStr::from_server(value)
    }

    /// The first fields with their values: all of them, or `most` and perhaps a few more. They are copied, since the caller
    /// may change the key while it uses them.
    pub fn first_fields(self, most: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut fields = Vec::with_capacity(self.length().min(most));
        // SAFETY: the cursor is ours until it is destroyed below; the handle is open, and holds a hash; `copy_field`
        // gets the vector that is passed with it, which nothing else touches meanwhile.
        unsafe {
            let cursor = api!(RedisModule_ScanCursorCreate());
            while api!(RedisModule_ScanKey(self.0.key, cursor, Some(copy_field), (&raw mut fields).cast())) != 0
                && fields.len() < most
            {}
            api!(RedisModule_ScanCursorDestroy(cursor));
        }
        fields
    }
}

impl<'a> SortedSet<'a> {
    /// The number of members.
    pub fn length(self) -> usize {
        // SAFETY: the handle is open.
        unsafe { api!(RedisModule_ValueLength(self.0.key)) }
    }

    pub fn score(self, member: Str<'_>) -> Option<f64> {
        let mut score = 0.0;
        // SAFETY: the handle is open, and holds a sorted set.
        let found = unsafe { api!(RedisModule_ZsetScore(self.0.key, member.as_ptr(), &raw mut score)) };
        (found == flag::OK).then_some(score)
    }

    /// A step for each member with a lower score, from the lowest.
    pub fn steps_below(self, score: f64) -> impl Iterator<Item = ()> + use<'a> {
        // SAFETY: the handle is open, and holds a sorted set; the last number says that the score itself is not in the range.
        unsafe { api!(RedisModule_ZsetFirstInScoreRange(self.0.key, f64::NEG_INFINITY, score, 0, 1)) };
        // SAFETY: a pointer that the server has set at load.
        Steps::of(self.0, unsafe { raw::RedisModule_ZsetRangeNext })
    }

    /// A step for each member with this score or a higher one, from the highest.
    pub fn steps_down_to(self, score: f64) -> impl Iterator<Item = ()> + use<'a> {
        // SAFETY: the handle is open, and holds a sorted set; the two numbers say that both ends are in the range.
        unsafe { api!(RedisModule_ZsetLastInScoreRange(self.0.key, score, f64::INFINITY, 0, 0)) };
        // SAFETY: a pointer that the server has set at load.
        Steps::of(self.0, unsafe { raw::RedisModule_ZsetRangePrev })
    }

    /// The members with this score or a higher one, from the lowest.
    pub fn ascending_from(self, lowest: f64) -> impl Iterator<Item = (OwnedStr, f64)> + use<'a> {
        // SAFETY: the handle is open, and holds a sorted set; the two numbers say that both ends are in the range.
        unsafe { api!(RedisModule_ZsetFirstInScoreRange(self.0.key, lowest, f64::INFINITY, 0, 0)) };
        // SAFETY: a pointer that the server has set at load.
        Ranks(Steps::of(self.0, unsafe { raw::RedisModule_ZsetRangeNext }))
    }

    /// The members from the highest score down.
    pub fn descending(self) -> impl Iterator<Item = (OwnedStr, f64)> + use<'a> {
        // SAFETY: as above.
        unsafe { api!(RedisModule_ZsetLastInScoreRange(self.0.key, f64::NEG_INFINITY, f64::INFINITY, 0, 0)) };
        // SAFETY: a pointer that the server has set at load.
        Ranks(Steps::of(self.0, unsafe { raw::RedisModule_ZsetRangePrev }))
    }
}

/// The function for the next step of a walk. After the last member the server stays there, and says so.
type Next = Option<unsafe extern "C" fn(*mut raw::RedisModuleKey) -> c_int>;

/// A walk through a range of a sorted set, which has begun. A key has one walk at a time: a new one ends the one before.
struct Steps<'a> {
    key: &'a Key<'a>,
    next: Next,
    is_over: bool,
}

impl<'a> Steps<'a> {
    fn of(key: &'a Key<'a>, next: Next) -> Self {
        // SAFETY: the handle is open, and a walk has begun.
        let is_over = unsafe { api!(RedisModule_ZsetRangeEndReached(key.key)) } != 0;
        Self { key, next, is_over }
    }
}

impl Iterator for Steps<'_> {
    type Item = ();

    fn next(&mut self) -> Option<()> {
        if self.is_over {
            return None;
        }
        // SAFETY: the handle is open, holds a sorted set, and is not written to while it is borrowed.
        self.is_over = self.next.is_none_or(|next| unsafe { next(self.key.key) } == 0);
        Some(())
    }
}

/// The same walk, with each member and its score.
struct Ranks<'a>(Steps<'a>);

impl Iterator for Ranks<'_> {
    type Item = (OwnedStr, f64);

    fn next(&mut self) -> Option<(OwnedStr, f64)> {
        if self.0.is_over {
            return None;
        }
        let mut score = 0.0;
        // SAFETY: the handle is open, holds a sorted set, and is not written to while it is borrowed. The server gives a string
        // that is ours, or null where the walk finds nothing.
        let member = unsafe { api!(RedisModule_ZsetRangeCurrentElement(self.0.key.key, &raw mut score)) };
        self.0.next();
        OwnedStr::from_server(member).map(|member| (member, score))
    }
}

impl<'a> WritableKey<'a> {
    /// Opens a key for writing, whether it is there or not. Opening alone changes nothing: see
    /// [`Context::signal_modified`].
    pub fn open(context: &'a Context, name: Str<'a>) -> Self {
        // SAFETY: the context and the name outlive the handle.
        let key = unsafe { api!(RedisModule_OpenKey(context.as_ptr(), name.as_ptr(), flag::WRITE)) };
        Self(Key { key: key.cast(), name })
    }

    /// The key must hold something, and the time must not be before 1970: else the server changes nothing.
    pub fn expire_at(&mut self, at: UnixMs) {
        // SAFETY: the handle is open.
        let result = unsafe { api!(RedisModule_SetAbsExpire(self.0.key, at)) };
        debug_assert_eq!(result, flag::OK, "the key ends at {at}");
    }

    /// The server frees a large value, such as a hash of thousands of fields, in a thread of its own.
    pub fn delete(&mut self) {
        // SAFETY: the handle is open.
        unsafe { api!(RedisModule_UnlinkKey(self.0.key)) };
    }

    /// Sets one field of a hash, or two. If the key is absent, creates the hash. If the key holds another type, the server
    /// changes nothing.
    pub fn set_fields(&mut self, (field, value): (Str<'_>, Str<'_>), other: Option<(Str<'_>, Str<'_>)>) {
        self.write(field, value.as_ptr(), other);
    }

    pub fn delete_field(&mut self, field: Str<'_>) {
        self.write(field, DELETE_FIELD, None);
    }

    fn write(&mut self, field: Str<'_>, value: *mut raw::RedisModuleString, other: Option<(Str<'_>, Str<'_>)>) {
        debug_assert!(self.value().is_none_or(|value| value.hash().is_some()), "fields are a hash's");
        let (other, its_value) = other.map_or((ptr::null_mut(), ptr::null_mut()), |(o, v)| (o.as_ptr(), v.as_ptr()));
        // SAFETY: the handle is open; a field and its value alternate, up to a null; all are copied.
        unsafe {
            api!(RedisModule_HashSet(
                self.0.key,
                flag::FIELDS_ARE_STRINGS,
                field.as_ptr(),
                value,
                other,
                its_value,
                ptr::null_mut::<c_void>(),
            ));
        }
    }

    /// Sets the score of a member. If the key is absent, creates the sorted set. If the key holds another type, the server
    /// changes nothing.
    pub fn set_score(&mut self, member: Str<'_>, score: f64) {
        debug_assert!(self.value().is_none_or(|value| value.sorted_set().is_some()), "members are a sorted set's");
        // SAFETY: the handle is open; the member is copied; without flags it is added or updated.
        unsafe { api!(RedisModule_ZsetAdd(self.0.key, score, member.as_ptr(), ptr::null_mut())) };
    }

    /// If it is the last member, the key is deleted, too.
    pub fn remove_member(&mut self, member: Str<'_>) {
        // SAFETY: the handle is open, and no walk through the set is under way.
        unsafe { api!(RedisModule_ZsetRem(self.0.key, member.as_ptr(), ptr::null_mut())) };
    }

    /// Removes the `count` members of a sorted set that have the lowest scores.
    pub fn remove_lowest(&mut self, count: usize) {
        let lowest =
            self.value().and_then(Value::sorted_set).map(|set| set.ascending_from(f64::NEG_INFINITY).take(count));
        let members: Vec<_> = lowest.into_iter().flatten().collect();
        for (member, _) in &members {
            self.remove_member(member.lend());
        }
    }

    /// Makes the key a string, whatever it was, without an expiry.
    pub fn set_text(&mut self, value: &OwnedStr) {
        // SAFETY: the handle is open, and no bytes of it are borrowed; the server takes a reference of its own, or a copy.
        unsafe { api!(RedisModule_StringSet(self.0.key, value.lend().as_ptr())) };
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
/// The server passes the field and value for the time of this call, and `fields` as [`Hash::first_fields`] gave it.
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
