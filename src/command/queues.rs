//! ```text
//! RLOCK.QUEUES [COUNT n]
//! ```
//! For people and their tools: the locks that clients wait for, the longest queue first.

use super::arguments::count_option;
use crate::server::waiting;
use crate::server::{Audience, Command, Context, ErrorLine, KeyUse, Reply, Spec, Str, Writer, latency};
use rlock_core::lock::UnixMs;
use rlock_core::waiting::QueueSummary;

/// RLOCK.QUEUES
pub struct Queues;

impl Command for Queues {
    const SPEC: Spec = Spec {
        name: c"rlock.queues",
        summary: c"Lists the locks that have waiters, the longest queue first.",
        complexity: c"O(N) with N the number of locks shown (COUNT: 1 to 10000, 100 by default) and of locks that the user may not read; looks at most at 2000 of these",
        // Not in scripts, where nobody can know whose rights count.
        flags: c"readonly deny-script",
        audience: Audience::Onlookers,
        key: KeyUse::NoKey,
        arguments: &["[COUNT count]"],
    };

    fn run(context: &Context, arguments: &[Str<'_>]) -> Result<Reply, ErrorLine> {
        let limit = count_option(arguments.get(1..).unwrap_or_default(), OPTION)?;
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

const OPTION: ErrorLine = ErrorLine(c"ERR option unknown: the only option is COUNT n");

fn write(writer: Writer<'_>, queue: &QueueSummary, now: UnixMs) {
    writer.map(4);
    writer.word(c"key").bytes(&queue.key);
    writer.word(c"waiters").number(queue.waiters);
    writer.word(c"oldest-wait-ms").number(now.saturating_sub(queue.since).max(0));
    writer.word(c"served").number(queue.served);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::arguments::{COUNT, COUNT_TWICE};

    #[test]
    fn a_count_and_nothing_else() {
        let limit = |options: &[&[u8]]| count_option(options, OPTION);
        assert_eq!(limit(&[]), Ok(100));
        assert_eq!(limit(&[b"Count", b"3"]), Ok(3));
        assert_eq!(limit(&[b"COUNT", b"0"]), Err(COUNT));
        assert_eq!(limit(&[b"COUNT", b"3", b"COUNT", b"3"]), Err(COUNT_TWICE));
        assert_eq!(limit(&[b"k"]), Err(OPTION));
    }
}
