//! What a command is: what the server needs to know of it, and what it does.

use super::reply::{ErrorLine, Reply};
use crate::server::ffi::context::Context;
use crate::server::ffi::string::Str;
use redis_module::raw;
use std::ffi::{CStr, c_int};

/// A command of the module.
pub trait Command {
    const SPEC: Spec;

    /// # Errors
    /// The error reply. It must then have changed nothing.
    fn run(context: &Context, arguments: &[Str<'_>]) -> Result<Reply, ErrorLine>;
}

/// A command in the form in which the server takes it.
#[derive(Clone, Copy)]
pub struct Registration {
    pub(in crate::server) spec: &'static Spec,
    pub(in crate::server) entry: Entry,
}

pub(in crate::server) type Entry =
    unsafe extern "C" fn(*mut raw::RedisModuleCtx, *mut *mut raw::RedisModuleString, c_int) -> c_int;

/// What the server needs to know of a command; the source of COMMAND DOCS and COMMAND INFO. The lock's key, if the
/// command has one, is the first argument.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    pub name: &'static CStr,
    pub summary: &'static CStr,
    pub complexity: &'static CStr,
    /// As in COMMAND INFO: counted with the command's name, negative for "at least".
    pub arity: i32,
    /// As the server's function takes them.
    pub flags: &'static CStr,
    pub audience: Audience,
    pub key: KeyUse,
    pub arguments: &'static [Argument],
}

/// The users that get the command, by the ACL categories that it is in.
#[derive(Clone, Copy, Debug)]
pub enum Audience {
    /// Clients that lock.
    Services,
    /// Clients that only look.
    Onlookers,
    /// People who may take a lock away from its holder. In none of the categories that services get, such as `write`.
    Operators,
}

/// The most that the command does to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyUse {
    /// The command has no key.
    NoKey,
    Reads,
    Updates,
    Deletes,
}

/// An argument as COMMAND DOCS shows it.
#[derive(Clone, Copy, Debug)]
pub enum Argument {
    Key(&'static CStr),
    Text(&'static CStr),
    Integer(&'static CStr),
    /// An option word.
    Flag {
        name: &'static CStr,
        word: &'static CStr,
    },
    /// Any number of texts, even none.
    Texts(&'static CStr),
    /// An option word with texts behind it.
    Block {
        name: &'static CStr,
        word: &'static CStr,
        texts: &'static [&'static CStr],
    },
    /// An option word with a number behind it.
    Option {
        name: &'static CStr,
        word: &'static CStr,
    },
    /// At most one of several option words.
    OneOf {
        name: &'static CStr,
        words: &'static [(&'static CStr, &'static CStr)],
    },
}
