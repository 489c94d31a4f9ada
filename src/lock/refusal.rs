//! Why a command that was well-formed is not carried out. A refusal changes nothing and replicates nothing.

use std::ffi::CStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The key is not a hash, or a hash that no lock command wrote.
    WrongType,
    /// A plain command on a read-write lock.
    HoldsReadWrite,
    /// A read-write command on a plain lock.
    HoldsPlain,
    /// Now plus the lease is more than the server can store.
    LeaseTooLong,
    /// LEASE on a read release.
    LeaseOnRead,
    /// This holder has both sides, and the release names neither.
    WhichSide,
    /// One hold more, or work on all of them, is more than the limits allow.
    TooManyHolds,
    /// A reader of this lock asks to write, and would wait for itself.
    Deadlock,
    /// The fencing counter is not an integer, or cannot grow.
    BadToken,
    /// In a cluster, the slot is on its way from one node to another, and the counter may be at the other one.
    TokenOnItsWay,
    /// In a cluster, the keys derived from this name are in another slot.
    OtherSlot,
}

impl Refusal {
    /// The error reply.
    #[must_use]
    pub fn wire(self) -> &'static CStr {
        match self {
            Self::WrongType => c"WRONGTYPE key is not a lock: not a hash, or a hash whose fields are not hold counts",
            Self::HoldsReadWrite => {
                c"WRONGKIND key is a read-write lock: use RLOCK.RACQUIRE or RLOCK.WACQUIRE, and RLOCK.RELEASE"
            }
            Self::HoldsPlain => {
                c"WRONGKIND key is a plain lock: use RLOCK.ACQUIRE, and RLOCK.RELEASE without READ or WRITE"
            }
            Self::LeaseTooLong => {
                c"ERR lease must be short enough that the moment it ends, in Unix ms, is at most 9223372036854775807"
            }
            Self::LeaseOnRead => c"ERR LEASE has no meaning for a read release: each read hold has a lease of its own",
            Self::WhichSide => c"ERR holder has both sides of this lock: say READ, WRITE or ALL",
            Self::TooManyHolds => {
                c"ERR holder has too many holds on this lock: at most 10000 read holds, and counts up to 9223372036854775807"
            }
            Self::Deadlock => {
                c"DEADLOCK holder reads this lock, and would wait for itself to write it: release the read first"
            }
            Self::BadToken => c"ERR fencing counter of this key is not an integer below 9223372036854775807",
            Self::TokenOnItsWay => {
                c"TRYAGAIN the slot of this lock is moving, and its fencing counter may still be, or already be, elsewhere"
            }
            Self::OtherSlot => {
                c"ERR key must carry its hash slot into redisson_lock_token:{key} and {key}:...: in a cluster, a name with braces needs one {tag} that is not empty, and a name without them no }"
            }
        }
    }
}
