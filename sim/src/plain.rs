//! The plain Redis commands that a change stands for.
//!
//! The module writes, replicates and announces each change as these commands. Here nothing else writes to the keyspace, so
//! every test on it also shows that these commands alone make the right keys.

use rlock_core::lock::{Change, Field, Mode, Side, UnixMs, Unlock, names};

/// A command that writes, with its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plain<'a> {
    Del {
        key: &'a [u8],
    },
    HDel {
        key: &'a [u8],
        field: &'a [u8],
    },
    HIncrBy {
        key: &'a [u8],
        field: &'a [u8],
        by: i64,
    },
    HSet {
        key: &'a [u8],
        field: &'a [u8],
        value: &'a [u8],
    },
    Incr {
        key: &'a [u8],
    },
    /// It does not create a key.
    PExpireAt {
        key: &'a [u8],
        at: UnixMs,
    },
    Persist {
        key: &'a [u8],
    },
    Publish {
        channel: &'a [u8],
        message: &'a [u8],
    },
    /// `SET key value PXAT at`
    Set {
        key: &'a [u8],
        value: &'a [u8],
        at: Option<UnixMs>,
    },
    /// `SET key value KEEPTTL`
    SetKeepTtl {
        key: &'a [u8],
        value: &'a [u8],
    },
    ZAdd {
        key: &'a [u8],
        end: UnixMs,
        member: &'a [u8],
    },
    ZRem {
        key: &'a [u8],
        member: &'a [u8],
    },
    /// `ZREMRANGEBYRANK key 0 last`
    ZRemRangeByRank {
        key: &'a [u8],
        last: usize,
    },
}

/// Runs the commands that this change of a holder of `key` stands for, in their order. `answer` is what the plan stores.
pub(crate) fn each(
    (key, holder): (&[u8], &[u8]),
    change: Change,
    answer: Option<&[u8]>,
    mut run: impl FnMut(Plain<'_>),
) {
    match change {
        Change::Begin { side: Side::Permit(_), end } => {
            run(Plain::ZAdd { key, end, member: holder });
            run(Plain::PExpireAt { key, at: end });
        }
        Change::Begin { side, end } => {
            if let Some(mode) = side.mode() {
                run(Plain::HSet { key, field: names::MODE_FIELD, value: word(mode) });
            }
            with_field(holder, side.field(), |field| run(Plain::HIncrBy { key, field, by: 1 }));
            run(Plain::PExpireAt { key, at: end });
        }
        Change::Count { field, by, .. } => {
            with_field(holder, field, |field| run(Plain::HIncrBy { key, field, by: by.into() }));
        }
        Change::Drop(field) => with_field(holder, field, |field| run(Plain::HDel { key, field })),
        Change::Downgrade => run(Plain::HSet { key, field: names::MODE_FIELD, value: word(Mode::Read) }),
        Change::ExpireAt(at) => run(Plain::PExpireAt { key, at }),
        Change::Delete => run(Plain::Del { key }),
        Change::SetPermit { end, .. } => run(Plain::ZAdd { key, end, member: holder }),
        Change::DropPermit => run(Plain::ZRem { key, member: holder }),
        Change::DropEnded { count } => {
            run(Plain::ZRemRangeByRank { key, last: usize::from(count).saturating_sub(1) });
        }
        Change::SetHold { index, end } => set_hold(key, holder, index.into(), end, &mut run),
        Change::RenewHolds { count, end } => {
            (1..=count.into()).for_each(|index| set_hold(key, holder, index, end, &mut run));
        }
        Change::DropHolds { first, count } => {
            for index in (first..).take(count.into()) {
                names::read_hold(key, holder, index, |key| run(Plain::Del { key }));
            }
        }
        Change::CountToken { .. } => names::fencing_counter(key, |key| run(Plain::Incr { key })),
        Change::SetToken { to } => {
            let value = to.to_string();
            names::fencing_counter(key, |key| run(Plain::SetKeepTtl { key, value: value.as_bytes() }));
        }
        Change::StoreAnswer { end } => {
            let value = answer.unwrap_or_default();
            names::answer(key, |key| run(Plain::Set { key, value, at: Some(end) }));
        }
        Change::Publish(unlock) => {
            let message: &[u8] = if unlock == Unlock::Write { b"1" } else { b"0" };
            names::channel(key, unlock, |channel| run(Plain::Publish { channel, message }));
        }
        Change::PermitStays => {}
    }
}

/// The key of a live read hold already has this value; only its end changes.
fn set_hold(key: &[u8], holder: &[u8], index: i64, end: UnixMs, run: &mut impl FnMut(Plain<'_>)) {
    names::read_hold(key, holder, index, |key| run(Plain::Set { key, value: b"1", at: Some(end) }));
}

pub(crate) fn with_field(holder: &[u8], field: Field, use_name: impl FnOnce(&[u8])) {
    match field {
        Field::Holder => use_name(holder),
        Field::HolderWrite => names::write_field(holder, use_name),
    }
}

fn word(mode: Mode) -> &'static [u8] {
    match mode {
        Mode::Read => b"read",
        Mode::Write => b"write",
    }
}
