//! Finds the members of a setup from its address: masters from the sentinels or the cluster, and replicas from the
//! servers that know them. Then visits all of them at the same time.

use super::reading::{Lines, Node, Reading, Sentinel};
use super::visit::{Visitor, ask, text};
use crate::address::{self, Address, Way};
use crate::arguments::Server;
use crate::failure::Failure;
use rlock_client::Locks;
use std::sync::Arc;
use tokio::task::JoinSet;

/// A server with data, before it is visited.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    address: String,
    follows: Option<String>,
    is_down: bool,
}

pub async fn read(server: &Server) -> Result<(Address, Locks, Reading), Failure> {
    let (at, certificates) = address::read(server)?;
    let visitor = Arc::new(Visitor::new(certificates, server.connect_timeout));
    let locks = visitor.open(&at).await.map_err(|error| Failure::of_the_server(&at, &error))?;
    let masters = locks.masters().await.map_err(|error| Failure::of_the_server(&at, &error))?;
    let masters: Vec<_> = masters.iter().map(|master| master.address().to_owned()).collect();
    let mut reading = Reading {
        way: at.way(),
        scheme: if at.has_tls() { "rediss" } else { "redis" },
        user: at.user().unwrap_or("default").to_owned(),
        nodes: Vec::new(),
        sentinels: Vec::new(),
        cluster: Vec::new(),
    };
    let known = match at.way() {
        Way::Cluster => {
            let nodes = nodes_of_the_cluster(&visitor, &at, &masters).await;
            reading.cluster = views(&visitor, &at, &nodes).await;
            nodes
        }
        Way::One | Way::Sentinels => {
            let (sentinels, watched) = sentinels(&visitor, &at).await;
            reading.sentinels = sentinels;
            let master = masters.first().map_or_else(|| at.to_string(), Clone::clone);
            with_replicas(&visitor, &at, &master, watched).await
        }
    };
    reading.nodes = visited(&visitor, &at, known).await;
    Ok((at, locks, reading))
}

async fn visited(visitor: &Arc<Visitor>, at: &Address, known: Vec<Known>) -> Vec<Node> {
    let mut visits = JoinSet::new();
    for (place, Known { address, follows, is_down }) in known.into_iter().enumerate() {
        let (visitor, node) = (visitor.clone(), at.of_node(&address));
        visits.spawn(async move { (place, Node { seen: visitor.node(&node).await, address, follows, is_down }) });
    }
    let mut nodes = visits.join_all().await;
    nodes.sort_by_key(|(place, _)| *place);
    nodes.into_iter().map(|(_, node)| node).collect()
}

/// The sentinels of the address, and the replicas that any of them knows.
async fn sentinels(visitor: &Visitor, at: &Address) -> (Vec<Sentinel>, Vec<(String, bool)>) {
    let (mut sentinels, mut replicas) = (Vec::new(), Vec::<(String, bool)>::new());
    let Some((master, addresses)) = at.sentinels() else { return (sentinels, replicas) };
    for address in addresses {
        let (sentinel, known) = visitor.sentinel(&address, master).await;
        sentinels.push(sentinel);
        let is_new = |replica: &(String, bool)| replicas.iter().all(|(known, _)| *known != replica.0);
        let new: Vec<_> = known.into_iter().filter(is_new).collect();
        replicas.extend(new);
    }
    (sentinels, replicas)
}

/// A master, and its replicas by its own report or the sentinels'; or a replica and its master.
async fn with_replicas(visitor: &Visitor, at: &Address, master: &str, watched: Vec<(String, bool)>) -> Vec<Known> {
    let info = match visitor.open(&at.of_node(master)).await {
        Ok(server) => ask(&server, &["INFO", "replication"]).await.ok(),
        Err(_) => None,
    };
    let info = Lines::of_info(&info.and_then(|reply| text(&reply)).unwrap_or_default());
    let follows = match (info.text("master_host"), info.text("master_port")) {
        (Some(host), Some(port)) => Some(format!("{host}:{port}")),
        _ => None,
    };
    let mut known = vec![Known { address: master.to_owned(), follows, is_down: false }];
    let linked = info.0.iter().filter(|(name, _)| is_a_replica(name)).filter_map(|(_, line)| replica(line));
    let linked = linked.map(|address| (address, false));
    for (address, is_down) in watched.into_iter().chain(linked) {
        if known.iter().all(|it| it.address != address) {
            known.push(Known { address, follows: Some(master.to_owned()), is_down });
        }
    }
    known
}

/// `slave0`, and not `slave_repl_offset`.
pub fn is_a_replica(name: &str) -> bool {
    name.strip_prefix("slave").is_some_and(|number| number.parse::<u32>().is_ok())
}

/// `ip=10.0.0.2,port=6379,state=online,offset=1,lag=0`.
pub fn replica(line: &str) -> Option<String> {
    let part = |name| line.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
    Some(format!("{}:{}", part("ip")?, part("port")?))
}

/// From the first master that reports them. If no master does, only the masters are known.
async fn nodes_of_the_cluster(visitor: &Visitor, at: &Address, masters: &[String]) -> Vec<Known> {
    for master in masters {
        if let Ok(server) = visitor.open(&at.of_node(master)).await {
            let reply = ask(&server, &["CLUSTER", "NODES"]).await.ok().and_then(|reply| text(&reply));
            if let Some(reply) = reply {
                return nodes_in(&reply, master);
            }
        }
    }
    masters.iter().map(|address| Known { address: address.clone(), follows: None, is_down: false }).collect()
}

/// The nodes that have slots, or follow one with slots: `id ip:port@bus,host flags master ping pong epoch link slot …`.
/// A node that has not met another one does not know its own address: then `asked` is its address.
fn nodes_in(reply: &str, asked: &str) -> Vec<Known> {
    let lines: Vec<Vec<&str>> = reply.lines().map(|line| line.split(' ').collect()).collect();
    let lines = lines.into_iter().filter(|words| words.len() >= 8 && !words[2].contains("noaddr"));
    let lines: Vec<_> = lines.filter(|words| !words[2].contains("handshake")).collect();
    let address = |words: &Vec<&str>| match words[1].split('@').next().unwrap_or_default() {
        address if address.starts_with(':') && words[2].contains("myself") => asked.to_owned(),
        address => address.to_owned(),
    };
    let node = |words: &Vec<&str>| {
        let follows = lines.iter().find(|other| other[0] == words[3]);
        let has_part = follows.is_some() || words.len() > 8;
        let is_down = words[2].contains("fail");
        has_part.then(|| Known { address: address(words), follows: follows.map(address), is_down })
    };
    lines.iter().filter_map(node).collect()
}

/// Each node's view of the cluster.
async fn views(visitor: &Visitor, at: &Address, nodes: &[Known]) -> Vec<(String, Result<Lines, String>)> {
    let mut views = Vec::new();
    for Known { address, .. } in nodes.iter().filter(|node| !node.is_down) {
        // Another check reports nodes that do not reply.
        if let Ok(server) = visitor.open(&at.of_node(address)).await {
            views.push((address.clone(), view(&server).await));
        }
    }
    views
}

async fn view(server: &Locks) -> Result<Lines, String> {
    let reply = ask(server, &["CLUSTER", "INFO"]).await?;
    text(&reply).map(|reply| Lines::of_info(&reply)).ok_or_else(|| "unexpected reply to CLUSTER INFO".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_of_a_cluster_are_those_with_a_part_in_it() {
        let reply = "\
            a 10.0.0.1:6379@16379,one myself,master - 0 0 1 connected 0-5460\n\
            b 10.0.0.2:6379@16379 slave,fail a 0 0 1 connected\n\
            c 10.0.0.3:6379@16379 master - 0 0 2 connected\n\
            d :0@0 master,noaddr - 0 0 3 disconnected 5461-16383\n";
        let known = |address: &str, follows: Option<&str>, is_down| Known {
            address: address.to_owned(),
            follows: follows.map(str::to_owned),
            is_down,
        };
        let expected = [known("10.0.0.1:6379", None, false), known("10.0.0.2:6379", Some("10.0.0.1:6379"), true)];
        assert_eq!(nodes_in(reply, "10.0.0.1:6379"), expected);
        let alone = "a :6379@16379 myself,master - 0 0 1 connected 0-16383\n";
        assert_eq!(nodes_in(alone, "10.0.0.9:6379"), [known("10.0.0.9:6379", None, false)]);
    }
}
