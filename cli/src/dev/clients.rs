//! Commands about connections and the server itself: what clients send when they connect, and what tools ask.

use super::info;
use super::server::{Connection, Done, State};
use super::users::DEFAULT;
use rlock_sim::resp::Replies;
use std::borrow::Cow;

/// Runs the command if it is one of these.
pub fn run(state: &mut State, id: u64, name: &str, words: &[Vec<u8>], replies: &mut Replies) -> Option<Done> {
    let arguments = &words[1..];
    match (name, arguments) {
        ("PING", []) if is_listener(state, id) && !replies.is_3 => _ = replies.array(2).bulk("pong").bulk(""),
        ("PING", []) => _ = replies.simple("PONG"),
        ("PING" | "ECHO", [text]) => _ = replies.bulk(text),
        ("QUIT", _) => {
            replies.simple("OK");
            return Some(Done::Closes);
        }
        ("RESET", []) => reset(state, id, replies),
        ("AUTH", [password]) => auth(state, id, None, password, replies),
        ("AUTH", [user, password]) => auth(state, id, Some(user), password, replies),
        ("HELLO", _) => hello(state, id, arguments, replies),
        ("SELECT", [number]) => select(state, id, number, replies),
        ("CLIENT", [what, rest @ ..]) => return Some(client(state, id, what, rest, replies)),
        ("ACL", [what, rest @ ..]) => acl(state, id, what, rest, replies),
        ("CONFIG", [what, rest @ ..]) => config(state, what, rest, replies),
        ("INFO", sections) => _ = replies.bulk(info::report(state, sections)),
        ("ROLE", []) => _ = replies.array(3).bulk("master").number(0).array(0),
        ("TIME", []) => time(state, replies),
        // A client without this information sends every command unchanged.
        ("COMMAND", [what, ..]) if what.eq_ignore_ascii_case(b"COUNT") => _ = replies.number(0),
        ("COMMAND", [what, ..]) if what.eq_ignore_ascii_case(b"DOCS") => _ = replies.map(0),
        ("COMMAND", _) => _ = replies.array(0),
        ("CLUSTER" | "READONLY" | "READWRITE", _) => {
            _ = replies.error(b"ERR This instance has cluster support disabled")
        }
        ("WAIT", [replicas, ms]) => return Some(wait(replicas, ms, replies)),
        ("SUBSCRIBE" | "SSUBSCRIBE" | "PSUBSCRIBE", channels @ [_, ..]) => listen(state, id, name, channels, replies),
        ("UNSUBSCRIBE" | "SUNSUBSCRIBE" | "PUNSUBSCRIBE", channels) => {
            listen_no_more(state, id, name, channels, replies)
        }
        ("PUBLISH" | "SPUBLISH", [channel, message]) => _ = replies.number(state.publish(channel, message)),
        (known, _) if KNOWN.contains(&known) => wrong_arity(known, replies),
        _ => return None,
    }
    Some(Done::Replied)
}

const KNOWN: [&str; 16] = [
    "PING",
    "ECHO",
    "RESET",
    "AUTH",
    "SELECT",
    "CLIENT",
    "ACL",
    "CONFIG",
    "ROLE",
    "TIME",
    "WAIT",
    "SUBSCRIBE",
    "SSUBSCRIBE",
    "PSUBSCRIBE",
    "PUBLISH",
    "SPUBLISH",
];

pub fn wrong_arity(name: &str, replies: &mut Replies) {
    let line = format!("ERR wrong number of arguments for '{}' command", name.to_lowercase());
    replies.error(line.as_bytes());
}

fn own(state: &mut State, id: u64) -> Option<&mut Connection> {
    state.connections.get_mut(&id)
}

fn user(state: &State, id: u64) -> Option<&Vec<u8>> {
    state.node.clients.get(&id)?.user.as_ref()
}

fn is_listener(state: &State, id: u64) -> bool {
    state.connections.get(&id).is_some_and(|client| !client.channels.is_empty() || !client.patterns.is_empty())
}

fn reset(state: &mut State, id: u64, replies: &mut Replies) {
    let user = state.users.user_without_login();
    if let Some(client) = state.node.clients.get_mut(&id) {
        (client.user, client.database) = (user, 0);
    }
    if let Some(connection) = own(state, id) {
        connection.name.clear();
        connection.channels.clear();
        connection.patterns.clear();
    }
    replies.is_3 = false;
    replies.simple("RESET");
}

fn auth(state: &mut State, id: u64, user: Option<&[u8]>, password: &[u8], replies: &mut Replies) {
    match log_in(state, id, user, password) {
        Ok(()) => replies.simple("OK"),
        Err(line) => replies.error(line),
    };
}

fn log_in(state: &mut State, id: u64, user: Option<&[u8]>, password: &[u8]) -> Result<(), &'static [u8]> {
    if user.is_none() && state.users.needs_no_password() {
        return Err(b"ERR AUTH <password> called without any password configured for the default user. \
            Are you sure your configuration is correct?");
    }
    let user = user.unwrap_or(DEFAULT);
    if !state.users.accepts(user, password) {
        return Err(b"WRONGPASS invalid username-password pair or user is disabled.");
    }
    if let Some(client) = state.node.clients.get_mut(&id) {
        client.user = Some(user.to_vec());
    }
    Ok(())
}

fn hello(state: &mut State, id: u64, arguments: &[Vec<u8>], replies: &mut Replies) {
    let is_3 = match greeting(state, id, arguments, replies.is_3) {
        Ok(is_3) => is_3,
        Err(line) => {
            replies.error(&line);
            return;
        }
    };
    replies.is_3 = is_3;
    replies.map(7).bulk("server").bulk("redis").bulk("version").bulk(info::REDIS_VERSION);
    replies.bulk("proto").number(if is_3 { 3 } else { 2 }).bulk("id").number(id);
    replies.bulk("mode").bulk("standalone").bulk("role").bulk("master").bulk("modules").array(1);
    replies.map(4).bulk("name").bulk("rlock").bulk("ver").number(info::module_version());
    replies.bulk("path").bulk("").bulk("args").array(0);
}

/// Does what a HELLO asks for. Returns whether the protocol is version 3 from now on.
fn greeting(state: &mut State, id: u64, arguments: &[Vec<u8>], was_3: bool) -> Result<bool, Cow<'static, [u8]>> {
    let (is_3, mut rest) = match arguments {
        [] => (was_3, arguments),
        [version, rest @ ..] => match &version[..] {
            b"2" => (false, rest),
            b"3" => (true, rest),
            version if version.iter().all(u8::is_ascii_digit) => {
                return Err(b"NOPROTO unsupported protocol version".into());
            }
            _ => return Err(b"ERR Protocol version is not an integer or out of range".into()),
        },
    };
    while let [option, behind @ ..] = rest {
        rest = match behind {
            [user, password, behind @ ..] if option.eq_ignore_ascii_case(b"AUTH") => {
                log_in(state, id, Some(user), password)?;
                behind
            }
            [name, behind @ ..] if option.eq_ignore_ascii_case(b"SETNAME") => {
                own(state, id).into_iter().for_each(|connection| connection.name.clone_from(name));
                behind
            }
            _ => {
                let line = format!("ERR Syntax error in HELLO option '{}'", String::from_utf8_lossy(option));
                return Err(line.into_bytes().into());
            }
        };
    }
    if user(state, id).is_none() {
        return Err(
            b"NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> \
            <pass> option can be used to authenticate the client and select the RESP protocol version at the same time"
                .into(),
        );
    }
    Ok(is_3)
}

fn select(state: &mut State, id: u64, number: &[u8], replies: &mut Replies) {
    let number = std::str::from_utf8(number).ok().and_then(|number| number.parse().ok());
    match (number, state.node.clients.get_mut(&id)) {
        (Some(number @ 0..16), Some(client)) => {
            client.database = number;
            replies.simple("OK")
        }
        (Some(_), _) => replies.error(b"ERR DB index is out of range"),
        _ => replies.error(b"ERR value is not an integer or out of range"),
    };
}

fn client(state: &mut State, id: u64, what: &[u8], rest: &[Vec<u8>], replies: &mut Replies) -> Done {
    let what = String::from_utf8_lossy(what).to_uppercase();
    match (&*what, rest) {
        ("ID", []) => _ = replies.number(id),
        ("SETNAME", [name]) => {
            if name.iter().any(|byte| !(b'!'..=b'~').contains(byte)) {
                replies.error(b"ERR Client names cannot contain spaces, newlines or special characters.");
            } else {
                own(state, id).into_iter().for_each(|connection| connection.name.clone_from(name));
                replies.simple("OK");
            }
        }
        ("GETNAME", []) => {
            let name = own(state, id).map(|connection| connection.name.clone()).filter(|name| !name.is_empty());
            replies.or_nil(name, |replies, name| _ = replies.bulk(name));
        }
        ("SETINFO", [option, value]) => {
            let place = [&b"LIB-NAME"[..], b"LIB-VER"].iter().position(|known| option.eq_ignore_ascii_case(known));
            match place {
                Some(place) => {
                    own(state, id).into_iter().for_each(|connection| connection.library[place].clone_from(value));
                    replies.simple("OK");
                }
                None => _ = replies.error(b"ERR Unrecognized option"),
            }
        }
        ("INFO", []) => _ = replies.bulk(info::of_client(state, id)),
        ("LIST", _) => {
            let list = list(state, rest);
            replies.bulk(list);
        }
        ("KILL", [option, value]) if option.eq_ignore_ascii_case(b"ID") => {
            let killed = std::str::from_utf8(value).ok().and_then(|id| id.parse().ok());
            let killed = killed.filter(|id| state.connections.contains_key(id));
            replies.number(u8::from(killed.is_some()));
            killed.into_iter().for_each(|killed| state.cut_off(killed, id));
        }
        ("UNBLOCK", [other, how @ ..]) => {
            let other = std::str::from_utf8(other).ok().and_then(|id| id.parse().ok()).unwrap_or(0);
            let with_error = how.first().is_some_and(|how| how.eq_ignore_ascii_case(b"ERROR"));
            replies.number(u8::from(state.node.unblock(other, with_error)));
        }
        ("NO-EVICT" | "NO-TOUCH", [_]) => _ = replies.simple("OK"),
        _ => {
            let line = format!("ERR rlock dev does not know CLIENT {what}, or not with these arguments");
            replies.error(line.as_bytes());
        }
    }
    Done::Replied
}

fn list(state: &State, options: &[Vec<u8>]) -> String {
    let wanted = options.iter().skip(1).map(|id| String::from_utf8_lossy(id).parse().unwrap_or(0));
    let wanted: Vec<u64> = wanted.collect();
    let is_by_id = options.first().is_some_and(|option| option.eq_ignore_ascii_case(b"ID"));
    let listed = state.connections.keys().filter(|id| !is_by_id || wanted.contains(id));
    listed.map(|id| info::of_client(state, *id)).collect()
}

fn acl(state: &mut State, id: u64, what: &[u8], rest: &[Vec<u8>], replies: &mut Replies) {
    let what = String::from_utf8_lossy(what).to_uppercase();
    match (&*what, rest) {
        ("WHOAMI", []) => _ = replies.bulk(user(state, id).map_or(&b""[..], Vec::as_slice)),
        ("SETUSER", [name, rules @ ..]) => match state.users.set(name, rules) {
            Ok(()) => _ = replies.simple("OK"),
            Err(line) => _ = replies.error(line.as_bytes()),
        },
        ("DELUSER", names) => {
            let deleted: Vec<_> = names.iter().filter(|name| state.users.delete(name)).collect();
            let is_theirs = |user: &Option<Vec<u8>>| user.as_ref().is_some_and(|user| deleted.contains(&user));
            let gone = state.node.clients.iter().filter(|(_, client)| is_theirs(&client.user)).map(|(id, _)| *id);
            gone.collect::<Vec<_>>().into_iter().for_each(|gone| state.cut_off(gone, id));
            replies.number(deleted.len());
        }
        _ => {
            let line = format!("ERR rlock dev does not know ACL {what}, or not with these arguments");
            replies.error(line.as_bytes());
        }
    }
}

fn config(state: &mut State, what: &[u8], rest: &[Vec<u8>], replies: &mut Replies) {
    match rest {
        [name, value] if what.eq_ignore_ascii_case(b"SET") => {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            match state.set(&text(name), &text(value)) {
                Ok(()) => replies.simple("OK"),
                Err(why) => replies.error(format!("ERR {why}").as_bytes()),
            };
        }
        _ if what.eq_ignore_ascii_case(b"GET") => _ = replies.map(0),
        _ if what.eq_ignore_ascii_case(b"RESETSTAT") => {
            state.calls.clear();
            replies.simple("OK");
        }
        _ => {
            _ = replies
                .error(b"ERR rlock dev knows CONFIG SET of the settings rlock.*, CONFIG GET and CONFIG RESETSTAT")
        }
    }
}

fn time(state: &State, replies: &mut Replies) {
    let now = state.node.now();
    replies.array(2).bulk((now / 1_000).to_string()).bulk((now % 1_000 * 1_000).to_string());
}

/// There are no replicas.
fn wait(replicas: &[u8], ms: &[u8], replies: &mut Replies) -> Done {
    let number = |word: &[u8]| std::str::from_utf8(word).ok().and_then(|word| word.parse::<u64>().ok());
    match (number(replicas), number(ms)) {
        (Some(0), Some(_)) => _ = replies.number(0),
        (Some(_), Some(ms)) => {
            replies.number(0);
            return Done::AfterMs(if ms == 0 { u64::from(u32::MAX) } else { ms });
        }
        _ => _ = replies.error(b"ERR value is not an integer or out of range"),
    }
    Done::Replied
}

fn listen(state: &mut State, id: u64, name: &str, channels: &[Vec<u8>], replies: &mut Replies) {
    let Some(connection) = own(state, id) else { return };
    for channel in channels {
        let kept = if name == "PSUBSCRIBE" { &mut connection.patterns } else { &mut connection.channels };
        kept.insert(channel.clone());
        let all = connection.channels.len() + connection.patterns.len();
        replies.push(3).bulk(name.to_lowercase()).bulk(channel).number(all);
    }
}

fn listen_no_more(state: &mut State, id: u64, name: &str, channels: &[Vec<u8>], replies: &mut Replies) {
    let Some(connection) = own(state, id) else { return };
    let kept = if name == "PUNSUBSCRIBE" { &mut connection.patterns } else { &mut connection.channels };
    let left: Vec<_> = if channels.is_empty() { kept.iter().cloned().collect() } else { channels.to_vec() };
    let word = name.to_lowercase();
    if left.is_empty() {
        let all = connection.channels.len() + connection.patterns.len();
        replies.push(3).bulk(&word).nil().number(all);
    }
    for channel in left {
        let kept = if name == "PUNSUBSCRIBE" { &mut connection.patterns } else { &mut connection.channels };
        kept.remove(&channel);
        let all = connection.channels.len() + connection.patterns.len();
        replies.push(3).bulk(&word).bulk(&channel).number(all);
    }
}
