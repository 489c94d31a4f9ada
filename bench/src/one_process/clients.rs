//! A connection for each wait.

use super::{Process, key};
use crate::contenders::LONG_LEASE;
use crate::hand_offs::TAKEN;
use crate::line::{Line, packed};
use crate::session;
use std::rc::Rc;
use std::time::Instant;

/// One that the server keeps until it has the lock.
pub async fn by_queue(process: Rc<Process>, wait: usize, again: Again) {
    let (key, holder) = (key(process.scene.lock_of(wait)), session::holder(wait));
    let ask = packed(&["RLOCK.ACQUIRE", &key, &holder, LONG_LEASE, "WAIT", "0"]);
    let give_back = packed(&["RLOCK.RELEASE", &key, &holder]);
    take_turns(&process, wait, [&give_back, &ask], GRANTED, again).await;
}

/// Lines of the answer to who has the lock now.
const GRANTED: usize = 1;

/// One that waits for a token.
pub async fn by_token(process: Rc<Process>, wait: usize) {
    let key = key(process.scene.lock_of(wait));
    let (ask, give_back) = (packed(&["BLPOP", &key, "0"]), packed(&["LPUSH", &key, "token"]));
    take_turns(&process, wait, [&give_back, &ask], TAKEN, Again::WhenToldSo).await;
}

/// When one who gives back asks again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// Once it is told that it has given back, as those do who work in between.
    WhenToldSo,
    /// In the same write.
    AtOnce,
}

/// Asks; and when it is answered, in so many lines, gives back and asks again, for ever.
async fn take_turns(process: &Process, wait: usize, [give_back, ask]: [&[u8]; 2], lines: usize, again: Again) {
    let (lock, both) = (process.scene.lock_of(wait), [give_back, ask].concat());
    let mut line = Line::connect(&process.socket).await;
    line.send(ask).await;
    loop {
        line.skip(lines).await;
        let now = Instant::now();
        process.record.grant(lock, now);
        process.record.release(lock, now);
        match again {
            Again::AtOnce => {
                line.send(&both).await;
                line.skip(1).await;
            }
            Again::WhenToldSo => {
                line.send(give_back).await;
                line.skip(1).await;
                line.send(ask).await;
            }
        }
    }
}
