//! Why the lock was lost, in words for the reader of a mail from cron, and what to do where something can be done.

use crate::advice::is_about_a_password;
use rlock_client::{Error, ErrorKind, Loss};

pub fn of(loss: &Loss) -> String {
    match loss {
        Loss::NotHeld => {
            "the server says that it is not held: somebody broke or deleted it, or a failover or a restart forgot it"
                .to_owned()
        }
        Loss::Overwritten(error) => {
            format!("something else is under its key ({}); keep data under other keys", error.reason())
        }
        Loss::NotRenewed(error) => of_a_renewal(error),
        _ => "it was not renewed in time, as rlock or this machine stood still; a longer --lease?".to_owned(),
    }
}

fn of_a_renewal(error: &Error) -> String {
    let cause = error.reason();
    match (error.kind(), error.code()) {
        (ErrorKind::ModuleMissing, _) => "the server has no rlock module any more; load it again".to_owned(),
        (_, Some("NOPERM")) => format!("it may not be renewed ({cause}); the user needs +rlock.renew"),
        (_, Some("NOAUTH")) => new_password(),
        (_, code) if is_about_a_password(code, &cause) => new_password(),
        (ErrorKind::Unavailable, None) => {
            format!("no server answered when it was to be renewed ({cause}); look after the server and the network")
        }
        _ => format!("the server did not renew it ({cause})"),
    }
}

fn new_password() -> String {
    "the server refuses the password by now; set RLOCK_PASSWORD or --password-file".to_owned()
}
