//! What scenarios share: the client that is tried, and checks of servers behind its back.

use crate::load::wait_within;
use rlock_conformance::{Adapter, Answer, Said, Saying};
use rlock_testing::{Client, Reply, Server, unix_ms, wait_until};
use serde_json::{Value, json};
use std::thread;
use std::time::{Duration, Instant};

/// Longer than anything takes that has nothing to wait for.
pub const SOON: Duration = Duration::from_secs(2);

/// Times are reported in whole ms, which are rounded here and there.
const ROUNDED_MS: i64 = 3;

/// A client: its name, how its adapter is started, and what it lacks.
pub struct Tried {
    pub name: String,
    pub command: String,
    pub without: &'static [&'static str],
    pub connections_max: usize,
}

pub struct World<'a> {
    pub tried: &'a Tried,
    /// All clients, with `tried` among them.
    pub all: &'a [Tried],
}

impl Tried {
    /// Whether the client does not have this request or field.
    pub fn lacks(&self, field: &str) -> bool {
        self.without.contains(&field)
    }

    pub fn start(&self) -> Adapter {
        Adapter::start(&self.name, &self.command)
    }

    /// # Panics
    /// If it is not opened, or has more or less than is known of it.
    pub fn open(&self, mut place: Value) -> Adapter {
        place["do"] = json!("open");
        let adapter = self.start();
        let opened = ok(adapter.asks(place));
        let mut without: Vec<_> = opened["without"].as_array().expect("a list").iter().map(|it| it.as_str()).collect();
        without.sort();
        let known: Vec<_> = self.without.iter().copied().map(Some).collect();
        assert_eq!(without, known, "what {} has not is not what the suite knows", self.name);
        adapter
    }
}

impl World<'_> {
    pub fn open(&self, place: Value) -> Adapter {
        self.tried.open(place)
    }

    pub fn client_of(&self, server: &Server) -> Adapter {
        self.open(at(server.port()))
    }

    /// A server, a connection to it that is not the client's, and a client.
    pub fn with_client(&self) -> (Server, Client, Adapter) {
        let (server, eye) = Server::with_client();
        let client = self.client_of(&server);
        (server, eye, client)
    }

    /// The same, and another holder has the lock for as long as the scenario lasts.
    pub fn with_taken(&self, key: &str) -> (Server, Client, Adapter) {
        let (server, mut eye, client) = self.with_client();
        take(&mut eye, key);
        (server, eye, client)
    }
}

pub fn at(port: u16) -> Value {
    json!({"url": format!("redis://127.0.0.1:{port}")})
}

pub fn plain(name: &str) -> Value {
    json!({"lock": name})
}

/// The request with more fields.
pub fn with(mut lock: Value, fields: Value) -> Value {
    let Value::Object(fields) = fields else { panic!("fields are an object") };
    lock.as_object_mut().expect("a lock is an object").extend(fields);
    lock
}

pub fn ok(answer: Answer) -> Value {
    answer.unwrap_or_else(|failure| panic!("it has failed: {failure:?}"))
}

pub fn fails_as(word: &str, answer: &Answer) {
    assert!(answer.as_ref().is_err_and(|failure| failure.word == word), "not {word}: {answer:?}");
}

/// Checks that the lock is lost for this reason.
pub fn is_lost_by(reason: &str, answer: &Answer) {
    fails_as("lost", answer);
    assert_eq!(answer.as_ref().err().and_then(|failure| failure.reason.as_deref()), Some(reason), "{answer:?}");
}

/// The same, by the news of the loss.
pub fn is_reported_lost_by(reason: &str, client: &Adapter, held: &str) -> Said {
    let said = client.until_lost(held);
    let Saying::Lost { reason: actual, .. } = &said.what else { unreachable!() };
    assert_eq!(actual.as_deref(), Some(reason), "{said:?}");
    said
}

/// For how long the suite's callers of `once` want a value to be kept: longer than any scenario.
pub const KEEP_MS: u64 = 600_000;

/// Asks for the value of this key, and returns the request's number. The fields may name another `keep`.
pub fn ask_once(client: &Adapter, key: &str, fields: Value) -> u64 {
    client.ask(with(json!({"do": "once", "once": key, "keep": KEEP_MS}), fields))
}

/// Waits until the work of that request has begun.
pub fn until_begun(client: &Adapter, id: u64) -> Said {
    client.until_turned(rlock_testing::PATIENCE, id, 1)
}

/// Whether the work of that request has begun at any time.
pub fn has_begun(client: &Adapter, id: u64) -> bool {
    !client.turns(id).is_empty()
}

/// Asks for the value of this key, and waits until the work has begun. Returns the request's number.
pub fn begin_once(client: &Adapter, key: &str, fields: Value) -> u64 {
    let id = ask_once(client, key, fields);
    until_begun(client, id);
    id
}

/// Ends the work of that request. Work of `once` ends with this value.
pub fn finish(client: &Adapter, id: u64, value: &str) {
    ok(client.asks(json!({"do": "finish", "of": id, "value": value})));
}

/// Checks that the request is answered with this value.
pub fn is_given(value: &str, answer: Answer) {
    assert_eq!(ok(answer), json!({"value": value}));
}

/// The key that stores the value of this one.
pub fn stored_at(key: &str) -> String {
    format!("rlock_answer:{{{key}}}")
}

/// The answer that is stored for this key, if there is one.
pub fn stored(eye: &mut Client, key: &str) -> Option<String> {
    match eye.run(&["GET", &stored_at(key)]) {
        Reply::Text(value) => Some(value),
        _ => None,
    }
}

/// The suite leads by hand, for as long as the scenario lasts.
pub fn lead_by_hand(eye: &mut Client, key: &str) {
    assert_eq!(eye.run(&["RLOCK.ONCE", key, "other", "600000"]), Reply::Nil);
}

pub fn answer_by_hand(eye: &mut Client, key: &str, value: &str) {
    assert_eq!(eye.run(&["RLOCK.ANSWER", key, "other", value, "KEEP", "600000"]), Reply::Int(1));
}

/// How often clients have sent this command, by the server's count.
pub fn calls(eye: &mut Client, command: &str) -> u64 {
    let name = format!("cmdstat_rlock.{command}:");
    let all = eye.say("INFO commandstats").as_text().to_lowercase();
    let calls = all.lines().find_map(|line| line.strip_prefix(&name)?.strip_prefix("calls=")?.split(',').next());
    calls.map_or(0, |calls| calls.parse().expect("a number"))
}

pub fn take(eye: &mut Client, key: &str) {
    assert_eq!(eye.run(&["RLOCK.ACQUIRE", key, "other", "600000"]), Reply::Nil);
}

pub fn release_by_hand(eye: &mut Client, key: &str) {
    assert_eq!(eye.run(&["RLOCK.RELEASE", key, "other"]).as_int(), 1);
}

pub fn exists(eye: &mut Client, key: &str) -> bool {
    eye.run(&["EXISTS", key]).as_int() == 1
}

/// Waits until the key has neither holder nor waiter.
pub fn until_nothing_is_left(eye: &mut Client, key: &str) {
    let nothing_is_left = || eye.figure("waiters") == 0 && !exists(eye, key);
    wait_within(SOON, &format!("nobody holds {key} or waits"), nothing_is_left);
}

/// Waits until right after a renewal. Returns the time at which the lease ends.
pub fn until_renewed(eye: &mut Client, key: &str) -> i64 {
    let before = eye.expiry(key);
    wait_until("it is renewed", || {
        let end = eye.expiry(key);
        assert!(end > 0, "{key} is lost");
        end > before
    });
    eye.expiry(key)
}

/// The numbers of the connections that come by TCP: those of clients. The suite comes by unix sockets.
pub fn connections(eye: &mut Client) -> Vec<String> {
    let list = eye.say("CLIENT LIST");
    let by_tcp = list.as_text().lines().filter(|line| line.contains(" addr=127.0.0.1:"));
    by_tcp.filter_map(|line| line.split([' ', '=']).nth(1)).map(str::to_owned).collect()
}

/// Kills all connections of clients.
pub fn kill_connections(eye: &mut Client) {
    let killed = connections(eye);
    for id in &killed {
        eye.say(&format!("CLIENT KILL ID {id}"));
    }
    wait_until("they are gone", || connections(eye).iter().all(|id| !killed.contains(id)));
}

/// An operator ends all sessions.
pub fn end_sessions(eye: &mut Client) {
    for session in eye.say("RLOCK.SESSIONS").as_list() {
        let fields = session.as_list();
        let id = fields.chunks(2).find(|pair| pair[0].as_text() == "id").expect("an id")[1].as_int();
        assert_eq!(eye.say(&format!("RLOCK.SESSIONS END {id}")).as_int(), 1);
    }
}

/// Waits until a holder no longer has the lock after its process has died. Returns the time at which its lease ended.
pub fn until_lock_goes_from(eye: &mut Client, key: &str, holder: &str) -> i64 {
    // A request that the process has sent last may still make the lease longer.
    let mut end = 0;
    wait_until("the lock is another one's", || {
        let now = eye.expiry(key);
        let is_its_own = eye.run(&["HEXISTS", key, holder]).as_int() == 1;
        end = if is_its_own { now } else { end };
        !is_its_own
    });
    end
}

/// Waits until every waiter can be served: none is passed over.
pub fn until_attended(eye: &mut Client) {
    wait_until("no waiter is passed over", || eye.figure("sessions_unattended") == 0);
}

/// Waits for the lease's end on the server. The loss is reported before that, and a release may still prove that it is held.
pub fn until_past(end: i64) {
    wait_until("the lease has ended on the server", || unix_ms() > end);
}

/// Checks again and again until the hold is lost. Until then it must never be guaranteed beyond its end on the server, which
/// is read after each check, and is in the past if the key is gone. An end only gets later while there is a holder, so the
/// end that is read after a check judges that check.
pub fn guarantees_no_more_than(adapter: &Adapter, held: &str, mut end: impl FnMut() -> i64) {
    let deadline = Instant::now() + rlock_testing::PATIENCE;
    loop {
        let (mut look, mut end) = (adapter.look(held), end());
        if end < 0 {
            // The key may have gone since the check.
            (end, look) = (look.asked_at_unix_ms, adapter.look(held));
        }
        if look.is_lost {
            return;
        }
        let claimed = look.asked_at_unix_ms + look.remaining_ms;
        assert!(claimed <= end + ROUNDED_MS, "it is vouched for until {claimed}, but ends at {end}");
        assert!(Instant::now() < deadline, "it is never lost");
        thread::sleep(Duration::from_millis(1));
    }
}
