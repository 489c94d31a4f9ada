//! The table of the commands: their names, arguments and options, and what the server learns about them.
//!
//! A new command is one entry here and a handler in the module. A new option is one entry here, in the list of each command
//! that takes it, and a field of [`Request`](super::Request).

use super::Error;
use crate::lock::{HOLDER_LEN_MAX, Limit};

/// A command.
#[derive(Debug)]
pub struct Command {
    /// As clients write it. The server takes it in any case.
    pub name: &'static str,
    pub summary: &'static str,
    pub complexity: &'static str,
    /// As the server's function takes them.
    pub flags: &'static str,
    pub audience: Audience,
    pub key: KeyUse,
    /// In this order, three at most.
    pub arguments: &'static [Argument],
    /// Behind the arguments, in any order, each at most once. A required one comes first in this list.
    pub options: &'static [OptionWord],
    /// The reply to any other word in their place.
    pub unknown_option: Error,
}

/// The users that get the command, by the ACL categories that it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Clients that lock.
    Services,
    /// Clients that only look.
    Onlookers,
    /// Operators: they may take a lock away from its holder. In none of the categories that services get, such as `write`.
    Operators,
}

/// The utmost that the command does to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyUse {
    /// The command has no key.
    NoKey,
    Reads,
    Updates,
    /// The first argument says how many keys follow.
    UpdatesSeveral,
    Deletes,
}

/// An option: a word, with its arguments behind it.
#[derive(Clone, Copy, Debug)]
pub struct OptionWord {
    /// In any case. Of several words one is given.
    pub words: &'static [&'static str],
    pub meaning: Meaning,
    pub rule: Rule,
    pub given_twice: Error,
}

/// What an option says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// These, behind its word.
    Arguments(&'static [Argument]),
    /// The word says all: a token is drawn.
    Fenced,
    /// The word says all: every hold is released.
    All,
    /// The word is the side.
    Side,
}

/// Which options come together.
#[derive(Clone, Copy, Debug)]
pub enum Rule {
    Free,
    Required,
    /// Nothing comes with it.
    Alone,
    /// Has no meaning without this one.
    Needs(&'static OptionWord, Error),
}

/// A value, written as one word; or as several, where a command takes a number of keys or tickets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    Key,
    /// The number of keys, and the keys.
    Keys,
    Holder,
    Lease,
    /// The answer of the work under a lock.
    Value,
    /// For how long an answer is kept.
    Keep,
    Session,
    Ticket,
    /// All words that follow.
    Tickets,
    Wait,
    Max,
    Limit,
    Seq,
    Ttl,
    Count,
    Id,
}

/// The words that an argument may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Any bytes, which name a key.
    Key,
    /// Any bytes.
    Value,
    /// At least and at most so many bytes.
    Text(usize, usize),
    /// An integer, at least and at most so large.
    Number(i64, i64),
}

/// The most keys of one command. The server serves no other client while it looks at them.
pub const KEYS_MAX: i64 = 64;

impl Argument {
    /// The argument's name in COMMAND DOCS.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Key | Self::Keys => "key",
            Self::Holder => "holder",
            Self::Lease => "lease-ms",
            Self::Value => "value",
            Self::Keep => "keep-ms",
            Self::Session => "session",
            Self::Ticket | Self::Tickets => "ticket",
            Self::Wait => "wait-ms",
            Self::Max => "max-waiters",
            Self::Limit => "limit",
            Self::Seq => "seq",
            Self::Ttl => "ttl-ms",
            Self::Count => "count",
            Self::Id => "id",
        }
    }

    /// What each of its words may be.
    #[must_use]
    pub const fn form(self) -> Form {
        match self {
            Self::Key | Self::Keys => Form::Key,
            Self::Value => Form::Value,
            Self::Holder => Form::Text(1, HOLDER_LEN_MAX),
            // Long enough that no other program hits upon it.
            Self::Session => Form::Text(16, 64),
            Self::Ticket | Self::Tickets => Form::Text(1, 64),
            Self::Lease | Self::Keep | Self::Max => Form::Number(1, i64::MAX),
            Self::Limit => Form::Number(1, Limit::MAX),
            Self::Wait | Self::Seq | Self::Id => Form::Number(0, i64::MAX),
            Self::Ttl => Form::Number(1_000, 600_000),
            Self::Count => Form::Number(1, 10_000),
        }
    }

    /// The reply to any other word.
    #[must_use]
    pub const fn wrong(self) -> Error {
        match self {
            Self::Key | Self::Value => Error::Arity,
            Self::Keys => Error::Numkeys,
            Self::Holder => Error::Holder,
            Self::Lease => Error::Lease,
            Self::Keep => Error::Keep,
            Self::Session => Error::Session,
            Self::Ticket | Self::Tickets => Error::Ticket,
            Self::Wait => Error::Wait,
            Self::Max => Error::Max,
            Self::Limit => Error::Limit,
            Self::Seq => Error::Ack,
            Self::Ttl => Error::Ttl,
            Self::Count => Error::Count,
            Self::Id => Error::Id,
        }
    }
}

impl Command {
    /// The least number of words, the name included; and whether there may be more.
    #[must_use]
    pub fn arity(&self) -> (usize, bool) {
        let of_argument = |argument: &Argument| match argument {
            Argument::Keys => 2,
            Argument::Tickets => 0,
            _ => 1,
        };
        let of_option = |option: &OptionWord| {
            if option.is_required() { 1_usize.saturating_add(option.arguments().len()) } else { 0 }
        };
        let words = self.arguments.iter().map(of_argument).chain(self.options.iter().map(of_option));
        let may_have_more =
            self.arguments.iter().any(|argument| matches!(argument, Argument::Keys | Argument::Tickets))
                || self.options.iter().any(|option| !option.is_required());
        (words.fold(1, usize::saturating_add), may_have_more)
    }

    /// The command of this name, in any case.
    #[must_use]
    pub fn named(name: &[u8]) -> Option<&'static Self> {
        COMMANDS.into_iter().find(|command| command.name.as_bytes().eq_ignore_ascii_case(name))
    }
}

impl OptionWord {
    #[must_use]
    pub fn arguments(&self) -> &'static [Argument] {
        if let Meaning::Arguments(arguments) = self.meaning { arguments } else { &[] }
    }

    #[must_use]
    pub const fn is_required(&self) -> bool {
        matches!(self.rule, Rule::Required)
    }
}

pub const READ: &str = "READ";
pub const WRITE: &str = "WRITE";

const WAIT: OptionWord = OptionWord {
    words: &["WAIT"],
    meaning: Meaning::Arguments(&[Argument::Wait]),
    rule: Rule::Free,
    given_twice: Error::WaitTwice,
};

const MAX: OptionWord = OptionWord {
    words: &["MAX"],
    meaning: Meaning::Arguments(&[Argument::Max]),
    rule: Rule::Needs(&WAIT, Error::MaxWithoutWait),
    given_twice: Error::MaxTwice,
};

const FENCED: OptionWord =
    OptionWord { words: &["FENCED"], meaning: Meaning::Fenced, rule: Rule::Free, given_twice: Error::FencedTwice };

const SESSION: OptionWord = OptionWord {
    words: &["SESSION"],
    meaning: Meaning::Arguments(&[Argument::Session, Argument::Ticket]),
    rule: Rule::Needs(&WAIT, Error::SessionWithoutWait),
    given_twice: Error::SessionTwice,
};

const LIMIT: OptionWord = OptionWord {
    words: &["LIMIT"],
    meaning: Meaning::Arguments(&[Argument::Limit]),
    rule: Rule::Required,
    given_twice: Error::LimitTwice,
};

const SIDE: OptionWord =
    OptionWord { words: &[READ, WRITE], meaning: Meaning::Side, rule: Rule::Free, given_twice: Error::SideTwice };

const LEASE: OptionWord = OptionWord {
    words: &["LEASE"],
    meaning: Meaning::Arguments(&[Argument::Lease]),
    rule: Rule::Free,
    given_twice: Error::LeaseTwice,
};

const KEEP: OptionWord = OptionWord {
    words: &["KEEP"],
    meaning: Meaning::Arguments(&[Argument::Keep]),
    rule: Rule::Required,
    given_twice: Error::KeepTwice,
};

const ALL: OptionWord =
    OptionWord { words: &["ALL"], meaning: Meaning::All, rule: Rule::Free, given_twice: Error::AllTwice };

const ACK: OptionWord = OptionWord {
    words: &["ACK"],
    meaning: Meaning::Arguments(&[Argument::Seq]),
    rule: Rule::Free,
    given_twice: Error::AckTwice,
};

const TTL: OptionWord = OptionWord {
    words: &["TTL"],
    meaning: Meaning::Arguments(&[Argument::Ttl]),
    rule: Rule::Free,
    given_twice: Error::TtlTwice,
};

const COUNT: OptionWord = OptionWord {
    words: &["COUNT"],
    meaning: Meaning::Arguments(&[Argument::Count]),
    rule: Rule::Free,
    given_twice: Error::CountTwice,
};

const END: OptionWord = OptionWord {
    words: &["END"],
    meaning: Meaning::Arguments(&[Argument::Id]),
    rule: Rule::Alone,
    given_twice: Error::OptionOfSessions,
};

pub const COMMANDS: [&Command; 15] = [
    &ACQUIRE, &RACQUIRE, &WACQUIRE, &PACQUIRE, &MACQUIRE, &ONCE, &ANSWER, &RELEASE, &RENEW, &INSPECT, &QUEUES, &BREAK,
    &EVENTS, &CANCEL, &SESSIONS,
];

pub const ACQUIRE: Command = Command {
    name: "RLOCK.ACQUIRE",
    summary: "Acquires an exclusive lock, or re-enters it, with a lease.",
    complexity: "O(1)",
    flags: "write deny-oom",
    audience: Audience::Services,
    key: KeyUse::Updates,
    arguments: &[Argument::Key, Argument::Holder, Argument::Lease],
    options: &[WAIT, MAX, FENCED, SESSION],
    unknown_option: Error::OptionOfAcquire,
};

pub const RACQUIRE: Command = Command {
    name: "RLOCK.RACQUIRE",
    summary: "Acquires the read side of a read-write lock; each read hold has its own lease.",
    ..ACQUIRE
};

pub const WACQUIRE: Command = Command {
    name: "RLOCK.WACQUIRE",
    summary: "Acquires the write side of a read-write lock, or re-enters it, with a lease.",
    ..ACQUIRE
};

pub const PACQUIRE: Command = Command {
    name: "RLOCK.PACQUIRE",
    summary: "Acquires one of at most so many permits, or restarts the lease of the one that the holder has.",
    complexity: "O(log(N)+M) with N the number of permits and M that of those which have ended and are not dropped yet; drops at most 1000",
    options: &[LIMIT, WAIT, MAX, FENCED, SESSION],
    unknown_option: Error::OptionOfPermit,
    ..ACQUIRE
};

pub const MACQUIRE: Command = Command {
    name: "RLOCK.MACQUIRE",
    summary: "Acquires several exclusive locks with a lease, all or none.",
    complexity: "O(N*log(W)+M) with N the number of keys, W that of waiters, and M that of the keys of up to 16 requests that wait before this one",
    flags: "write deny-oom getkeys-api",
    key: KeyUse::UpdatesSeveral,
    arguments: &[Argument::Keys, Argument::Holder, Argument::Lease],
    ..ACQUIRE
};

pub const ONCE: Command = Command {
    name: "RLOCK.ONCE",
    summary: "Returns the stored answer of a key, or acquires its lock for the work that makes one.",
    complexity: "O(N) with N the length of the answer",
    options: &[WAIT, MAX, SESSION],
    unknown_option: Error::OptionOfOnce,
    ..ACQUIRE
};

pub const ANSWER: Command = Command {
    name: "RLOCK.ANSWER",
    summary: "Stores an answer and releases the lock in one step; every waiting RLOCK.ONCE gets the answer.",
    complexity: "O(N+W) with N the length of the answer and W the number of waiters; what takes longer than a few ms is done later",
    arguments: &[Argument::Key, Argument::Holder, Argument::Value],
    options: &[KEEP],
    unknown_option: Error::OptionOfAnswer,
    ..ACQUIRE
};

pub const RELEASE: Command = Command {
    name: "RLOCK.RELEASE",
    summary: "Releases one hold on a lock, or all holds of this holder.",
    complexity: "O(1). For a read hold O(N) with N the number of remaining read holds, at most 256: with up to 16 readers it looks at all, with more only if the released hold ends with the lock",
    flags: "write",
    audience: Audience::Services,
    key: KeyUse::Deletes,
    arguments: &[Argument::Key, Argument::Holder],
    options: &[SIDE, LEASE, ALL],
    unknown_option: Error::OptionOfRelease,
};

pub const RENEW: Command = Command {
    name: "RLOCK.RENEW",
    summary: "Restarts the lease of all holds of this holder on a lock.",
    complexity: "O(1). For read holds O(N) with N their number; if the lease becomes shorter, with N the number of the read holds of all holders, of which it looks at most at 256",
    flags: "write",
    audience: Audience::Services,
    key: KeyUse::Updates,
    arguments: &[Argument::Key, Argument::Holder, Argument::Lease],
    options: &[],
    unknown_option: Error::Arity,
};

pub const INSPECT: Command = Command {
    name: "RLOCK.INSPECT",
    summary: "Shows the holders of a lock, what is left of their leases, and its waiters.",
    complexity: "O(N) with N the number of holders and waiters shown (COUNT of each: 1 to 10000, 100 by default) and of the read holds of those holders; looks at most at 10000 read holds",
    flags: "readonly",
    audience: Audience::Onlookers,
    key: KeyUse::Reads,
    arguments: &[Argument::Key],
    options: &[COUNT],
    unknown_option: Error::OptionOfInspect,
};

pub const QUEUES: Command = Command {
    name: "RLOCK.QUEUES",
    summary: "Lists the locks that have waiters, the longest queue first.",
    complexity: "O(N) with N the number of locks shown (COUNT: 1 to 10000, 100 by default) and of locks that the user may not read; looks at most at 2000 of these",
    // Not in scripts, where the user is unknown.
    flags: "readonly deny-script",
    audience: Audience::Onlookers,
    key: KeyUse::NoKey,
    arguments: &[],
    options: &[COUNT],
    unknown_option: Error::OptionOfQueues,
};

pub const BREAK: Command = Command {
    name: "RLOCK.BREAK",
    summary: "Frees a lock by force; the next waiter gets it.",
    complexity: "O(N) with N the number of holders, 1000 at most, and of their read holds, of which it looks at most at 100000; what takes longer than a few ms is deleted later",
    flags: "write admin",
    audience: Audience::Operators,
    key: KeyUse::Deletes,
    arguments: &[Argument::Key],
    options: &[],
    unknown_option: Error::Arity,
};

pub const EVENTS: Command = Command {
    name: "RLOCK.EVENTS",
    summary: "Tells a session what became of its tickets, or waits until it can; opens the session.",
    complexity: "O(N) with N the number of delivered events, at most 128 KiB at once; what is acknowledged beyond 256 events is freed later",
    // No write: a server that has become a replica still has to tell its tickets so.
    flags: "allow-stale",
    audience: Audience::Services,
    key: KeyUse::NoKey,
    arguments: &[Argument::Session],
    options: &[ACK, WAIT, TTL],
    unknown_option: Error::OptionOfEvents,
};

pub const CANCEL: Command = Command {
    name: "RLOCK.CANCEL",
    summary: "Takes tickets of a session back, or ends the session.",
    complexity: "O(N) with N the number of tickets; what is left after a few ms is done by and by",
    flags: "write",
    audience: Audience::Services,
    key: KeyUse::NoKey,
    arguments: &[Argument::Session, Argument::Tickets],
    options: &[],
    unknown_option: Error::Arity,
};

pub const SESSIONS: Command = Command {
    name: "RLOCK.SESSIONS",
    summary: "Lists the sessions of all users, those with the most tickets and events first; or ends one.",
    complexity: "O(N) with N the number of sessions, and O(M log M) with M the number of those shown (COUNT: 1 to 10000, 100 by default; at most 1000)",
    // No write: what the end of a session releases is written later, where the server lets it. Not in scripts, as QUEUES.
    flags: "admin deny-script allow-stale",
    audience: Audience::Operators,
    key: KeyUse::NoKey,
    arguments: &[],
    options: &[COUNT, END],
    unknown_option: Error::OptionOfSessions,
};
