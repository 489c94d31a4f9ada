//! Why the lock was lost, for the reader of a mail from cron: the client's words, and what they mean here.

use rlock_client::Loss;

pub fn of(loss: &Loss) -> String {
    match loss {
        Loss::Ended => format!("{loss}, as rlock or this machine stalled: use a longer --lease"),
        _ => loss.to_string(),
    }
}
