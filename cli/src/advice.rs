//! What the command line adds to a server's error: the exit code, and the options that it is about. The client's own
//! line has the cause and the remedy.

use crate::address::{Address, Way};
use crate::exit;
use crate::failure::Failure;
use crate::operators::Unanswered;
use rlock_client::{Error, ErrorKind, Kind};

impl Failure {
    /// A question that has no answer.
    pub fn unanswered(at: &Address, why: &Unanswered) -> Self {
        match why {
            Unanswered::Error(error) => Self::of_the_server(at, error),
            Unanswered::OfAReplica => Self::new(exit::UNAVAILABLE, format!("{at}: {}", why.reason())),
            Unanswered::Nonsense => Self::new(exit::REFUSED, format!("{at}: {}", why.reason())),
        }
    }

    /// A request that failed at the server of that address.
    pub fn of_the_server(at: &Address, error: &Error) -> Self {
        let code = match error.kind() {
            // `Lost` means: lost before anything was run.
            ErrorKind::Unavailable
            | ErrorKind::QueueFull
            | ErrorKind::TooFewReplicas { .. }
            | ErrorKind::Lost
            | ErrorKind::Timeout => exit::UNAVAILABLE,
            ErrorKind::Configuration => exit::USAGE,
            _ if is_forbidden(error) => exit::FORBIDDEN,
            _ => exit::REFUSED,
        };
        if let Some(words) = error.kind_of_lock().and_then(of_another_kind) {
            return Self::new(code, format!("{}: {words}", error.about()));
        }
        let options = options(at, error).map(|options| format!(" ({options})")).unwrap_or_default();
        Self::new(code, format!("{error}{options}"))
    }
}

/// The remedy for the command line. The server and the client name the one for programs.
fn of_another_kind(kind: Kind) -> Option<&'static str> {
    Some(match kind {
        Kind::Plain => "it is held as a plain lock: leave out --read, --write and --slots",
        Kind::ReadWrite => "it is held as a read-write lock: use --read or --write",
        Kind::Permits => "it is held as slots: use --slots",
        _ => return None,
    })
}

fn is_forbidden(error: &Error) -> bool {
    error.is_about_a_password() || error.code() == Some("NOPERM")
}

/// What a user of the command line has to set to follow the remedy.
fn options(at: &Address, error: &Error) -> Option<String> {
    let words = error.reason();
    let options = match error.kind() {
        _ if error.is_about_a_password() && is_of_a_sentinel(at, error) => {
            "sentinels are asked without one: the address and RLOCK_PASSWORD are the master's"
        }
        _ if error.is_about_a_password() => "RLOCK_PASSWORD, --password-file",
        ErrorKind::Lost => "a longer --lease?",
        ErrorKind::Configuration => "see rlock --help",
        _ if error.code() == Some("MOVED") => return Some(at.as_cluster()),
        _ if words.contains("is not trusted") => "--cacert, SSL_CERT_FILE",
        _ if words.contains("client certificate") => "--cert and --key",
        ErrorKind::Unavailable if error.code().is_none() => match at.way() {
            Way::One => "--url, RLOCK_URL",
            Way::Cluster => "redis-cli CLUSTER NODES tells more",
            Way::Sentinels => return None,
        },
        _ => return None,
    };
    Some(options.to_owned())
}

fn is_of_a_sentinel(at: &Address, error: &Error) -> bool {
    let words = error.to_string();
    let is_named = |sentinel: &Address| words.contains(&format!("the server at {sentinel} "));
    at.sentinels().is_some_and(|(_, sentinels)| sentinels.iter().any(is_named))
}
