//! The requests to one server. None of them changes anything: to learn whether the user may send a command, it is sent
//! in a form that does nothing, and only the refusal counts.

use super::reading::{Answer, Clock, Lines, Seen, Sentinel};
use crate::address::{Address, Certificates};
use crate::greeting;
use rlock_client::{Error, Locks, Reply};
use rlock_core::words::{self, Argument, COMMANDS, OptionWord};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The settings that a check is about.
const SETTINGS: [&str; 10] = [
    "appendfsync",
    "appendonly",
    "cluster-node-timeout",
    "maxmemory",
    "maxmemory-policy",
    "min-replicas-max-lag",
    "min-replicas-to-write",
    "rlock.grace",
    "rlock.tokens",
    "save",
];

/// Of this many replies, the quickest gives the best time.
const CLOCK_READINGS: usize = 3;

/// How to reach servers, and when the visits began.
pub struct Visitor {
    certificates: Option<Certificates>,
    limit: Duration,
    begun: Instant,
}

impl Visitor {
    pub fn new(certificates: Option<Certificates>, limit: Duration) -> Self {
        Self { certificates, limit, begun: Instant::now() }
    }

    pub async fn open(&self, at: &Address) -> Result<Locks, Error> {
        at.open(Locks::options(), self.certificates.clone(), self.limit).await
    }

    /// A server with data.
    pub async fn node(&self, at: &Address) -> Answer<Seen> {
        let server = self.open(at).await.map_err(|error| error.reason())?;
        let greeting = match server.command("HELLO", &["HELLO"]).await {
            Ok(reply) => greeting::read(reply).ok_or_else(|| "unexpected reply to HELLO".to_owned()),
            // It would not reply to the next request either.
            Err(error) if error.code().is_none() => return Err(error.reason()),
            Err(error) => Err(error.reason()),
        };
        let has_module = greeting.as_ref().is_ok_and(|greeting| greeting.module.is_some());
        Ok(Seen {
            greeting,
            info: info(&server).await,
            settings: settings(&server).await,
            clock: self.clock(&server).await,
            forbidden: if has_module { forbidden(&server).await } else { Vec::new() },
        })
    }

    async fn clock(&self, server: &Locks) -> Answer<Clock> {
        let mut best: Option<Clock> = None;
        for _ in 0..CLOCK_READINGS {
            let sent = Instant::now();
            let server_time = time(&ask(server, &["TIME"]).await?).ok_or("unexpected reply to TIME")?;
            let clock = Clock::read(server_time, self.begun, sent, Instant::now());
            best = Some(best.filter(|best| best.uncertain_us <= clock.uncertain_us).unwrap_or(clock));
        }
        best.ok_or_else(|| "TIME was not asked for".to_owned())
    }

    /// A sentinel, and the replicas that it knows: the address of each, and whether it is down.
    pub async fn sentinel(&self, at: &Address, master: &str) -> (Sentinel, Vec<(String, bool)>) {
        let unknown = |why: String| Sentinel { address: at.to_string(), quorum: Err(why.clone()), master: Err(why) };
        let sentinel = match self.open(at).await {
            Ok(sentinel) => sentinel,
            Err(error) => return (unknown(error.reason()), Vec::new()),
        };
        let of_master = match ask(&sentinel, &["SENTINEL", "MASTER", master]).await {
            Ok(reply) => lines(&reply).ok_or("unexpected reply to SENTINEL MASTER"),
            Err(why) => return (unknown(why), Vec::new()),
        };
        let quorum = ask(&sentinel, &["SENTINEL", "CKQUORUM", master]).await.map(drop);
        let replicas = ask(&sentinel, &["SENTINEL", "REPLICAS", master]).await.unwrap_or(Reply::Nil);
        let Reply::List(replicas) = replicas else { return (unknown("it knows no replicas".to_owned()), Vec::new()) };
        let replicas = replicas.iter().filter_map(lines).filter_map(|replica| {
            let address = format!("{}:{}", replica.text("ip")?, replica.text("port")?);
            Some((address, replica.text("flags")?.contains("down")))
        });
        let address = at.to_string();
        (Sentinel { address, master: of_master.map_err(str::to_owned), quorum }, replicas.collect())
    }
}

pub async fn ask(server: &Locks, command: &[&str]) -> Answer<Reply> {
    server.command(command[0], command).await.map_err(|error| error.reason())
}

async fn info(server: &Locks) -> Answer<Lines> {
    text(&ask(server, &["INFO", "server", "replication", "persistence", "rlock"]).await?)
        .map(|text| Lines::of_info(&text))
        .ok_or_else(|| "unexpected reply to INFO".to_owned())
}

async fn settings(server: &Locks) -> Answer<Lines> {
    let command: Vec<_> = ["CONFIG", "GET"].into_iter().chain(SETTINGS).collect();
    lines(&ask(server, &command).await?).ok_or_else(|| "unexpected reply to CONFIG GET".to_owned())
}

/// Which commands of rlock this user may not send.
async fn forbidden(server: &Locks) -> Vec<&'static str> {
    let unused = unused_name();
    let mut forbidden = Vec::new();
    for command in COMMANDS {
        if ask(server, &harmless(command, &unused)).await.is_err_and(|why| is_about_the_command(&why)) {
            forbidden.push(command.name);
        }
    }
    forbidden
}

/// The command in a form that does nothing: it is for a lock without holders, or has a lease, a session, a limit or a count
/// that is refused.
fn harmless<'a>(command: &'static words::Command, unused: &'a str) -> Vec<&'a str> {
    let mut words = vec![command.name];
    let mut add = |argument: &Argument| match argument {
        Argument::Key | Argument::Holder => words.push(unused),
        Argument::Keys => words.extend(["1", unused]),
        Argument::Tickets => {}
        _ => words.push("0"),
    };
    command.arguments.iter().for_each(&mut add);
    if command.arguments.is_empty() || command.options.first().is_some_and(OptionWord::is_required) {
        let option = &command.options[0];
        words.push(option.words[0]);
        words.extend(option.arguments().iter().map(|_| "0"));
    }
    words
}

/// The name of a lock that no client has or will have, and of its holder.
fn unused_name() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    format!("rlock-doctor:{}:{now}", std::process::id())
}

/// A refusal of the key does not count: no client uses this key, and the user's locks may have other names.
fn is_about_the_command(why: &str) -> bool {
    why.starts_with("NOPERM") && why.contains("permissions to run the")
}

fn time(reply: &Reply) -> Option<i64> {
    let Reply::List(parts) = reply else { return None };
    let [seconds, micros] = &parts[..] else { return None };
    let number = |part| text(part)?.parse::<i64>().ok();
    number(seconds)?.checked_mul(1_000_000)?.checked_add(number(micros)?)
}

/// Names and values in turn.
fn lines(reply: &Reply) -> Option<Lines> {
    let Reply::List(flat) = reply else { return None };
    let pairs = flat.chunks(2).map(|pair| Some((text(pair.first()?)?, text(pair.get(1)?)?)));
    pairs.collect::<Option<_>>().map(Lines)
}

pub fn text(reply: &Reply) -> Option<String> {
    match reply {
        Reply::Text(bytes) | Reply::Word(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    }
}
