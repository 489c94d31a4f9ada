//! ```text
//! RLOCK.INSPECT key [COUNT n]
//! ```
//! For people and their tools: the holders of a lock, and its waiters.

use super::arguments::{WRONG_ARITY, count_option};
use crate::server::waiting::{self, QueueView, WaiterView};
use crate::server::{
    Argument, Audience, Command, Context, ErrorLine, KeyUse, Reply, Spec, Str, Writer, fencing_token, latency, left_ms,
    take_snapshot,
};
use rlock_core::lock::{Holding, Side, Snapshot, UnixMs};
use std::ffi::CStr;

/// RLOCK.INSPECT
pub struct Inspect;

impl Command for Inspect {
    const SPEC: Spec = Spec {
        name: c"rlock.inspect",
        summary: c"Shows the holders of a lock, what is left of their leases, and its waiters.",
        complexity:
            c"O(N) with N the number of holders and waiters shown (COUNT of each: 1 to 10000, 100 by default) and of the read holds of those holders; looks at most at 10000 read holds",
        arity: -2,
        flags: c"readonly",
        audience: Audience::Onlookers,
        key: KeyUse::Reads,
        arguments: &[Argument::Key(c"key"), Argument::Option { name: c"count", word: c"COUNT" }],
    };

    fn run(context: &Context, arguments: &[Str<'_>]) -> Result<Reply, ErrorLine> {
        let Request { key, limit } = parse(arguments)?;
        let now = context.now();
        let snapshot = take_snapshot(context, key, limit)?;
        let left_ms = snapshot.as_ref().map_or_else(Vec::new, |snapshot| left_ms(context, key, snapshot, now));
        let token = fencing_token(context, key);
        let queue = waiting::queue(context, key, limit)?;
        let writer = Writer::new(context);
        write(writer, &View { now, snapshot, left_ms, token, queue });
        latency::since(context, c"rlock-inspect", now);
        Ok(Reply::Written)
    }
}

struct Request<A> {
    key: A,
    limit: usize,
}

fn parse<A: AsRef<[u8]> + Copy>(arguments: &[A]) -> Result<Request<A>, ErrorLine> {
    let [_, key, options @ ..] = arguments else { return Err(WRONG_ARITY) };
    Ok(Request { key: *key, limit: count_option(options, OPTION)? })
}

const OPTION: ErrorLine = ErrorLine(c"ERR option unknown: after key comes COUNT n");

/// All that is shown.
struct View {
    now: UnixMs,
    snapshot: Option<Snapshot>,
    /// The time left of each holding.
    left_ms: Vec<Option<i64>>,
    token: Option<i64>,
    queue: QueueView,
}

fn write(writer: Writer<'_>, view: &View) {
    let View { now, snapshot, left_ms, token, queue } = view;
    writer.map(7);
    writer.word(c"kind").word(match snapshot {
        None => c"none",
        Some(Snapshot { mode: None, .. }) => c"plain",
        Some(_) => c"read-write",
    });
    writer.word(c"ttl-ms").number(snapshot.as_ref().map_or(NO_KEY, |snapshot| snapshot.expiry.left_ms(*now)));
    writer.word(c"holder-count").count(snapshot.as_ref().map_or(0, |snapshot| snapshot.holder_count));
    writer.word(c"holders").array(left_ms.len());
    let holdings = snapshot.iter().flat_map(|snapshot| &snapshot.holdings);
    for (holding, left_ms) in holdings.zip(left_ms) {
        write_holding(writer, holding, *left_ms);
    }
    writer.word(c"fencing-token").number_or_nil(*token);
    writer.word(c"waiter-count").count(queue.length);
    writer.word(c"waiters").array(queue.waiters.len());
    for waiter in &queue.waiters {
        write_waiter(writer, waiter, *now);
    }
}

/// PTTL's answer for a key that is absent.
const NO_KEY: i64 = -2;

fn write_holding(writer: Writer<'_>, holding: &Holding, left_ms: Option<i64>) {
    writer.map(4);
    writer.word(c"holder").bytes(&holding.holder);
    writer.word(c"side").word(side(holding.side));
    writer.word(c"count").number(holding.count);
    writer.word(c"ttl-ms").number_or_nil(left_ms);
}

fn write_waiter(writer: Writer<'_>, waiter: &WaiterView, now: UnixMs) {
    writer.map(9);
    writer.word(c"holder").bytes(waiter.names.holder());
    writer.word(c"side").word(side(waiter.side));
    let client = waiter.client.map(|client| i64::try_from(client).unwrap_or(i64::MAX));
    writer.word(c"client-id").number_or_nil(client);
    writer.word(c"address").bytes_or_nil(waiter.address.as_deref());
    writer.word(c"session").bytes_or_nil(waiter.session.as_deref());
    writer.word(c"ticket").bytes_or_nil(waiter.session.as_ref().map(|_| waiter.names.ticket()));
    writer.word(c"attended").number(i64::from(waiter.is_attended));
    writer.word(c"waited-ms").number(now.saturating_sub(waiter.since).max(0));
    let left_ms = waiter.deadline.map(|deadline| deadline.saturating_sub(now).max(0));
    writer.word(c"deadline-in-ms").number_or_nil(left_ms);
}

fn side(kind: Side) -> &'static CStr {
    match kind {
        Side::Plain => c"exclusive",
        Side::Read => c"read",
        Side::Write => c"write",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::arguments::{COUNT, COUNT_TWICE};

    fn limit(options: &[&[u8]]) -> Result<usize, ErrorLine> {
        parse(&[&[&b"_"[..], b"k"], options].concat()).map(|request| request.limit)
    }

    #[test]
    fn a_key_and_perhaps_a_count() {
        assert_eq!(limit(&[]), Ok(100));
        assert_eq!(limit(&[b"count", b"1"]), Ok(1));
        assert_eq!(limit(&[b"COUNT", b"10000"]), Ok(10_000));
        assert_eq!(parse(&[&b"_"[..]]).map(|_| ()), Err(WRONG_ARITY));
        for count in [&b"0"[..], b"10001", b"-1", b"", b"many", b"9223372036854775808"] {
            assert_eq!(limit(&[b"COUNT", count]), Err(COUNT), "{count:?}");
        }
        assert_eq!(limit(&[b"COUNT"]), Err(COUNT));
        assert_eq!(limit(&[b"COUNT", b"1", b"Count", b"1"]), Err(COUNT_TWICE));
        assert_eq!(limit(&[b"5"]), Err(OPTION));
    }
}
