//! What the server says of itself and of its clients: INFO and CLIENT LIST, as far as clients and tools read them.

use super::server::State;
use std::fmt::Write;

/// `rlock dev` has the commands of this server version.
pub const REDIS_VERSION: &str = "7.2.0";

/// The version in the module's format: 100 is 0.1.0.
pub fn module_version() -> i64 {
    let parts = env!("CARGO_PKG_VERSION").split('.').map(|part| part.parse().unwrap_or(0));
    parts.fold(0, |version: i64, part: i64| version * 100 + part)
}

/// Names and values.
type Lines = Vec<(String, String)>;

/// A name, a title, and its content.
type Section = (&'static str, &'static str, fn(&State) -> Lines);

pub fn report(state: &State, wanted: &[Vec<u8>]) -> String {
    let is_wanted = |section: &str| {
        let is_it = |word: &Vec<u8>| {
            let word = String::from_utf8_lossy(word).to_lowercase();
            word == section || word == "everything" || word == "all" || word == "default" && section != "commandstats"
        };
        if wanted.is_empty() { section != "commandstats" } else { wanted.iter().any(is_it) }
    };
    let sections: [Section; 6] = [
        ("server", "Server", server),
        ("clients", "Clients", clients),
        ("persistence", "Persistence", |_| {
            lines([("loading", "0"), ("aof_enabled", "0"), ("rdb_bgsave_in_progress", "0")])
        }),
        ("replication", "Replication", |_| lines([("role", "master"), ("connected_slaves", "0")])),
        ("commandstats", "Commandstats", command_stats),
        ("rlock", "rlock_", rlock),
    ];
    let mut report = String::new();
    for (_, title, read) in sections.into_iter().filter(|(section, ..)| is_wanted(section)) {
        if !report.is_empty() {
            report.push_str("\r\n");
        }
        _ = write!(report, "# {title}\r\n");
        read(state).iter().for_each(|(name, value)| _ = write!(report, "{name}:{value}\r\n"));
    }
    report
}

fn lines<const N: usize>(lines: [(&str, &str); N]) -> Lines {
    lines.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
}

fn server(state: &State) -> Lines {
    let (id, port) = (std::process::id().to_string(), state.port.to_string());
    let up = state.began.elapsed().as_secs().to_string();
    lines([
        ("redis_version", REDIS_VERSION),
        ("redis_mode", "standalone"),
        ("os", std::env::consts::OS),
        ("process_id", &id),
        ("tcp_port", &port),
        ("uptime_in_seconds", &up),
    ])
}

fn clients(state: &State) -> Lines {
    let blocked = state.node.clients.values().filter(|client| client.is_waiting()).count().to_string();
    lines([("connected_clients", &state.connections.len().to_string()), ("blocked_clients", &blocked)])
}

fn command_stats(state: &State) -> Lines {
    let line = |(name, calls): (&String, &u64)| (format!("cmdstat_{name}"), format!("calls={calls}"));
    state.calls.iter().map(line).collect()
}

/// The module's own section.
fn rlock(state: &State) -> Lines {
    let (engine, now) = (&state.node.engine, state.node.now());
    let counted = engine.counters;
    let waited = counted.waited;
    let [le_1, le_10, le_100, le_1000, le_10000, le_inf] = waited.up_to();
    let oldest_wait_ms = engine.oldest_since().map_or(0, |since| now.saturating_sub(since));
    let grace_left_ms = engine.grace_left_ms(state.node.host.grace_ms.get(), state.node.host.steady_ms.get());
    let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let fields = [
        ("grants", counted.granted_at_once.wrapping_add(waited.count())),
        ("refusals", counted.refusals),
        ("turned_away", counted.turned_away),
        ("waits", counted.waits),
        ("grants_after_wait", waited.count()),
        ("hand_offs", counted.hand_offs),
        ("timeouts", counted.timeouts),
        ("cancelled", counted.cancelled),
        ("lease_expiries", counted.lease_expiries),
        ("breaks", counted.breaks),
        ("wait_ms_le_1", le_1),
        ("wait_ms_le_10", le_10),
        ("wait_ms_le_100", le_100),
        ("wait_ms_le_1000", le_1000),
        ("wait_ms_le_10000", le_10000),
        ("wait_ms_le_inf", le_inf),
        ("wait_ms_sum", waited.sum_ms()),
        ("waiters", count(engine.waits())),
        ("locks_with_waiters", count(engine.queues().locks())),
        ("longest_queue", count(engine.queues().longest())),
        ("oldest_wait_ms", u64::try_from(oldest_wait_ms).unwrap_or(0)),
        ("sessions", count(engine.sessions().len())),
        ("sessions_unattended", count(engine.sessions().abandoned())),
        ("tickets", count(engine.sessions().waiting)),
        ("events_unacknowledged", count(engine.sessions().events)),
        ("revocations_due", count(engine.releases_due())),
        ("grace_left_ms", u64::try_from(grace_left_ms).unwrap_or(0)),
        ("followed", 0),
        ("followed_by_replicas", 0),
        ("keyspace_subscriptions", 0),
    ];
    fields.map(|(name, value)| (format!("rlock_{name}"), value.to_string())).to_vec()
}

/// A line of CLIENT LIST.
pub fn of_client(state: &State, id: u64) -> String {
    let (Some(client), Some(of_node)) = (state.connections.get(&id), state.node.clients.get(&id)) else {
        return String::new();
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let flags = if of_node.is_waiting() { "b" } else { "N" };
    format!(
        "id={id} addr={} laddr={} fd=0 name={} age={} idle=0 flags={flags} db={} sub={} psub={} ssub=0 multi=-1 cmd={} \
         user={} redir=-1 resp={} lib-name={} lib-ver={}\n",
        of_node.address,
        client.local,
        text(&client.name),
        client.since.elapsed().as_secs(),
        of_node.database,
        client.channels.len(),
        client.patterns.len(),
        client.last_command,
        text(of_node.user.as_deref().unwrap_or(b"(none)")),
        if of_node.replies.is_3 { 3 } else { 2 },
        text(&client.library[0]),
        text(&client.library[1]),
    )
}
