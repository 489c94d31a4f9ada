//! Options of `flock` and `redis-cli` that users type from habit. Options with the same meaning are aliases; for the
//! others, this says what to type instead.

/// The advice for an unknown option, if there is any.
pub fn advice(option: &str) -> Option<&'static str> {
    Some(match option {
        "-x" | "-e" | "--exclusive" => {
            "leave it out: the lock is exclusive without it; next to readers (--read) it is --write"
        }
        "-s" | "--shared" => "use --read; the others must take --read or --write, too",
        "--unlock" => "use rlock unlock, for what rlock lock has taken",
        "-o" | "--close" => "leave it out: CMD inherits nothing that would keep the lock",
        "-F" | "--no-fork" => "leave it out: rlock stays, as the lease has to be renewed while CMD runs",
        "-p" => "use -u host:port",
        _ => return None,
    })
}
