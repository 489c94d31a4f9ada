//! QUEUES, for people and their tools: the locks that clients wait for, the longest queue first.

use crate::server::waiting;
use crate::server::{Command, Context, Reply, Str, Writer, latency};
use rlock_core::lock::UnixMs;
use rlock_core::waiting::QueueSummary;
use rlock_core::words::{self, Error, read};

/// RLOCK.QUEUES
pub struct Queues;

impl Command for Queues {
    const WORDS: &'static words::Command = &words::QUEUES;

    fn run(context: &Context, arguments: &[Str<'_>]) -> Result<Reply, Error> {
        let limit = read(Self::WORDS, arguments)?.count();
        let now = context.now();
        let queues = waiting::queues(context, limit)?;
        let writer = Writer::new(context).array(queues.len());
        for queue in &queues {
            write(writer, queue, now);
        }
        latency::since(context, c"rlock-queues", now);
        Ok(Reply::Written)
    }
}

fn write(writer: Writer<'_>, queue: &QueueSummary, now: UnixMs) {
    writer.map(4);
    writer.word(c"key").bytes(&queue.key);
    writer.word(c"waiters").number(queue.waiters);
    writer.word(c"oldest-wait-ms").number(now.saturating_sub(queue.since).max(0));
    writer.word(c"served").number(queue.served);
}
