//! Error messages: in one line, the cause and what to do. The reader does not know the commands of the protocol. A
//! server that replied is never called silent. The server's own words stay, because readers search for them in its log
//! and its manual.

use crate::error::{Cause, Error, ErrorKind, refuses_a_password};
use crate::kind::Kind;
use std::{fmt, io};

/// One line: the subject, the cause, and what to do.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = in_words(self);
        // If the error is about a server, the words name it.
        if self.about().is_empty() || self.is_about_its_server() {
            return f.write_str(&words);
        }
        write!(f, "{}: {words}", self.about())
    }
}

/// Without the subject.
pub fn in_words(error: &Error) -> String {
    let server = error.server();
    match (error.kind(), error.source_of_it()) {
        (ErrorKind::Timeout, _) => "not free in time".to_owned(),
        (ErrorKind::Lost, cause) => lost(error, cause),
        (ErrorKind::TooFewReplicas { wanted, confirmed }, _) => {
            format!("{confirmed} of {wanted} replicas have confirmed the lock in time: try later, or ask for fewer")
        }
        (ErrorKind::ModuleMissing, _) => format!(
            "{server} has no rlock module, or one without this command: add `loadmodule /path/to/librlock.so` to its \
             configuration"
        ),
        (ErrorKind::ModuleTooOld, _) => {
            format!("the rlock module of {server} is too old for this: install 0.1.0 or newer")
        }
        (ErrorKind::Unavailable, Some(Cause::Server(line))) => {
            format!("{server} cannot do it now ({line}): {}", not_now(line))
        }
        (ErrorKind::Unavailable, Some(Cause::System(why))) => silent(error, why),
        (ErrorKind::Configuration, Some(cause)) => format!("cannot be used: {cause}"),
        (ErrorKind::QueueFull, Some(cause)) => format!("refused: {cause}: try later"),
        (ErrorKind::WrongKind, Some(cause)) => format!("refused: {cause}{}", of_kind(error.kind_of_lock())),
        (_, Some(Cause::Server(line))) => refused(&server, line),
        // A whole sentence, or words that follow the server's name.
        (_, Some(Cause::Client(_))) => error.reason(),
        (_, Some(Cause::System(why))) => format!("refused: {why}"),
        (ErrorKind::Unavailable, None) => format!("{server} does not answer: try later"),
        (_, None) => "refused".to_owned(),
    }
}

const IN_DOUBT: &str = "unknown whether the lock was held until its release, no reply came";

fn lost(error: &Error, cause: Option<&Cause>) -> String {
    match (error.loss(), cause) {
        (Some(loss), _) => format!("lost: {loss}"),
        (None, Some(cause)) => format!("{IN_DOUBT}: {cause}"),
        (None, None) => IN_DOUBT.to_owned(),
    }
}

/// No valid reply came.
fn silent(error: &Error, why: &io::Error) -> String {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, UnexpectedEof};
    let at = error.server();
    let at = at.strip_prefix("the server").unwrap_or_default();
    match why.kind() {
        BrokenPipe | ConnectionAborted | ConnectionReset | NotConnected | UnexpectedEof => {
            format!("the server{at} closes the connection ({why}): is all of its maxclients taken, or is it restarted?")
        }
        _ => format!("no server answers{at} ({why}): is it up, and the address right?"),
    }
}

/// What to do if the server replies that it cannot serve the request now.
fn not_now(line: &str) -> &'static str {
    match line.split(' ').next().unwrap_or_default() {
        "READONLY" => "it is a replica; give the master's address, or that of the sentinels",
        "NOREPLICAS" => "fewer replicas follow it than its min-replicas-to-write; try later",
        "BUSY" => "a script keeps it busy; try later, or end the script with redis-cli SCRIPT KILL",
        "OOM" => "give it more maxmemory, or find what fills it",
        "LOADING" => "it has been started just now and loads its data; try later",
        "MASTERDOWN" => "it is a replica that has lost its master; give the master's address",
        "CLUSTERDOWN" => "a part of its cluster is down; redis-cli CLUSTER INFO and CLUSTER NODES tell more",
        "ERR" if line.contains("max number of clients") => "all of its maxclients are taken; try later",
        _ => "try later",
    }
}

/// How to acquire a lock of this kind. It names no commands: users of a client do not know them.
fn of_kind(kind: Option<Kind>) -> &'static str {
    match kind {
        Some(Kind::Plain) => ": it is held as a plain lock, and has to be taken as one",
        Some(Kind::ReadWrite) => ": it is held as a read-write lock; take one of its sides",
        Some(Kind::Permits) => ": its permits are taken one by one; take one of them",
        None => "",
    }
}

fn refused(server: &str, line: &str) -> String {
    let says = |part: &str| line.contains(part);
    let code = line.split(' ').next().unwrap_or_default();
    let advice = match code {
        "NOAUTH" => return format!("{server} wants a password ({line}): give it one"),
        _ if refuses_a_password(line) => {
            return format!("{server} refuses the password, or has none ({line}): check the password and the user");
        }
        "MOVED" => {
            return format!(
                "{server} is one node of a cluster, and another node has this lock ({line}): give the cluster's address"
            );
        }
        "NOPERM" => "ask the administrator of the server's ACL",
        "WRONGTYPE" => "what is there is data, and a lock needs a name of its own, as name:lock",
        // A node of Valkey 9 says the same, since its cluster may have several databases.
        _ if says("DB index") => {
            "the server has no database of this number; a cluster has 0 alone, unless its cluster-databases says more"
        }
        "CROSSSLOT" => {
            "in a cluster, locks that are taken together need one tag in their names, as {orders}:1 and {orders}:2"
        }
        _ if says("SELECT is not allowed") => "in a cluster there is no number at the end of the address",
        _ if says("cluster support disabled") => "the server is in no cluster; give its own address",
        _ if says("fencing counter") => {
            "another program has written to it; DEL redisson_lock_token:{the name}, and tokens start at 1 again"
        }
        _ if says("protected mode") => "it wants a password before others may connect (requirepass, protected-mode)",
        _ => return format!("refused: {line}"),
    };
    format!("refused: {line}: {advice}")
}
