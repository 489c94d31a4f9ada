//! How a lock, or a permit, gets from one client to the next: three ways.

use super::{Record, blocked_clients, permits};
use crate::contenders::{LONG_LEASE, Module};
use crate::line::{Line, packed};
use redis::Script;
use rlock_testing::{Client, Reply, scripts};
use std::path::PathBuf;
use std::rc::Rc;

/// Where releases of the lock are published.
pub const CHANNEL: &str = "redisson_lock__channel:{lock}";

#[derive(Clone, Copy)]
pub enum Way {
    /// The server keeps who waits, and a release hands the lock over.
    Rlock,
    /// As Redisson does it between processes: a release is published, and everyone tries again. Each client stays
    /// subscribed, which spares it what Redisson does on each wait.
    PubSub,
    /// A token in a list: no lock at all, since it is gone if its holder dies. The floor.
    Token,
    /// The same three for permits.
    Permits,
    PermitsPubSub,
    PermitTokens,
}

impl Way {
    pub const ALL: [Self; 3] = [Self::Rlock, Self::PubSub, Self::Token];
    pub const OF_PERMITS: [Self; 3] = [Self::Permits, Self::PermitsPubSub, Self::PermitTokens];

    pub fn id(self) -> &'static str {
        match self {
            Self::Rlock | Self::Permits => "rlock",
            Self::PubSub | Self::PermitsPubSub => "pubsub",
            Self::Token | Self::PermitTokens => "token",
        }
    }

    pub fn module(self) -> Module {
        if matches!(self, Self::Rlock | Self::Permits) { Module::Rlock } else { Module::None }
    }

    /// Somebody has the lock before all others.
    pub fn begin(self, first: &mut Client) {
        match self {
            Self::Rlock => assert_eq!(first.say(&format!("RLOCK.ACQUIRE lock first {LONG_LEASE}")), Reply::Nil),
            Self::PubSub => {
                for script in [scripts::ACQUIRE, scripts::RELEASE] {
                    first.run(&["SCRIPT", "LOAD", script]);
                }
                assert_eq!(first.run(&acquire_script("first").as_words()), Reply::Nil);
            }
            Self::Permits => permits::take_all(first),
            Self::PermitsPubSub => permits::take_all_by_script(first),
            Self::Token | Self::PermitTokens => {}
        }
    }

    /// Gives it back.
    pub fn let_go(self, first: &mut Client) {
        match self {
            Self::Rlock => drop(first.say("RLOCK.RELEASE lock first")),
            Self::PubSub => drop(first.run(&release_script("first").as_words())),
            Self::Token => drop(first.say("LPUSH lock token")),
            Self::Permits => permits::give_all(first),
            Self::PermitsPubSub => permits::give_all_by_script(first),
            Self::PermitTokens => drop(first.say("LPUSH lock token token token token")),
        }
    }

    pub fn waiting(self, watch: &mut Client, record: &Record) -> usize {
        match self {
            Self::PubSub | Self::PermitsPubSub => record.refused.get(),
            _ => blocked_clients(watch),
        }
    }

    pub async fn client(self, socket: PathBuf, number: usize, record: Rc<Record>) {
        match self {
            Self::Rlock => {
                let holder = holder(number);
                let acquire = packed(&["RLOCK.ACQUIRE", "lock", &holder, LONG_LEASE, "WAIT", "0"]);
                by_queue(socket, number, record, [acquire, packed(&["RLOCK.RELEASE", "lock", &holder])]).await;
            }
            Self::Permits => by_queue(socket, number, record, permits::commands(&holder(number))).await,
            Self::PubSub => by_messages(socket, number, record).await,
            Self::PermitsPubSub => permits::by_messages(socket, number, record).await,
            Self::Token | Self::PermitTokens => by_token(socket, number, record).await,
        }
    }
}

fn holder(number: usize) -> String {
    format!("b983c153-7421-469a-addb-44fb92259a1b:{number}")
}

async fn by_queue(socket: PathBuf, number: usize, record: Rc<Record>, [acquire, release]: [Vec<u8>; 2]) {
    let mut line = Line::connect(&socket).await;
    loop {
        line.send(&acquire).await;
        line.skip(1).await;
        record.grants.give(number);
        line.send(&release).await;
        line.skip(1).await;
    }
}

async fn by_messages(socket: PathBuf, number: usize, record: Rc<Record>) {
    let holder = holder(number);
    let [acquire, release] = [acquire_script(&holder), release_script(&holder)].map(|words| packed(&words.as_words()));
    let (mut line, mut messages) = (Line::connect(&socket).await, Line::subscribed(&socket, CHANNEL).await);
    loop {
        line.send(&acquire).await;
        if line.next().await.starts_with('$') {
            record.grants.give(number);
            line.send(&release).await;
            line.skip(1).await;
        } else {
            record.refused.set(record.refused.get() + 1);
            messages.anything().await;
        }
    }
}

async fn by_token(socket: PathBuf, number: usize, record: Rc<Record>) {
    let (take, give) = (packed(&["BLPOP", "lock", "0"]), packed(&["LPUSH", "lock", "token"]));
    let mut line = Line::connect(&socket).await;
    loop {
        line.send(&take).await;
        line.skip(TAKEN).await;
        record.grants.give(number);
        line.send(&give).await;
        line.skip(1).await;
    }
}

/// Lines of the answer to BLPOP.
pub const TAKEN: usize = 5;

/// A command whose words are made as it is.
pub struct Words(Vec<String>);

impl Words {
    pub fn as_words(&self) -> Vec<&str> {
        self.0.iter().map(String::as_str).collect()
    }
}

pub fn acquire_script(holder: &str) -> Words {
    words(&["EVALSHA", Script::new(scripts::ACQUIRE).get_hash(), "1", "lock", LONG_LEASE, holder])
}

pub fn release_script(holder: &str) -> Words {
    words(&["EVALSHA", Script::new(scripts::RELEASE).get_hash(), "2", "lock", CHANNEL, "0", LONG_LEASE, holder])
}

fn words(words: &[&str]) -> Words {
    Words(words.iter().map(|&word| word.to_owned()).collect())
}
