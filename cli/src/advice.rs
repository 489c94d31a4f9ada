//! What to do about what a server says, or about its silence.
//!
//! The reader does not know the library's kinds of errors, nor the commands that are sent: a server that has answered
//! is not said to be silent, and the advice is something that can be typed. The server's own words stay, since they are
//! what one looks for in its log and its manual.

use crate::address::{Address, Way};
use crate::exit;
use crate::failure::Failure;
use crate::operators::Unanswered;
use rlock_client::{Error, ErrorKind, Kind};
use std::error::Error as _;
use std::io;

impl Failure {
    /// A question that has no answer.
    pub fn unanswered(at: &Address, why: &Unanswered) -> Self {
        match why {
            Unanswered::Error(error) => Self::of_the_server(at, error),
            Unanswered::Nonsense => Self::new(exit::REFUSED, format!("{at}: {}", why.reason())),
        }
    }

    /// Something that the server at that address did not do.
    pub fn of_the_server(at: &Address, error: &Error) -> Self {
        match error.kind() {
            ErrorKind::Unavailable => Self::new(exit::UNAVAILABLE, unavailable(at, error)),
            ErrorKind::ModuleMissing => {
                let what = format!("the server at {at} has no rlock module, or one without this command");
                let advice = "add `loadmodule /path/to/librlock.so` to its configuration";
                Self::new(exit::REFUSED, format!("{what}: {advice}"))
            }
            ErrorKind::ModuleTooOld => {
                let advice = "put a newer librlock.so in its place; --no-wait works with this one too";
                Self::new(exit::REFUSED, format!("{error}; {advice}"))
            }
            ErrorKind::QueueFull | ErrorKind::TooFewReplicas { .. } => {
                Self::new(exit::UNAVAILABLE, format!("{error}; try later"))
            }
            // Before anything was run.
            ErrorKind::Lost => {
                Self::new(exit::UNAVAILABLE, format!("{error} while it was asked for; a longer --lease?"))
            }
            ErrorKind::Configuration => Self::usage(format!("{error}; see rlock --help")),
            ErrorKind::WrongKind => Self::new(exit::REFUSED, other_kind(error)),
            _ => refused(at, error),
        }
    }
}

fn unavailable(at: &Address, error: &Error) -> String {
    let words = error.reason();
    let cause = error.source().and_then(|cause| cause.downcast_ref());
    match (error.code(), cause, at.way()) {
        (Some("MOVED") | None, None, Way::Cluster) => {
            format!("no node of the cluster at {at} has this lock now: try later; redis-cli CLUSTER INFO tells more")
        }
        (Some("MOVED"), ..) => {
            format!(
                "{at} is one node of a cluster, and another node of the cluster has this lock: use {}",
                at.as_cluster()
            )
        }
        (Some(code), ..) => format!("the server at {at} cannot do it now ({words}): {}", not_now(code, &words)),
        (None, None, Way::Sentinels) => {
            format!("they know no master of this name: {at}; redis-cli SENTINEL MASTERS lists those that they know")
        }
        (None, cause, _) => silent(at, cause, &words),
    }
}

/// What a server means that answers and does nothing.
fn not_now(code: &str, words: &str) -> &'static str {
    match code {
        "READONLY" => "it is a replica; give the master's address, or that of the sentinels",
        "NOREPLICAS" => "fewer replicas follow it than its min-replicas-to-write; try later",
        "BUSY" => "a script keeps it busy; try later, or end the script with redis-cli SCRIPT KILL",
        "OOM" => "give it more maxmemory, or find what fills it (docs/operations.md)",
        "LOADING" => "it has been started just now and loads its data; try later",
        "MASTERDOWN" => "it is a replica that has lost its master; give the master's address",
        "CLUSTERDOWN" => "a part of its cluster is down; redis-cli CLUSTER INFO and CLUSTER NODES tell more",
        "ERR" if words.contains("max number of clients") => "all of its maxclients are taken; try later",
        "ERR" if words.contains("SENTINEL") => "it is no sentinel; a server's own address is redis://host:port",
        _ => "try later",
    }
}

/// Nothing has come that makes sense.
fn silent(at: &Address, cause: Option<&io::Error>, words: &str) -> String {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, UnexpectedEof};
    let dropped = [BrokenPipe, ConnectionAborted, ConnectionReset, NotConnected, UnexpectedEof];
    let is_dropped = cause.is_some_and(|cause| dropped.contains(&cause.kind()));
    if words.contains("certificate") {
        let trust = "--cacert, or SSL_CERT_FILE, names the file of an authority to trust";
        return format!("{at} is not trusted: {words}; {trust}, and the name in the address must be the certificate's");
    }
    if let Some(alert) = words.split_once("fatal alert: ").map(|(_, alert)| alert) {
        return at_the_handshake(at, alert);
    }
    let advice = match (at.has_tls(), is_dropped) {
        (true, _) if words.contains("PEM") => "look at SSL_CERT_FILE and SSL_CERT_DIR",
        (true, _) => "is the server up, and does this port speak TLS? If it does not, it is redis://, not rediss://",
        (false, true) => {
            "it closes the connection: all of its maxclients may be taken, or it wants TLS, which is rediss://"
        }
        (false, false) => "is --url or RLOCK_URL right, and the server up?",
    };
    if at.way() == Way::Cluster {
        let who = format!("of the cluster at {at} the node that has this lock does not answer, or no node at all");
        return format!("{who}: {words}; {advice} redis-cli CLUSTER NODES tells more");
    }
    match is_dropped {
        true => format!("the server at {at} does not serve us: {words}; {advice}"),
        false => format!("no server answers at {at}: {words}; {advice}"),
    }
}

/// The server speaks TLS, and breaks it off with this word.
fn at_the_handshake(at: &Address, alert: &str) -> String {
    let (what, advice) = match alert {
        "CertificateRequired" => ("asks for a client certificate", "give --cert and --key"),
        "UnknownCA" | "DecryptError" | "BadCertificate" | "CertificateExpired" | "CertificateUnknown" => {
            ("refuses the client certificate", "look at --cert, and at its tls-ca-cert-file")
        }
        "ProtocolVersion" => ("has no TLS 1.3, which rlock speaks", "look at its tls-protocols"),
        _ => ("breaks off", "its log may say why"),
    };
    format!("the server at {at} {what} (TLS alert {alert}): {advice}")
}

/// The kinds have commands of their own, of which the user of `rlock run` knows nothing.
fn other_kind(error: &Error) -> String {
    let key = error.about();
    match error.kind_of_lock() {
        Some(Kind::Plain) => {
            format!("{key}: is held as a plain lock (WRONGKIND): leave out --read, --write and --slots")
        }
        Some(Kind::ReadWrite) => format!("{key}: is held as a read-write lock (WRONGKIND): give --read or --write"),
        Some(Kind::Permits) => format!("{key}: its slots are taken one by one (WRONGKIND): give --slots"),
        _ => error.to_string(),
    }
}

fn refused(at: &Address, error: &Error) -> Failure {
    let words = error.reason();
    match error.code() {
        Some("NOPERM") => Failure::new(exit::FORBIDDEN, format!("{error}; ask who keeps the server's ACL")),
        Some("NOAUTH") => {
            let advice = "set RLOCK_PASSWORD or --password-file";
            Failure::new(exit::FORBIDDEN, format!("the server at {at} wants a password: {advice}"))
        }
        code if is_about_a_password(code, &words) => password(at),
        code => match mend(code, &words) {
            Some(advice) => Failure::new(exit::REFUSED, format!("{error}; {advice}")),
            None => Failure::new(exit::REFUSED, error.to_string()),
        },
    }
}

/// A wrong one, of a user that may not be known; or a server that has no password at all, which has no code for that.
pub fn is_about_a_password(code: Option<&str>, words: &str) -> bool {
    code == Some("WRONGPASS") || words.starts_with("ERR AUTH ")
}

fn password(at: &Address) -> Failure {
    let advice = "look at RLOCK_PASSWORD, --password-file and the user in the address";
    Failure::new(exit::FORBIDDEN, format!("the server at {at} refuses the password, or has none: {advice}"))
}

/// What must be changed before it can be done.
fn mend(code: Option<&str>, words: &str) -> Option<&'static str> {
    let says = |part: &str| words.contains(part);
    Some(match code {
        Some("WRONGTYPE") => "what is there is data, and a lock needs a name of its own, as name:lock",
        // A node of a Valkey 9 says the same, since its cluster may have several.
        _ if says("DB index") => {
            "the server has no database of this number at the end of the address; a cluster has 0 alone, unless its \
             cluster-databases says more"
        }
        Some("CROSSSLOT") => {
            "in a cluster the locks of --all need one tag in their names, as {orders}:1 and {orders}:2"
        }
        _ if says("SELECT is not allowed") => "in a cluster there is no number at the end of the address",
        _ if says("cluster support disabled") => "the server is in no cluster: use redis://, not redis+cluster://",
        _ if says("fencing counter") => {
            "somebody else has written to it: DEL redisson_lock_token:{the name}, and tokens start at 1 again"
        }
        _ => return None,
    })
}
