//! The commands of rlock, as the module has them: their words go to the engine, and what it answers becomes a reply.

use super::{Done, Node};
use crate::host::Client;
use crate::resp::Replies;
use rlock_core::lock::{Holding, Kind, Outcome, Part, Released, Renewed, Side, Snapshot, longer_left};
use rlock_core::waiting::commands::{Acquiring, Polled, Waiting};
use rlock_core::waiting::{
    Answer, Call, Cancelled, Host, LockName, Queued, SeenRecipient, SessionId, TicketNames, WaitsFor,
};
use rlock_core::words::{Command, Error, Request, read};

/// How many bytes of events the module puts in one reply.
const EVENTS_BYTES_MAX: usize = 128 * 1_024;

/// How many sessions the module lists.
const LISTED_MAX: usize = 1_000;

/// How many bytes of a session's name are shown.
const SESSION_SHOWN: usize = 8;

/// Runs the command if it is one of these.
pub fn run(node: &mut Node, id: u64, words: &[Vec<u8>], replies: &mut Replies) -> Option<Done> {
    let command = Command::named(words.first()?)?;
    let (least, may_have_more) = command.arity();
    if words.len() < least || words.len() > least && !may_have_more {
        // The server's own error: it counts the arguments before the command sees any.
        let name = command.name.to_lowercase();
        replies.error(format!("ERR wrong number of arguments for '{name}' command").as_bytes());
        return Some(Done::Replied);
    }
    let words: Vec<_> = words.iter().map(Vec::as_slice).collect();
    let done = read(command, &words).and_then(|request| carry_out(node, id, command, &request, replies));
    Some(done.unwrap_or_else(|error| {
        replies.error(error.line().to_bytes());
        Done::Replied
    }))
}

fn carry_out(
    node: &mut Node,
    id: u64,
    command: &Command,
    request: &Request<'_, &[u8]>,
    replies: &mut Replies,
) -> Result<Done, Error> {
    match command.name.trim_start_matches("RLOCK.") {
        "ACQUIRE" => return acquire(node, id, request, Side::Plain, replies),
        "RACQUIRE" => return acquire(node, id, request, Side::Read, replies),
        "WACQUIRE" => return acquire(node, id, request, Side::Write, replies),
        "PACQUIRE" => {
            let limit = request.limit.ok_or(Error::Limit)?;
            return acquire(node, id, request, Side::Permit(limit), replies);
        }
        "MACQUIRE" => {
            let waiting = begin(node, id, request)?;
            let wish = request.wish(Side::Plain)?;
            let acquiring = node.engine.acquire_all(&node.host, request.keys, &wish, waiting)?;
            return Ok(acquired(acquiring, request.fenced, replies));
        }
        "ONCE" => {
            let waiting = begin(node, id, request)?;
            let acquiring = node.engine.once(&node.host, request.key()?, &request.wish(Side::Plain)?, waiting)?;
            return Ok(acquired(acquiring, false, replies));
        }
        "ANSWER" => match node.engine.answer(&node.host, request.key()?, request.holder()?, request.answer()?)? {
            true => _ = replies.number(1),
            false => _ = replies.nil(),
        },
        "RELEASE" => {
            match node.engine.release(&node.host, request.key()?, request.holder()?, request.release())? {
                Released::NotHeld => replies.nil(),
                Released::StillHeld => replies.number(0),
                Released::Free => replies.number(1),
            };
        }
        "RENEW" => {
            let renewed = node.engine.renew(&node.host, request.key()?, request.holder()?, request.lease()?)?;
            replies.number(u8::from(renewed == Renewed::Restarted));
        }
        "BREAK" => {
            let broken = node.engine.break_lock(&node.host, request.key()?)?;
            replies.number(u8::from(broken));
        }
        "INSPECT" => inspect(node, request.key()?, request.count(), replies)?,
        "QUEUES" => queues(node, request.count(), replies),
        "SESSIONS" => match request.id {
            Some(number) => {
                let session = node.engine.session_numbered(number);
                session.into_iter().for_each(|session| node.engine.end_session(&node.host, session));
                replies.number(u8::from(session.is_some()));
            }
            None => sessions(node, request.count().min(LISTED_MAX), replies),
        },
        "EVENTS" => {
            let owner = owner(node, id);
            let call = Call { connection: Some(id), acknowledged: request.seq, ttl_ms: request.ttl_ms };
            match node.engine.poll(&node.host, request.session()?, &owner, call, request.wait_ms)? {
                Polled::Answered(session) => write_events(node, session, None, replies),
                Polled::TakenOver => _ = replies.array(0),
                Polled::Waits(_) => return Ok(Done::Waits),
            }
        }
        "CANCEL" => {
            let session = find(node, id, request.session()?)?;
            if request.tickets.is_empty() {
                let waited = node.engine.close_session(&node.host, session);
                replies.number(waited);
                return Ok(Done::Replied);
            }
            let mut names = TicketNames::default();
            request.tickets.iter().for_each(|name| names.push(name));
            match node.engine.cancel(&node.host, session, names)? {
                Some(cancelled) => write_cancelled(cancelled, replies),
                None => return Ok(Done::Waits),
            }
        }
        _ => return Err(Error::Internal),
    }
    Ok(Done::Replied)
}

fn acquire(
    node: &mut Node,
    id: u64,
    request: &Request<'_, &[u8]>,
    side: Side,
    replies: &mut Replies,
) -> Result<Done, Error> {
    let waiting = begin(node, id, request)?;
    let acquiring = node.engine.acquire(&node.host, request.key()?, &request.wish(side)?, waiting)?;
    Ok(acquired(acquiring, request.fenced, replies))
}

fn owner(node: &Node, id: u64) -> Vec<u8> {
    node.clients.get(&id).and_then(|connection| connection.user.clone()).unwrap_or_default()
}

fn find(node: &Node, id: u64, session: &[u8]) -> Result<SessionId, Error> {
    Ok(node.engine.session(session, &owner(node, id))?)
}

/// A wait, perhaps by a ticket of a session.
type Wait<'a> = Waiting<(SessionId, &'a [u8])>;

/// Finds the session of a wait by ticket.
fn begin<'a>(node: &Node, id: u64, request: &Request<'a, &'a [u8]>) -> Result<Option<Wait<'a>>, Error> {
    let Some(Waiting { limit_ms, max, ticket }) = request.waiting() else { return Ok(None) };
    let ticket = ticket.map(|(session, ticket)| Ok::<_, Error>((find(node, id, session)?, ticket))).transpose()?;
    Ok(Some(Waiting { limit_ms, max, ticket }))
}

fn acquired(acquiring: Acquiring, fenced: bool, replies: &mut Replies) -> Done {
    match acquiring {
        Acquiring::Done(outcome) => write_outcome(outcome, fenced, replies),
        Acquiring::GrantedAll { tokens } => write_tokens(&tokens, replies),
        Acquiring::Answered(value) => _ = replies.bulk(&*value),
        Acquiring::Blocked(_) => return Done::Waits,
        Acquiring::Waiting => _ = replies.simple("WAITING"),
        Acquiring::TurnedAway { waiting } => {
            let line = format!("{}: {waiting}", Error::QueueTooLong.line().to_string_lossy());
            replies.error(line.as_bytes());
        }
    }
    Done::Replied
}

/// The error line of an outcome; empty if the outcome is no error.
fn line_of(outcome: Outcome) -> &'static [u8] {
    let error = match outcome {
        Outcome::Granted { .. } | Outcome::Busy { .. } | Outcome::Answered => return b"",
        Outcome::Refused(refusal) => refusal.into(),
        Outcome::SlotMoved => Error::SlotMoved,
        Outcome::NowReplica => Error::NowReplica,
        Outcome::Replaced => Error::Replaced,
    };
    error.line().to_bytes()
}

fn write_outcome(outcome: Outcome, fenced: bool, replies: &mut Replies) {
    match outcome {
        Outcome::Granted { token } if fenced => {
            replies.array(2).nil().or_nil(token, |replies, token| _ = replies.number(token));
        }
        Outcome::Granted { .. } => _ = replies.nil(),
        Outcome::Busy { left_ms } if fenced => _ = replies.array(2).number(left_ms).nil(),
        Outcome::Busy { left_ms } => _ = replies.number(left_ms),
        failed => _ = replies.error(line_of(failed)),
    }
}

fn write_tokens(tokens: &[i64], replies: &mut Replies) {
    if tokens.is_empty() {
        replies.nil();
    } else {
        let replies = replies.array(2).nil().array(tokens.len());
        tokens.iter().fold(replies, |replies, token| replies.number(*token));
    }
}

fn write_cancelled(cancelled: Vec<Cancelled>, replies: &mut Replies) {
    let replies = replies.array(cancelled.len());
    cancelled.into_iter().fold(replies, |replies, ticket| replies.number(ticket as i64));
}

pub fn is_grant(answer: &Answer) -> bool {
    matches!(answer, Answer::Outcome { outcome: Outcome::Granted { .. }, .. } | Answer::GrantedAll { .. })
}

/// The reply to a client that was blocked for anything but events.
pub fn reply(answer: Option<Answer>, replies: &mut Replies) {
    match answer {
        Some(Answer::Outcome { outcome, fenced }) => write_outcome(outcome, fenced, replies),
        Some(Answer::Value(value)) => _ = replies.bulk(&*value),
        Some(Answer::GrantedAll { tokens }) => write_tokens(&tokens, replies),
        Some(Answer::Cancelled(cancelled)) => write_cancelled(cancelled, replies),
        Some(Answer::NoSession) => _ = replies.error(Error::NoSession.line().to_bytes()),
        Some(Answer::Events) => _ = replies.array(0),
        None => _ = replies.error(Error::NoAnswer.line().to_bytes()),
    }
}

/// The reply to a call for events that waited.
pub fn reply_events(node: &mut Node, id: u64, session: SessionId, since: Option<i64>, replies: &mut Replies) {
    if node.engine.connection_of(session) == Some(id) {
        write_events(node, session, since, replies);
    } else {
        replies.array(0);
        node.engine.cut_off_is_answered(session, id);
    }
}

fn write_events(node: &mut Node, session: SessionId, since: Option<i64>, replies: &mut Replies) {
    let waited_ms = since.map_or(0, |since| node.host.steady_ms.get().saturating_sub(since));
    let news = node.engine.take_news(&node.host, session, EVENTS_BYTES_MAX);
    replies.array(news.len());
    for (event, left_ms) in &news {
        let ends_in = left_ms.map(|left| if left > 0 { waited_ms.saturating_add(left) } else { 0 });
        replies.array(if ends_in.is_some() { 5 } else { 4 });
        replies.number(event.seq).bulk(event.names.ticket());
        match event.outcome {
            Outcome::Granted { token } => match event.tokens() {
                Some(tokens) => {
                    let replies = replies.bulk("granted").array(tokens.len());
                    tokens.iter().fold(replies, |replies, token| replies.number(*token));
                }
                None => _ = replies.bulk("granted").or_nil(token, |replies, token| _ = replies.number(token)),
            },
            Outcome::Busy { left_ms } => _ = replies.bulk("timeout").number(left_ms),
            Outcome::Answered => _ = replies.bulk("answered").nil(),
            failed => _ = replies.bulk("error").bulk(line_of(failed)),
        }
        if let Some(ends_in) = ends_in {
            replies.number(ends_in);
        }
    }
}

/// The reply to a client after CLIENT UNBLOCK has ended its wait.
pub fn reply_unblocked(node: &mut Node, id: u64, waits_for: WaitsFor, since: Option<i64>, replies: &mut Replies) {
    match waits_for {
        WaitsFor::Lock(ticket) => {
            let database = node.clients.get(&id).map_or(0, |connection| connection.database);
            let fenced = node.engine.is_fenced(ticket);
            let keys = node.engine.keys_of(ticket);
            let left_of = |key: &std::rc::Rc<[u8]>| node.host.left_ms(LockName { database, key });
            let left_ms = keys.iter().map(left_of).reduce(longer_left).unwrap_or(0);
            write_outcome(Outcome::Busy { left_ms }, fenced, replies);
        }
        WaitsFor::Events(session) => reply_events(node, id, session, since, replies),
        WaitsFor::Cancel => _ = replies.error(Error::StillCancelling.line().to_bytes()),
        WaitsFor::Answer => _ = replies.error(Error::NoAnswer.line().to_bytes()),
    }
}

fn inspect(node: &Node, key: &[u8], count: usize, replies: &mut Replies) -> Result<(), Error> {
    let (now, database) = (node.now(), node.host.database());
    let keyspace = node.host.keyspace.borrow();
    let snapshot = keyspace.snapshot(database, key, count)?;
    let left_ms = snapshot.as_ref().map_or_else(Vec::new, |snapshot| keyspace.left_ms(database, key, snapshot));
    let lock = LockName { database, key };
    let waiters: Vec<_> = node.engine.queue(lock, now).take(count).collect();
    let answer = keyspace.answer(database, key).ok().flatten();
    replies.map(10).bulk("kind").bulk(match &snapshot {
        None => "none",
        Some(Snapshot { kind: Kind::Plain, .. }) => "plain",
        Some(Snapshot { kind: Kind::ReadWrite, .. }) => "read-write",
        Some(Snapshot { kind: Kind::Permits, .. }) => "permits",
    });
    replies.bulk("ttl-ms").number(snapshot.as_ref().map_or(-2, |snapshot| snapshot.expiry.left_ms(now)));
    replies.bulk("holder-count").number(snapshot.as_ref().map_or(0, |snapshot| snapshot.holder_count));
    replies.bulk("holders").array(left_ms.len());
    for (Holding { holder, part, count }, left_ms) in
        snapshot.iter().flat_map(|snapshot| &snapshot.holdings).zip(&left_ms)
    {
        let side = match part {
            Part::Plain => "exclusive",
            Part::Read => "read",
            Part::Write => "write",
            Part::Permit(_) => "permit",
        };
        replies.map(4).bulk("holder").bulk(holder).bulk("side").bulk(side).bulk("count").number(*count);
        replies.bulk("ttl-ms").or_nil(*left_ms, |replies, left_ms| _ = replies.number(left_ms));
    }
    let token = keyspace.fencing_token(database, key);
    replies.bulk("fencing-token").or_nil(token, |replies, token| _ = replies.number(token));
    let size = answer.map(|(value, _)| value.len());
    replies.bulk("answer-bytes").or_nil(size, |replies, size| _ = replies.number(size));
    let left_ms = answer.map(|(_, end)| end.left_ms(now));
    replies.bulk("answer-ttl-ms").or_nil(left_ms, |replies, left_ms| _ = replies.number(left_ms));
    replies.bulk("waiter-count").number(node.engine.queues().length_of(lock));
    replies.bulk("waiters").array(waiters.len());
    waiters.into_iter().for_each(|waiter| write_waiter(node, waiter, now, replies));
    let grace_left_ms = node.engine.grace_left_ms(node.host.grace_ms.get(), node.host.steady_ms.get());
    replies.bulk("grace-left-ms").number(grace_left_ms);
    Ok(())
}

fn write_waiter(node: &Node, waiter: Queued<'_, Client>, now: i64, replies: &mut Replies) {
    let Queued { wish, recipient, since, deadline, locks } = waiter;
    let (session, is_attended, client) = match &recipient {
        SeenRecipient::Client(client) => (None, true, Some(client.id)),
        SeenRecipient::Session(session) => (Some(beginning(&session.name)), session.is_attended, session.connection),
    };
    let side = match wish.side {
        Side::Plain => "exclusive",
        Side::Read => "read",
        Side::Write => "write",
        Side::Permit(_) => "permit",
    };
    replies.map(11).bulk("holder").bulk(wish.holder.holder()).bulk("side").bulk(side);
    replies.bulk("limit").or_nil(wish.side.limit(), |replies, limit| _ = replies.number(limit.get()));
    replies.bulk("client-id").or_nil(client, |replies, client| _ = replies.number(client));
    let address = client.and_then(|client| node.clients.get(&client)).map(|client| &client.address);
    replies.bulk("address").or_nil(address, |replies, address| _ = replies.bulk(address));
    replies.bulk("session").or_nil(session, |replies, session| _ = replies.bulk(session));
    let ticket = session.map(|_| wish.holder.ticket());
    replies.bulk("ticket").or_nil(ticket, |replies, ticket| _ = replies.bulk(ticket));
    replies.bulk("attended").number(u8::from(is_attended));
    replies.bulk("waited-ms").number(now.saturating_sub(since).max(0));
    let left_ms = deadline.map(|deadline| deadline.saturating_sub(now).max(0));
    replies.bulk("deadline-in-ms").or_nil(left_ms, |replies, left_ms| _ = replies.number(left_ms));
    replies.bulk("keys").number(locks);
}

/// The beginning of a session's name: a client that knows the whole can cancel its tickets.
fn beginning(session: &[u8]) -> &[u8] {
    session.get(..SESSION_SHOWN).unwrap_or_default()
}

fn queues(node: &Node, count: usize, replies: &mut Replies) {
    let (now, database) = (node.now(), node.host.database());
    let queues: Vec<_> = node.engine.queues().to_be_shown(database, count, |_| true).collect();
    replies.array(queues.len());
    for queue in &queues {
        replies.map(4).bulk("key").bulk(&queue.key).bulk("waiters").number(queue.waiters);
        replies.bulk("oldest-wait-ms").number(now.saturating_sub(queue.since).max(0));
        replies.bulk("served").number(queue.served);
    }
}

fn sessions(node: &Node, count: usize, replies: &mut Replies) {
    let now = node.now();
    let sessions = node.engine.sessions_to_be_shown(count, now);
    replies.array(sessions.len());
    for session in &sessions {
        let address = session.connection.and_then(|client| node.clients.get(&client)).map(|client| &client.address);
        replies.map(10).bulk("id").number(session.number).bulk("session").bulk(beginning(&session.name));
        replies.bulk("user").bulk(&session.owner);
        replies.bulk("client-id").or_nil(session.connection, |replies, client| _ = replies.number(client));
        replies.bulk("address").or_nil(address, |replies, address| _ = replies.bulk(address));
        replies.bulk("attended").number(u8::from(session.is_attended));
        replies.bulk("tickets").number(session.tickets).bulk("events").number(session.events);
        replies.bulk("ends-in-ms").number(session.ends.saturating_sub(now).max(0));
        replies.bulk("bytes").number(session.bytes);
    }
}
