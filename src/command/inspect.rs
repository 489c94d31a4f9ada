//! INSPECT, for people and their tools: the holders of a lock, and its waiters.

use crate::server::waiting::{self, WaiterView};
use crate::server::{Command, Context, Reply, Str, Writer, answer, fencing_token, latency, left_ms, take_snapshot};
use rlock_core::lock::{Holding, Kind, Part, Side, Snapshot, UnixMs};
use rlock_core::words::{self, Error, read};
use std::ffi::CStr;

/// RLOCK.INSPECT
pub struct Inspect;

impl Command for Inspect {
    const WORDS: &'static words::Command = &words::INSPECT;

    fn run(context: &Context, arguments: &[Str<'_>]) -> Result<Reply, Error> {
        let request = read(Self::WORDS, arguments)?;
        let (key, limit) = (request.key()?, request.count());
        let now = context.now();
        let snapshot = take_snapshot(context, key, limit)?;
        let left_ms = snapshot.as_ref().map_or_else(Vec::new, |snapshot| left_ms(context, key, snapshot, now));
        let (token, answer) = (fencing_token(context, key), answer(context, key, now));
        let queue = waiting::queue(context, key, limit)?;
        let holdings = snapshot.iter().flat_map(|snapshot| &snapshot.holdings).zip(&left_ms);
        let writer = Writer::new(context).map(10);
        writer.word(c"kind").word(match &snapshot {
            None => c"none",
            Some(Snapshot { kind: Kind::Plain, .. }) => c"plain",
            Some(Snapshot { kind: Kind::ReadWrite, .. }) => c"read-write",
            Some(Snapshot { kind: Kind::Permits, .. }) => c"permits",
        });
        writer.word(c"ttl-ms").number(snapshot.as_ref().map_or(NO_KEY, |snapshot| snapshot.expiry.left_ms(now)));
        writer.word(c"holder-count").number(snapshot.as_ref().map_or(0, |snapshot| snapshot.holder_count));
        writer.word(c"holders").array(left_ms.len());
        holdings.for_each(|(holding, left_ms)| write_holding(writer, holding, *left_ms));
        writer.word(c"fencing-token").or_nil(token, Writer::number);
        writer.word(c"answer-bytes").or_nil(answer.map(|(bytes, _)| bytes), Writer::number);
        writer.word(c"answer-ttl-ms").or_nil(answer.map(|(_, left_ms)| left_ms), Writer::number);
        writer.word(c"waiter-count").number(queue.length);
        writer.word(c"waiters").array(queue.waiters.len());
        queue.waiters.iter().for_each(|waiter| write_waiter(writer, waiter, now));
        writer.word(c"grace-left-ms").number(queue.grace_left_ms);
        latency::since(context, c"rlock-inspect", now);
        Ok(Reply::Written)
    }
}

/// PTTL's answer for a key that is absent.
const NO_KEY: i64 = -2;

fn write_holding(writer: Writer<'_>, holding: &Holding, left_ms: Option<i64>) {
    writer.map(4);
    writer.word(c"holder").bytes(&holding.holder);
    writer.word(c"side").word(part(holding.part));
    writer.word(c"count").number(holding.count);
    writer.word(c"ttl-ms").or_nil(left_ms, Writer::number);
}

fn write_waiter(writer: Writer<'_>, waiter: &WaiterView, now: UnixMs) {
    writer.map(11);
    writer.word(c"holder").bytes(waiter.names.holder());
    writer.word(c"side").word(side(waiter.side));
    writer.word(c"limit").or_nil(waiter.side.limit(), |writer, limit| writer.number(limit.get()));
    writer.word(c"client-id").or_nil(waiter.client, Writer::number);
    writer.word(c"address").or_nil(waiter.address.as_deref(), Writer::bytes);
    writer.word(c"session").or_nil(waiter.session.as_deref(), Writer::bytes);
    writer.word(c"ticket").or_nil(waiter.session.as_ref().map(|_| waiter.names.ticket()), Writer::bytes);
    writer.word(c"attended").number(waiter.is_attended);
    writer.word(c"waited-ms").number(now.saturating_sub(waiter.since).max(0));
    let left_ms = waiter.deadline.map(|deadline| deadline.saturating_sub(now).max(0));
    writer.word(c"deadline-in-ms").or_nil(left_ms, Writer::number);
    writer.word(c"keys").number(waiter.locks);
}

fn side(kind: Side) -> &'static CStr {
    match kind {
        Side::Plain => c"exclusive",
        Side::Read => c"read",
        Side::Write => c"write",
        Side::Permit(_) => PERMIT,
    }
}

const PERMIT: &CStr = c"permit";

fn part(part: Part) -> &'static CStr {
    match part {
        Part::Plain => side(Side::Plain),
        Part::Read => side(Side::Read),
        Part::Write => side(Side::Write),
        Part::Permit(_) => PERMIT,
    }
}
