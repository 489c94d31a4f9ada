//! A server with the shipped engine: a master or a replica, up, down or suspended. What Redis itself does around a module
//! is here: it replicates, counts its replicas, refuses writes on a replica, and keeps what a client sends behind a wait.

use crate::clock::Clock;
use crate::protection::Protection;
use rlock_core::lock::{Expiry, names};
use rlock_core::waiting::Note;
use rlock_core::words::Command;
use rlock_sim::resp::Replies;
use rlock_sim::{Done, Keyspace, Node, Plain, Value};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// A client's connection: a number that no other one has.
pub type Connection = u64;

pub type Request = Vec<Vec<u8>>;

/// A lock's name, or a holder's.
pub type Name = String;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Health {
    Up,
    /// It does nothing, and its connections stay.
    Suspended,
    Down,
}

/// A command WAIT that has not been answered.
struct Wait {
    client: Connection,
    until: Duration,
    wanted: usize,
    /// The version of the data set that replicas must have.
    version: u64,
}

pub struct Server {
    pub node: Node,
    pub health: Health,
    pub clock: Clock,
    /// How much the engine does in one turn.
    pub turn: u32,
    /// The master that it follows. None: it is a master.
    pub follows: Option<usize>,
    /// No other server hears of it, though clients do.
    pub is_cut_off: bool,
    /// How often its data set has changed while it was a master.
    pub version: u64,
    /// Of a replica: its master, and the master's version when they were last in step.
    pub in_step: Option<(usize, u64)>,
    /// The data set of this version, with its clock at 0.
    pub data: Keyspace,
    /// When it last heard of a replica.
    pub heard_at: Duration,
    /// The reply to everything, as of a server that is loading or full.
    pub refuses: Option<&'static str>,
    waits: Vec<Wait>,
    behind: BTreeMap<Connection, VecDeque<Request>>,
    replies: Vec<(Connection, Vec<u8>)>,
    /// Holds that a test or a fault took away or made shorter, not a release or the end of a lease.
    pub taken_away: BTreeSet<(Name, Name)>,
    /// Those of them that a test deleted.
    pub deleted: BTreeSet<(Name, Name)>,
    /// The last fencing token of each lock.
    pub tokens: BTreeMap<&'static str, i64>,
    /// How often a hold was released.
    pub released: BTreeMap<(Name, Name), u64>,
    /// All answers that were stored; and those since the last check, with the end of each.
    pub stored: BTreeSet<Name>,
    pub newly_stored: Vec<(Name, Duration)>,
    /// Holders that asked for an answer.
    pub asked_by_once: BTreeSet<Name>,
    /// Waiters in the order in which they joined a queue: what they want, and their holder.
    pub joined: Vec<(Name, Name)>,
    in_line: Vec<(Name, Name)>,
}

impl Server {
    pub fn new(clock: Clock, turn: u32, protection: &Protection) -> Self {
        let (waits, behind, replies, taken_away, deleted, tokens) = Default::default();
        let (released, joined, in_line) = Default::default();
        let (stored, newly_stored, asked_by_once) = Default::default();
        let mut server = Self {
            node: Node::default(),
            health: Health::Up,
            clock,
            turn,
            follows: None,
            is_cut_off: false,
            version: 0,
            in_step: None,
            data: Keyspace::default(),
            heard_at: Duration::ZERO,
            refuses: None,
            waits,
            behind,
            replies,
            taken_away,
            deleted,
            tokens,
            released,
            stored,
            newly_stored,
            asked_by_once,
            joined,
            in_line,
        };
        server.set(protection);
        server
    }

    fn set(&mut self, protection: &Protection) {
        self.node.host.grace_ms.set(protection.grace.as_millis().try_into().expect("a short grace"));
        self.node.tokens_go_by_clock = protection.tokens_by_clock;
        self.node.host.turn.set(self.turn);
    }

    pub fn is_master(&self) -> bool {
        self.follows.is_none()
    }

    pub fn take_replies(&mut self) -> Vec<(Connection, Vec<u8>)> {
        std::mem::take(&mut self.replies)
    }

    /// When something next happens without a request.
    pub fn next(&self) -> Option<Duration> {
        if self.health != Health::Up {
            return None;
        }
        // A replica's keys end when its master says so.
        let end = self.node.host.keyspace.borrow().next_end().filter(|_| self.is_master()).map(|end| end + 1);
        let engine = self.node.wakes_at().into_iter().chain(end).min().map(|at| self.clock.shows(at));
        engine.into_iter().chain(self.waits.iter().map(|wait| wait.until)).min()
    }

    pub fn advances(&mut self, at: Duration, protection: &Protection) {
        if self.health != Health::Up {
            return;
        }
        self.sets_clocks(at, protection);
        self.follows_up();
        let (over, waits) = std::mem::take(&mut self.waits).into_iter().partition(|wait| wait.until <= at);
        self.waits = waits;
        over.into_iter().for_each(|wait: Wait| self.replies.push((wait.client, b":0\r\n".to_vec())));
        self.goes_on_behind_waits(at, protection);
    }

    fn sets_clocks(&mut self, at: Duration, protection: &Protection) {
        let steady_ms = self.clock.steady(at).as_millis().try_into().expect("a short history");
        self.node.set_clocks(self.clock.unix_us(at), steady_ms);
        let lacks = self.lacks_replicas(at, protection);
        let paused = (lacks || !self.is_master()).then_some(rlock_core::waiting::Paused { for_ms: 100 });
        self.node.host.paused.set(paused);
    }

    /// `min-replicas-to-write`: servers count whole seconds.
    fn lacks_replicas(&self, at: Duration, protection: &Protection) -> bool {
        let Some(lag) = protection.lag else { return false };
        at.saturating_sub(self.heard_at).as_secs() > lag.as_secs()
    }

    /// Carries out everything that follows from a change at once. Counts the change for replicas.
    fn follows_up(&mut self) {
        self.node.follow_up();
        for client in self.node.take_answered() {
            self.collects(client);
        }
        self.node.host.published.borrow_mut().clear();
        self.notes_joined();
        if !self.is_master() {
            return;
        }
        let mut data = self.node.host.keyspace.borrow_mut();
        let now = data.now();
        data.set_now(0);
        if *data != self.data {
            self.data = data.clone();
            self.version += 1;
        }
        data.set_now(now);
    }

    fn collects(&mut self, client: Connection) {
        let Some(connection) = self.node.clients.get_mut(&client) else { return };
        let bytes = std::mem::take(&mut connection.replies.bytes);
        if !bytes.is_empty() {
            self.replies.push((client, bytes));
        }
    }

    fn notes_joined(&mut self) {
        let (now, mut in_line) = (self.node.now(), Vec::new());
        for key in crate::world::LOCKS {
            let lock = rlock_core::waiting::LockName { database: 0, key: key.as_bytes() };
            for waiter in self.node.engine.queue(lock, now) {
                let both = || crate::world::names(crate::world::BOTH).join("+");
                let wanted = if waiter.locks > 1 { both() } else { key.to_owned() };
                let waiter = (wanted, text(waiter.wish.holder.holder()));
                self.check_waiters(key, &waiter.1);
                // A waiter for several locks is in the queue of each.
                if !in_line.contains(&waiter) {
                    in_line.push(waiter);
                }
            }
        }
        let new = in_line.iter().filter(|waiter| !self.in_line.contains(waiter));
        self.joined.extend(new.cloned());
        self.in_line = in_line;
    }

    pub fn connects(&mut self, client: Connection) {
        self.node.open(client, String::new(), Some(b"default".to_vec()));
    }

    pub fn hangs_up(&mut self, client: Connection) {
        self.waits.retain(|wait| wait.client != client);
        self.behind.remove(&client);
        self.node.close(client);
        self.follows_up();
    }

    /// Closes all connections, and drops what was under way on them.
    fn forgets_clients(&mut self) {
        self.waits.clear();
        self.behind.clear();
        self.replies.clear();
        for client in self.node.clients.keys().copied().collect::<Vec<_>>() {
            self.node.close(client);
        }
    }

    pub fn asks(&mut self, client: Connection, request: Request, at: Duration, protection: &Protection) {
        if !self.node.clients.contains_key(&client) {
            self.connects(client);
        }
        self.sets_clocks(at, protection);
        let is_behind = |wait: &Wait| wait.client == client;
        if self.node.clients.get(&client).is_some_and(rlock_sim::Connection::is_waiting)
            || self.waits.iter().any(is_behind)
        {
            self.behind.entry(client).or_default().push_back(request);
            return;
        }
        self.runs(client, &request, at, protection);
        self.goes_on_behind_waits(at, protection);
    }

    fn goes_on_behind_waits(&mut self, at: Duration, protection: &Protection) {
        loop {
            let is_free = |client: &Connection| {
                self.node.clients.get(client).is_some_and(|it| !it.is_waiting())
                    && self.waits.iter().all(|wait| wait.client != *client)
            };
            let ready = self.behind.iter().find(|(client, requests)| !requests.is_empty() && is_free(client));
            let Some(client) = ready.map(|(client, _)| *client) else { return };
            let Some(request) = self.behind.get_mut(&client).and_then(VecDeque::pop_front) else { return };
            self.runs(client, &request, at, protection);
        }
    }

    fn runs(&mut self, client: Connection, request: &Request, at: Duration, protection: &Protection) {
        let mut replies = Replies::default();
        if let Some(line) = self.refusal(request, at, protection) {
            replies.error(line.as_bytes());
            return self.replies.push((client, replies.bytes));
        }
        if request[0] == b"WAIT" {
            let [_, wanted, ms] = &request[..] else { panic!("WAIT has two arguments") };
            let (wanted, ms): (usize, u64) = (number(wanted), number(ms));
            let until = at + Duration::from_millis(ms);
            return self.waits.push(Wait { client, until, wanted, version: self.version });
        }
        let name = &request[0][..];
        if name == b"RLOCK.ONCE" {
            self.asked_by_once.insert(text(&request[2]));
        }
        let was_held = name == b"RLOCK.ANSWER" && self.is_held_by(&text(&request[1]), &text(&request[2]));
        self.node.begin(client);
        let done = self.node.run(client, request, &mut replies);
        let done = done.unwrap_or_else(|| panic!("not a command that clients send: {}", words(request)));
        if name == b"RLOCK.ANSWER" {
            self.check_stored(request, was_held, &replies.bytes);
        }
        if (name == b"RLOCK.RELEASE" || name == b"RLOCK.ANSWER") && replies.bytes.starts_with(b":") {
            *self.released.entry((text(&request[1]), text(&request[2]))).or_default() += 1;
        }
        if done == Done::Replied {
            self.replies.push((client, replies.bytes));
        }
        self.follows_up();
    }

    /// The error with which the server itself refuses a command before the module runs it.
    fn refusal(&self, request: &Request, at: Duration, protection: &Protection) -> Option<String> {
        if let Some(line) = self.refuses {
            return Some(line.to_owned());
        }
        let writes = Command::named(&request[0]).is_some_and(|command| command.flags.contains("write"));
        match self.follows {
            Some(master) if writes && protection.is_cluster => {
                Some(format!("MOVED 0 {}:6379", crate::world::HOSTS[master]))
            }
            Some(_) if writes => Some("READONLY You can't write against a read only replica.".to_owned()),
            None if writes && self.lacks_replicas(at, protection) => {
                Some("NOREPLICAS Not enough good replicas to write.".to_owned())
            }
            _ => None,
        }
    }

    /// Another client deletes the lock.
    pub fn deletes(&mut self, key: &str, at: Duration, protection: &Protection) {
        self.sets_clocks(at, protection);
        self.notes_taken_away(|key_of_hold| key_of_hold == key);
        self.deleted.extend(self.taken_away.iter().filter(|hold| hold.0 == key).cloned());
        self.node.host.use_database(0);
        self.node.change(key.as_bytes(), Plain::Del { key: key.as_bytes() });
        self.follows_up();
    }

    /// Another client deletes the answer under a lock.
    pub fn forgets(&mut self, lock: &str, at: Duration, protection: &Protection) {
        self.sets_clocks(at, protection);
        self.node.host.use_database(0);
        names::answer(lock.as_bytes(), |key| self.node.change(key, Plain::Del { key }));
        self.follows_up();
    }

    pub fn ends_sessions(&mut self, at: Duration, protection: &Protection) {
        self.sets_clocks(at, protection);
        let (now, engine) = (self.node.now(), &mut self.node.engine);
        for session in engine.sessions_to_be_shown(usize::MAX, now) {
            let session = engine.session_numbered(session.number);
            session.into_iter().for_each(|session| engine.end_session(&self.node.host, session));
        }
        self.follows_up();
    }

    fn notes_taken_away(&mut self, is_it: impl Fn(&str) -> bool) {
        let holds = self.holds();
        self.taken_away.extend(holds.into_iter().filter(|(key, _)| is_it(key)));
    }

    /// A replica that is in step has all of its master's data.
    pub fn takes_over_data(&mut self, data: &Keyspace, from: (usize, u64)) {
        let before = self.holds();
        let ends = |server: &Self, key: &str| server.data.get(0, key.as_bytes()).map(|entry| entry.expiry);
        let ended: BTreeMap<_, _> = before.iter().map(|(key, _)| (key.clone(), ends(self, key))).collect();
        self.data = data.clone();
        self.has_data();
        self.node.engine.note(Note::Keys);
        self.in_step = Some(from);
        let after = self.holds();
        let is_less = |hold: &(Name, Name)| !after.contains(hold) || ends(self, &hold.0) < ended[&hold.0];
        let less: Vec<_> = before.iter().filter(|hold| is_less(hold)).cloned().collect();
        self.taken_away.extend(less);
    }

    fn has_data(&mut self) {
        let mut data = self.data.clone();
        data.set_now(self.node.now());
        self.node.host.keyspace.replace(data);
    }

    /// Replies to WAIT for which enough replicas are in step.
    pub fn hears_of_replicas(&mut self, versions: &[u64], at: Duration, protection: &Protection) {
        let count = |wait: &Wait| versions.iter().filter(|version| **version >= wait.version).count();
        let (done, waits) = std::mem::take(&mut self.waits).into_iter().partition(|wait| count(wait) >= wait.wanted);
        self.waits = waits;
        for wait in Vec::from_iter::<Vec<Wait>>(done) {
            self.replies.push((wait.client, format!(":{}\r\n", count(&wait)).into_bytes()));
        }
        self.goes_on_behind_waits(at, protection);
    }

    pub fn has_waits(&self) -> bool {
        !self.waits.is_empty()
    }

    /// Starts again, with its data or without.
    pub fn restarts(&mut self, keeps: bool, at: Duration, protection: &Protection) {
        self.forgets_clients();
        if !keeps {
            self.notes_taken_away(|_| true);
            self.data = Keyspace::default();
        }
        self.node = Node::default();
        self.set(protection);
        self.health = Health::Up;
        // A new process has heard of no replica.
        self.heard_at = Duration::ZERO;
        self.sets_clocks(at, protection);
        self.has_data();
        if protection.start_begins_grace {
            self.node.engine.begin_grace();
        }
        self.version += 1;
        self.follows_up();
    }

    pub fn is_promoted(&mut self, at: Duration, protection: &Protection) {
        self.follows = None;
        // The tokens are those of its former master.
        let token = |lock| Some((lock, self.token(lock)?));
        self.tokens = crate::world::LOCKS.into_iter().filter_map(token).collect();
        self.heard_at = Duration::ZERO;
        self.sets_clocks(at, protection);
        self.node.engine.note(Note::RoleChanged { is_replica: false });
        self.follows_up();
    }

    pub fn is_demoted(&mut self, master: usize, at: Duration, protection: &Protection) {
        (self.follows, self.in_step) = (Some(master), None);
        self.sets_clocks(at, protection);
        self.node.engine.note(Note::RoleChanged { is_replica: true });
        self.follows_up();
    }

    /// It goes on after it was suspended.
    pub fn resumes(&mut self, at: Duration, protection: &Protection) {
        self.health = Health::Up;
        // What its replicas sent before they left is read only now.
        self.heard_at = at;
        self.sets_clocks(at, protection);
        if let Some(lag) = protection.lag.filter(|_| protection.standstill_is_noticed) {
            let held_back_ms = i64::try_from((lag + Duration::from_secs(1)).as_millis()).expect("a short time");
            self.node.host.held_back_until.set(self.node.now() + held_back_ms);
        }
        self.follows_up();
    }

    /// All holds: keys and holders.
    pub fn holds(&self) -> Vec<(Name, Name)> {
        holds(&self.node.host.keyspace.borrow(), self.node.now())
    }

    pub fn is_held_by(&self, key: &str, holder: &str) -> bool {
        self.holds().iter().any(|hold| hold.0 == key && hold.1 == holder)
    }

    /// Whether its data set has this hold, at a time by another server's clock.
    pub fn has_recorded(&self, key: &str, holder: &str, now: i64) -> bool {
        holds(&self.data, now).iter().any(|hold| hold.0 == key && hold.1 == holder)
    }

    pub fn waiters(&self) -> usize {
        self.node.engine.length()
    }

    /// The last fencing token of a lock.
    pub fn token(&self, key: &str) -> Option<i64> {
        self.node.host.keyspace.borrow().fencing_token(0, key.as_bytes())
    }

    /// The state that decides what it does next.
    pub fn seen(&self) -> String {
        format!("{:?} {:?} {:?} {:?} {:?}", self.health, self.follows, self.data, self.node.engine, self.behind)
    }
}

fn holds(data: &Keyspace, now: i64) -> Vec<(Name, Name)> {
    let mut holds = Vec::new();
    for (key, entry) in data.entries(0).filter(|(_, entry)| entry.expiry >= Expiry::At(now)) {
        let holders: Vec<&[u8]> = match &entry.value {
            Value::Hash(fields) => {
                let holders = fields.iter().map(|(field, _)| &field[..]).filter(|field| *field != names::MODE_FIELD);
                holders.map(|field| field.strip_suffix(names::WRITE_SUFFIX).unwrap_or(field)).collect()
            }
            Value::SortedSet(permits) => permits.from(now).map(|(_, holder)| holder).collect(),
            Value::Text(_) => continue,
        };
        holds.extend(holders.into_iter().map(|holder| (text(key), text(holder))));
    }
    holds
}

pub fn text(name: &[u8]) -> Name {
    String::from_utf8_lossy(name).into_owned()
}

pub fn words(request: &Request) -> String {
    request.iter().map(|word| String::from_utf8_lossy(word)).collect::<Vec<_>>().join(" ")
}

pub fn number<T: std::str::FromStr>(word: &[u8]) -> T {
    std::str::from_utf8(word).ok().and_then(|word| word.parse().ok()).expect("a number")
}
