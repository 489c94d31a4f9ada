//! HELLO: what a server says of itself to every client, whatever its rights.

use crate::address::{Address, Way};
use crate::operators::fields::Fields;
use rlock_client::{Locks, Reply};

pub struct Greeting {
    /// `redis 7.0.15`.
    pub server: String,
    pub is_of_a_cluster: bool,
    pub is_replica: bool,
    /// The version of its rlock module, if it has one.
    pub module: Option<u64>,
}

/// The greeting of the server of this address. `None` for sets of servers, and for servers without HELLO.
pub async fn of_one(at: &Address, locks: &Locks) -> Option<Greeting> {
    if at.way() != Way::One {
        return None;
    }
    read(locks.masters().await.ok()?.first()?.command(&["HELLO"]).await.ok()?)
}

pub fn read(reply: Reply) -> Option<Greeting> {
    let mut fields = Fields::of(reply)?;
    let server = format!("{} {}", fields.text("server")?, fields.text("version")?);
    let is_of_a_cluster = fields.text("mode").as_deref() == Some("cluster");
    let is_replica = fields.text("role").is_some_and(|role| role != "master");
    let module = |mut module: Fields| Some((module.text("name")?, module.number("ver")?));
    let modules = fields.list("modules", module).unwrap_or_default();
    let module = modules.into_iter().find(|(name, _)| name == "rlock").map(|(_, version)| version);
    Some(Greeting { server, is_of_a_cluster, is_replica, module })
}

/// `100` is 0.1.0.
pub fn version(number: u64) -> String {
    format!("{}.{}.{}", number / 10_000, number / 100 % 100, number % 100)
}
