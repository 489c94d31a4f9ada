//! The table of the errors: each error reply is written here, and nowhere else.
//!
//! A line is a code, what is wrong, and often behind a colon what is allowed or what to do. It is always a constant, so no
//! input can shape one; only [`Error::QueueTooLong`] is followed by a number.

use crate::lock::Refusal;
use crate::waiting::NoSession;
use crate::waiting::commands::Rejected;
use std::ffi::CStr;

/// An error reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    Arity,
    // The arguments.
    Holder,
    Lease,
    Keep,
    AnswerTooLong,
    Session,
    Ticket,
    Numkeys,
    KeyTwice,
    Wait,
    Max,
    Limit,
    Ack,
    Ttl,
    Count,
    Id,
    // The options.
    WaitTwice,
    MaxTwice,
    FencedTwice,
    SessionTwice,
    LimitTwice,
    SideTwice,
    LeaseTwice,
    KeepTwice,
    AllTwice,
    AckTwice,
    TtlTwice,
    CountTwice,
    MaxWithoutWait,
    SessionWithoutWait,
    OptionOfAcquire,
    OptionOfPermit,
    OptionOfOnce,
    OptionOfAnswer,
    OptionOfRelease,
    OptionOfEvents,
    OptionOfInspect,
    OptionOfQueues,
    OptionOfSessions,
    // The lock.
    WrongType,
    HoldsReadWrite,
    HoldsPlain,
    HoldsPermits,
    LeaseTooLong,
    LeaseAboveGrace,
    LeaseOnRead,
    WhichSide,
    TooManyHolds,
    Deadlock,
    BadToken,
    KeysOnTheirWay,
    OtherSlot,
    // The wait.
    QueueTooLong,
    WaitersFull,
    TicketsFull,
    TicketsOfUserFull,
    TicketInUse,
    TooManyTickets,
    SlotMoved,
    NowReplica,
    Replaced,
    StillCancelling,
    NoAnswer,
    // The session.
    NoSession,
    TakenOver,
    SessionsFull,
    SessionsOfUserFull,
    NoMemory,
    NeverTold,
    // The server.
    Paused,
    Stalled,
    WithinAnother,
    NoUser,
    NotAllKeys,
    Internal,
}

/// All errors, in the order of [`Error`]; a line for each.
#[rustfmt::skip]
pub const ERRORS: [(Error, &CStr); Error::Internal as usize + 1] = [
    (Error::Arity, c"ERR wrong number of arguments"),
    (Error::Holder, c"ERR holder must be 1 to 512 bytes, and must not be 'mode' or end in ':write'"),
    (Error::Lease, c"ERR lease must be an integer number of ms, at least 1, with its end at Unix ms 9223372036854775807 at most"),
    (Error::Keep, c"ERR KEEP must be an integer number of ms, at least 1, with its end at Unix ms 9223372036854775807 at most"),
    (Error::AnswerTooLong, c"ERR value is longer than rlock.max-answer: store it elsewhere, and answer with its name"),
    (Error::Session, c"ERR session must be 16 to 64 bytes, such as a UUID"),
    (Error::Ticket, c"ERR ticket must be 1 to 64 bytes"),
    (Error::Numkeys, c"ERR numkeys must be an integer from 1 to 64, the number of keys that follow"),
    (Error::KeyTwice, c"ERR key given twice: name each lock once"),
    (Error::Wait, c"ERR WAIT must be an integer number of ms from 0 (forever) to 9223372036854775807"),
    (Error::Max, c"ERR MAX must be an integer from 1 to 9223372036854775807"),
    (Error::Limit, c"ERR LIMIT must be an integer from 1 to 100000"),
    (Error::Ack, c"ERR ACK must be the number of an event, from 0 to that of the last one delivered"),
    (Error::Ttl, c"ERR TTL must be an integer number of ms from 1000 to 600000"),
    (Error::Count, c"ERR COUNT must be an integer from 1 to 10000"),
    (Error::Id, c"ERR END must be followed by a session's id, as RLOCK.SESSIONS lists it"),
    (Error::WaitTwice, c"ERR option WAIT given twice: each is allowed once"),
    (Error::MaxTwice, c"ERR option MAX given twice: each is allowed once"),
    (Error::FencedTwice, c"ERR option FENCED given twice: each is allowed once"),
    (Error::SessionTwice, c"ERR option SESSION given twice: each is allowed once"),
    (Error::LimitTwice, c"ERR option LIMIT given twice: each is allowed once"),
    (Error::SideTwice, c"ERR option READ or WRITE given twice: one of them is allowed, once"),
    (Error::LeaseTwice, c"ERR option LEASE given twice: each is allowed once"),
    (Error::KeepTwice, c"ERR option KEEP given twice: each is allowed once"),
    (Error::AllTwice, c"ERR option ALL given twice: each is allowed once"),
    (Error::AckTwice, c"ERR option ACK given twice: each is allowed once"),
    (Error::TtlTwice, c"ERR option TTL given twice: each is allowed once"),
    (Error::CountTwice, c"ERR option COUNT given twice: it is allowed once"),
    (Error::MaxWithoutWait, c"ERR MAX needs WAIT ms: it bounds the queue, and without WAIT nothing waits"),
    (Error::SessionWithoutWait, c"ERR SESSION needs WAIT ms: without it there is no wait for a ticket"),
    (Error::OptionOfAcquire, c"ERR option unknown: after lease-ms come WAIT ms, MAX n, FENCED and SESSION session ticket"),
    (Error::OptionOfPermit, c"ERR option unknown: after lease-ms come LIMIT n, WAIT ms, MAX n, FENCED and SESSION session ticket"),
    (Error::OptionOfOnce, c"ERR option unknown: after lease-ms come WAIT ms, MAX n and SESSION session ticket"),
    (Error::OptionOfAnswer, c"ERR option unknown: after value comes KEEP ms"),
    (Error::OptionOfRelease, c"ERR option unknown: after holder come READ or WRITE, LEASE lease-ms, and ALL"),
    (Error::OptionOfEvents, c"ERR option unknown: after session come ACK seq, WAIT ms and TTL ms"),
    (Error::OptionOfInspect, c"ERR option unknown: after key comes COUNT n"),
    (Error::OptionOfQueues, c"ERR option unknown: the only option is COUNT n"),
    (Error::OptionOfSessions, c"ERR option unknown: the options are COUNT n or END id"),
    (Error::WrongType, c"WRONGTYPE key is not a lock: not a hash, or a hash without hold counts, nor a sorted set of permits"),
    (Error::HoldsReadWrite, c"WRONGKIND key is a read-write lock: use RLOCK.RACQUIRE or RLOCK.WACQUIRE, and RLOCK.RELEASE"),
    (Error::HoldsPlain, c"WRONGKIND key is a plain lock: use RLOCK.ACQUIRE, and RLOCK.RELEASE without READ or WRITE"),
    (Error::HoldsPermits, c"WRONGKIND key holds permits: use RLOCK.PACQUIRE, and RLOCK.RELEASE without READ or WRITE"),
    (Error::LeaseTooLong, c"ERR lease must be shorter: its end, in Unix ms, may be at most 9223372036854775807, of a permit 9007199254740992"),
    (Error::LeaseAboveGrace, c"ERR lease must be at most as long as rlock.grace, and so must the sum of a writer's leases"),
    (Error::LeaseOnRead, c"ERR LEASE has no meaning for a read release: each read hold has its own lease"),
    (Error::WhichSide, c"ERR holder has both sides of this lock: add READ, WRITE or ALL"),
    (Error::TooManyHolds, c"ERR holder has too many holds on this lock: the limits are 10000 read holds and a count of 9223372036854775807"),
    (Error::Deadlock, c"DEADLOCK holder reads this lock and would wait for itself: release the read first"),
    (Error::BadToken, c"ERR fencing counter of this key is not an integer below 9223372036854775807"),
    (Error::KeysOnTheirWay, c"TRYAGAIN the slot of this lock is moving: this node does not have all its keys"),
    (Error::OtherSlot, c"ERR lock name and its derived keys must map to one hash slot: use one {tag} that is not empty, or no braces"),
    (Error::QueueTooLong, c"QUEUEFULL as many wait for this lock as MAX allows, or more"),
    (Error::WaitersFull, c"QUEUEFULL no more clients can wait: rlock.max-waiters is reached"),
    (Error::TicketsFull, c"QUEUEFULL no more tickets can wait: rlock.max-tickets is reached"),
    (Error::TicketsOfUserFull, c"QUEUEFULL no more tickets of this user can wait: rlock.max-tickets-per-user is reached"),
    (Error::TicketInUse, c"ERR ticket is in use for another wait, which differs in lock, holder, side, limit or FENCED: use a new ticket"),
    (Error::TooManyTickets, c"ERR too many tickets: in a transaction or a script CANCEL takes at most 1000"),
    (Error::SlotMoved, c"TRYAGAIN another node serves the slot of this lock now"),
    (Error::NowReplica, c"UNBLOCKED this server has become a replica: ask the new master for the lock"),
    (Error::Replaced, c"UNBLOCKED another request of this holder took its place"),
    (Error::StillCancelling, c"UNBLOCKED the tickets are still being taken back: send the command again to learn when all are"),
    (Error::NoAnswer, c"UNBLOCKED the lock is no longer waited for"),
    (Error::NoSession, c"NOSESSION no session of this name is open for this user: open one by RLOCK.EVENTS without ACK"),
    (Error::TakenOver, c"TAKENOVER a newer connection polls this session: open one for each process, under a name of its own"),
    (Error::SessionsFull, c"QUEUEFULL no more sessions can be opened: rlock.max-sessions is reached"),
    (Error::SessionsOfUserFull, c"QUEUEFULL no more sessions of this user can be opened: rlock.max-sessions-per-user is reached"),
    (Error::NoMemory, c"OOM no session can be opened: the server has reached its maxmemory"),
    (Error::NeverTold, c"ERR ACK must be at most the seq of the last event that was delivered"),
    (Error::Paused, c"TRYAGAIN writes are paused on this server"),
    (Error::Stalled, c"NOREPLICAS this server stalled, and a replica may have replaced it: try again in some seconds"),
    (Error::WithinAnother, c"TRYAGAIN another command of rlock is under way: a module must call commands in a job after the event, not in it"),
    (Error::NoUser, c"NOPERM this command needs an authenticated client, not a call by another module"),
    (Error::NotAllKeys, c"NOPERM the sessions of all users need the right to read all keys: ~* or %R~*, outside of selectors"),
    (Error::Internal, c"ERR internal error in rlock: the server's log has the details, and the lock may have changed"),
];

impl Error {
    /// The whole line.
    #[must_use]
    pub fn line(self) -> &'static CStr {
        ERRORS.get(self as usize).map_or(c"", |(_, line)| line)
    }

    /// The first word of the line, by which programs tell errors apart.
    #[must_use]
    pub fn code(self) -> &'static str {
        self.parts().0
    }

    /// What is wrong.
    #[must_use]
    pub fn text(self) -> &'static str {
        self.parts().1
    }

    /// What is allowed, or what to do. Empty if the text says all.
    #[must_use]
    pub fn remedy(self) -> &'static str {
        self.parts().2
    }

    fn parts(self) -> (&'static str, &'static str, &'static str) {
        let line = self.line().to_str().unwrap_or_default();
        let (code, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (text, remedy) = rest.split_once(": ").unwrap_or((rest, ""));
        (code, text, remedy)
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::WrongType => Self::WrongType,
            Refusal::HoldsReadWrite => Self::HoldsReadWrite,
            Refusal::HoldsPlain => Self::HoldsPlain,
            Refusal::HoldsPermits => Self::HoldsPermits,
            Refusal::LeaseTooLong => Self::LeaseTooLong,
            Refusal::KeepTooLong => Self::Keep,
            Refusal::LeaseAboveGrace => Self::LeaseAboveGrace,
            Refusal::LeaseOnRead => Self::LeaseOnRead,
            Refusal::WhichSide => Self::WhichSide,
            Refusal::TooManyHolds => Self::TooManyHolds,
            Refusal::Deadlock => Self::Deadlock,
            Refusal::BadToken => Self::BadToken,
            Refusal::KeysOnTheirWay => Self::KeysOnTheirWay,
            Refusal::OtherSlot => Self::OtherSlot,
        }
    }
}

impl From<Rejected> for Error {
    fn from(rejected: Rejected) -> Self {
        match rejected {
            Rejected::Refused(refusal) => refusal.into(),
            Rejected::Paused => Self::Paused,
            Rejected::Stalled => Self::Stalled,
            Rejected::TicketInUse => Self::TicketInUse,
            Rejected::QueueFull => Self::WaitersFull,
            Rejected::TicketsFull => Self::TicketsFull,
            Rejected::TooManyTickets => Self::TooManyTickets,
            Rejected::AnswerTooLong => Self::AnswerTooLong,
            Rejected::TicketsOfUserFull => Self::TicketsOfUserFull,
        }
    }
}

impl From<NoSession> for Error {
    fn from(why: NoSession) -> Self {
        match why {
            NoSession::Unknown | NoSession::TakenOver => Self::NoSession,
            NoSession::AnotherWaits => Self::TakenOver,
            NoSession::TooMany => Self::SessionsFull,
            NoSession::TooManyOfUser => Self::SessionsOfUserFull,
            NoSession::NoMemory => Self::NoMemory,
            NoSession::NeverTold => Self::NeverTold,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_error_has_its_own_line() {
        for (place, (error, _)) in ERRORS.iter().enumerate() {
            assert_eq!(*error as usize, place, "{error:?} is not in its place");
        }
        let lines: BTreeSet<_> = ERRORS.iter().map(|(_, line)| line).collect();
        assert_eq!(lines.len(), ERRORS.len());
    }

    #[test]
    fn a_line_is_a_code_a_text_and_perhaps_a_remedy() {
        for (error, line) in ERRORS {
            let (code, text, remedy) = (error.code(), error.text(), error.remedy());
            assert!(!code.is_empty() && code.bytes().all(|byte| byte.is_ascii_uppercase()), "{line:?}");
            let colon = if remedy.is_empty() { "" } else { ": " };
            assert_eq!(line.to_str().unwrap(), format!("{code} {text}{colon}{remedy}"));
            assert!(!text.is_empty() && !line.to_bytes().contains(&b'\n'), "{line:?}");
        }
        assert_eq!((Error::Arity.text(), Error::Arity.remedy()), ("wrong number of arguments", ""));
        assert_eq!((Error::KeyTwice.text(), Error::KeyTwice.remedy()), ("key given twice", "name each lock once"));
    }
}
