//! The servers that are measured: children of this program, with the module that a contender needs. Each contender has its
//! own, since a module that listens to events slows all writes.

use rlock_testing::{Client, Server, Start, wait_until};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Module {
    None,
    Rlock,
}

pub fn start(module: Module) -> Server {
    settled(prepare(module).start())
}

pub fn prepare(module: Module) -> Start {
    let start = Server::prepare().options(&["--maxclients", "15000"]);
    if module == Module::None { start.without_module() } else { start }
}

/// The module writes commands for followers until it has found out, after a while, that there are none. Measurements begin
/// after that.
pub fn settled(server: Server) -> Server {
    let mut client = server.client();
    let has_file = client.info("persistence").number("aof_enabled") == 1;
    let name = if has_file { "rlock_followed_by_replicas" } else { "rlock_followed" };
    wait_until("the module knows its followers", || client.info("rlock").find(name) != Some("1"));
    server
}

pub fn blocked_clients(client: &mut Client) -> usize {
    usize::try_from(client.info("clients").number("blocked_clients")).expect("a count")
}

pub fn used_memory(client: &mut Client) -> f64 {
    client.info("memory").number("used_memory") as f64
}
