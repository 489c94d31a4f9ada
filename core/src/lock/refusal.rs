//! Why a command that was well-formed is not carried out. A refusal changes nothing and replicates nothing.

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
