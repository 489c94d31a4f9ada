//! Finds out where locks are, for a client of a cluster or of sentinels: when the engine needs to know, and when a
//! sentinel publishes a change. It runs in the client's own thread for as long as the client exists.
//!
//! **A master may not know for seconds that it was replaced** (after `SENTINEL FAILOVER`, or if it was cut off), and keeps
//! granting and renewing. The sentinels know, and notify their subscribers at once. So the client asks all of them, and
//! the newest answer counts, not the first.

use super::dial::{Conversation, Dialer};
use super::thread::Thread;
use crate::mutex::lock;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use rlock_client_core::fault::{Fault, What};
use rlock_client_core::{Access, Address};
use rlock_client_core::{Learnt, NO_OWNER, Reply, elsewhere};
use std::collections::HashMap;
use std::future::pending;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout, timeout_at};

/// How many seeds, and how many other nodes, are asked at the same time.
pub(crate) const ASKED_AT_ONCE: usize = 8;

/// A sentinel publishes these when it has promoted a replica, and when it learns about another master. In RESP3 they
/// come between replies.
const NEWS: [&[u8]; 3] = [b"SUBSCRIBE", b"+promoted-slave", b"+switch-master"];

/// How often the sentinels are asked without news: a sentinel may have restarted, or refuse subscriptions.
pub(crate) const LOOK: Duration = Duration::from_secs(5);

/// How long the others may take after the first reply: they do not all learn about a new master at the same time.
const OTHERS_MAX: Duration = Duration::from_millis(100);

#[derive(Clone)]
pub(crate) struct Scout {
    pub dialer: Dialer,
    pub thread: Thread,
    /// For the reply to a request.
    pub limit: Duration,
}

/// A master that sentinels watch.
pub(crate) struct Sentinels {
    pub addresses: Vec<Address>,
    pub name: String,
    pub access: Access,
    /// The connection to each sentinel, while it lasts.
    talks: Vec<Mutex<Option<Conversation>>>,
    /// The last master that they named.
    known: std::sync::Mutex<Option<Address>>,
}

impl Scout {
    async fn ask(&self, talk: &mut Conversation, command: &[&[u8]]) -> Result<Reply, Fault> {
        let asked = async {
            let mut answer = talk.ask(command).await?;
            while is_news(&answer) {
                talk.has_news |= !is_confirmation(&answer);
                answer = talk.hear().await?;
            }
            Ok(answer)
        };
        let answer = timeout(self.limit, asked).await.unwrap_or_else(|_| Err(Fault::timed_out()))?;
        if let Reply::Error(line) = answer { Err(Fault::of_answer(line)) } else { Ok(answer) }
    }

    /// The slots, as the node with the newest view has them.
    pub(crate) async fn slots(&self, nodes: Vec<Arc<Address>>) -> Result<Learnt, Fault> {
        self.newest(nodes.into_iter().map(|node| self.slots_by(node))).await.map(Learnt::Slots)
    }

    async fn slots_by(&self, node: Arc<Address>) -> Result<(View, Vec<(u16, u16, Address)>), Fault> {
        let mut talk = self.dialer.open(&node, &self.thread).await?;
        // Asked first, so that no slots count as newer than they are. Without the right to ask, the slots have to do.
        let view = match self.ask(&mut talk, &[b"CLUSTER", b"INFO"]).await {
            Err(fault) if fault.what == What::Silent => return Err(fault),
            info => View::of(info.ok().as_ref().and_then(Reply::text).unwrap_or_default()),
        };
        let answer = self.ask(&mut talk, &[b"CLUSTER", b"SLOTS"]).await?;
        let Reply::List(ranges) = answer else { return Err(no_owner()) };
        let slots: Vec<_> = ranges.iter().filter_map(|range| slot_range(range, &node)).collect();
        // A node that was just forgotten, or has not met another one, owns no slots and knows no other node.
        if slots.is_empty() { Err(no_owner()) } else { Ok((view, slots)) }
    }

    /// The newest of the answers that come until shortly after the first: the first may be that of a server that was cut off
    /// from the others and replaced. The limit is for two servers: one may be slow, and so may the next one that it names.
    async fn newest<K: Ord, T>(
        &self,
        asked: impl Iterator<Item = impl Future<Output = Result<(K, T), Fault>>>,
    ) -> Result<T, Fault> {
        let mut until = Instant::now() + (self.dialer.limit + self.limit).saturating_mul(2);
        let mut asked: FuturesUnordered<_> = asked.collect();
        let (mut newest, mut fault) = (None, Fault::timed_out());
        while let Ok(Some(answer)) = timeout_at(until, asked.next()).await {
            match answer {
                Ok(one) => {
                    until = until.min(Instant::now() + OTHERS_MAX);
                    newest = newest.into_iter().chain([one]).max_by(|(one, _), (other, _)| one.cmp(other));
                }
                Err(why) => fault = more_telling(fault, why),
            }
        }
        newest.map(|(_, answer)| answer).ok_or(unsent(fault))
    }
}

/// How new a node's view of its cluster is. A newer view is greater.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct View {
    /// Whether the node says that the cluster works. A master that is cut off from most others says no, and still names itself.
    works: bool,
    /// Grows with each failover, and with each slot that has moved.
    epoch: u64,
}

impl View {
    fn of(info: &str) -> Self {
        let line = |name| info.lines().find_map(|line| line.strip_prefix(name));
        let epoch = line("cluster_current_epoch:").and_then(|epoch| epoch.trim().parse().ok());
        Self { works: line("cluster_state:ok").is_some(), epoch: epoch.unwrap_or_default() }
    }
}

/// `[first, last, [host, port, …], replicas …]`. A node that does not know its own name leaves the host empty.
fn slot_range(range: &Reply, seen_by: &Address) -> Option<(u16, u16, Address)> {
    let Reply::List(parts) = range else { return None };
    let [first, last, Reply::List(master), ..] = &parts[..] else { return None };
    let [host, port, ..] = &master[..] else { return None };
    let place = format!("{}:{}", host.text().unwrap_or_default(), port.number::<u16>()?);
    Some((first.number()?, last.number()?, elsewhere(seen_by, &place)?))
}

fn no_owner() -> Fault {
    Fault::nowhere(NO_OWNER)
}

fn no_sentinel() -> Fault {
    Fault::of_set_up("is no sentinel: give its own address, or that of a sentinel")
}

/// The more useful of two faults, if no server knows: a temporary fault first, because a retry may help.
fn more_telling(one: Fault, other: Fault) -> Fault {
    let rank = |fault: &Fault| match fault.what {
        What::NotNow => 2,
        What::Refused => 1,
        _ => 0,
    };
    if rank(&other) >= rank(&one) { other } else { one }
}

/// The request that needs the owner was not sent.
fn unsent(fault: Fault) -> Fault {
    if fault.what == What::Silent { Fault { what: What::Unreachable, ..fault } } else { fault }
}

impl Sentinels {
    pub(crate) fn new(addresses: Vec<Address>, name: String, access: Access) -> Self {
        let talks = addresses.iter().map(|_| Mutex::default()).collect();
        Self { addresses, name, access, talks, known: std::sync::Mutex::default() }
    }

    /// Asks all at the same time, since any of them may be cut off from the others. Of the masters that they name, and
    /// that confirm being one, the newest counts.
    pub(crate) async fn master(&self, scout: &Scout) -> Result<Learnt, Fault> {
        let sentinels = self.addresses.iter().zip(&self.talks);
        let master = scout.newest(sentinels.map(|(at, talk)| self.master_by(scout, at, talk))).await?;
        *lock(&self.known) = Some(master.clone());
        Ok(Learnt::Master(master))
    }

    /// The master that this sentinel names, and the number of failovers before it.
    async fn master_by(
        &self,
        scout: &Scout,
        sentinel: &Address,
        talk: &Mutex<Option<Conversation>>,
    ) -> Result<(u64, Address), Fault> {
        let mut talk = talk.lock().await;
        let mut present = match talk.take() {
            Some(present) => present,
            None => begin(scout, sentinel).await?,
        };
        let is_silent = |fault: &Fault| fault.what == What::Silent;
        let mut named = self.named_by(scout, sentinel, &mut present).await;
        if named.as_ref().is_err_and(is_silent) {
            // The connection broke since its last use.
            present = begin(scout, sentinel).await?;
            named = self.named_by(scout, sentinel, &mut present).await;
        }
        if !named.as_ref().is_err_and(is_silent) {
            // Kept even if the master is down: the sentinel publishes the next master on this connection.
            *talk = Some(present);
        }
        let named = named?;
        let is_known = lock(&self.known).as_ref() == Some(&named.1);
        if is_known { Ok(named) } else { self.confirmed(scout, named).await }
    }

    async fn named_by(&self, scout: &Scout, at: &Address, talk: &mut Conversation) -> Result<(u64, Address), Fault> {
        let named = self.named(scout, at, talk).await;
        named.map_err(|why| if why.what == What::NotNow { why } else { why.at(|| at.place.to_string().into()) })
    }

    async fn named(&self, scout: &Scout, at: &Address, talk: &mut Conversation) -> Result<(u64, Address), Fault> {
        let masters = match scout.ask(talk, &[b"SENTINEL", b"MASTERS"]).await {
            Ok(Reply::List(masters)) => masters,
            Err(fault) if !fault.is_unknown_command() => return Err(fault),
            _ => return Err(no_sentinel()),
        };
        let master = masters.iter().map(fields).find(|master| master.get("name") == Some(&self.name.as_str()));
        let master = master.ok_or_else(|| {
            let list = "redis-cli SENTINEL MASTERS lists those that it knows";
            Fault::of_set_up(format!("is a sentinel that knows no master {}: {list}", self.name))
        })?;
        let epoch = master.get("config-epoch").and_then(|epoch| epoch.parse().ok()).unwrap_or_default();
        let address = scout.ask(talk, &[b"SENTINEL", b"GET-MASTER-ADDR-BY-NAME", self.name.as_bytes()]).await?;
        let Reply::List(address) = address else { return Err(no_sentinel()) };
        let [host, port] = &address[..] else { return Err(no_sentinel()) };
        let named = format!("{}:{}", host.text().unwrap_or_default(), port.text().unwrap_or_default());
        // A sentinel lists the former master until all other replicas follow the one that it has promoted.
        let [host, port] = ["ip", "port"].map(|name| master.get(name).copied().unwrap_or_default());
        let listed = format!("{host}:{port}");
        if named == listed && !is_up(&master) {
            return Err(self.down(&listed, "is down, by their word"));
        }
        let place = elsewhere(at, &named).ok_or_else(no_sentinel)?.place;
        Ok((epoch, Address::new(place, self.access.clone())))
    }

    /// Asks the server itself.
    async fn confirmed(&self, scout: &Scout, named: (u64, Address)) -> Result<(u64, Address), Fault> {
        let place = named.1.place.to_string();
        let down = |fault: Fault| match fault.what {
            What::Unreachable | What::Silent => self.down(&place, &format!("does not answer ({})", fault.cause)),
            _ => fault.at(|| place.as_str().into()),
        };
        let mut talk = scout.dialer.open(&named.1, &scout.thread).await.map_err(down)?;
        match scout.ask(&mut talk, &[b"ROLE"]).await.map_err(down) {
            Ok(Reply::List(role)) if role.first().and_then(Reply::text) == Some("master") => Ok(named),
            // Without the right to ask, the sentinel's reply has to do.
            Err(fault) if fault.cause.code() == Some("NOPERM") => Ok(named),
            answer => answer.and(Err(self.down(&place, "says that it is a replica"))),
        }
    }

    /// The fault if the master that the sentinels know is down, which is temporary.
    fn down(&self, place: &str, how: &str) -> Fault {
        let advice = "start it, or wait for the failover; redis-cli SENTINEL CKQUORUM tells whether one comes";
        Fault::nowhere(format!("the sentinels know the master {} at {place}, and it {how}: {advice}", self.name))
    }

    /// Resolves when one of the sentinels has news, or is gone. Cancel safe.
    pub(crate) async fn news(&self) {
        let mut listened: FuturesUnordered<_> = self.talks.iter().map(listen).collect();
        listened.next().await;
    }
}

fn is_up(master: &HashMap<&str, &str>) -> bool {
    let flags = master.get("flags").copied().unwrap_or_default();
    let has = |flag: &str| flags.split(',').any(|it| it == flag);
    has("master") && !has("s_down") && !has("o_down")
}

async fn begin(scout: &Scout, sentinel: &Address) -> Result<Conversation, Fault> {
    let mut talk = scout.dialer.open(sentinel, &scout.thread).await?;
    // A sentinel that does not support RESP3, or refuses subscriptions, is only asked.
    if scout.ask(&mut talk, &[b"HELLO", b"3"]).await.is_ok() {
        talk.say(&NEWS);
    }
    Ok(talk)
}

async fn listen(talk: &Mutex<Option<Conversation>>) {
    let mut talk = talk.lock().await;
    loop {
        match &mut *talk {
            None => pending().await,
            Some(present) if present.has_news => {
                present.has_news = false;
                return;
            }
            Some(present) => match present.hear().await {
                Ok(heard) if is_news(&heard) && !is_confirmation(&heard) => return,
                Ok(_) => {}
                Err(_) => {
                    *talk = None;
                    return;
                }
            },
        }
    }
}

fn first_word(reply: &Reply) -> Option<&str> {
    if let Reply::List(parts) = reply { parts.first()?.text() } else { None }
}

/// Whether it is a published message rather than a reply.
fn is_news(reply: &Reply) -> bool {
    first_word(reply) == Some("message") || is_confirmation(reply)
}

fn is_confirmation(reply: &Reply) -> bool {
    first_word(reply) == Some("subscribe")
}

fn fields(list: &Reply) -> HashMap<&str, &str> {
    let Reply::List(list) = list else { return HashMap::new() };
    list.chunks_exact(2).filter_map(|pair| Some((pair[0].text()?, pair[1].text()?))).collect()
}
