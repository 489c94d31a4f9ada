//! A replica without the module: after the storm it must have what the master has.

use rlock_testing::{Client, Reply, Server, wait_until};

pub struct Follower {
    server: Server,
}

impl Follower {
    pub fn of(master: &Server) -> Self {
        let server = Server::prepare().without_module().start();
        server.follow(master);
        Self { server }
    }

    pub fn agrees(&self, master: &mut Client, keys: &[String]) {
        let mut replica = self.server.client();
        let offset = master.info("replication").number("master_repl_offset");
        let has_it_all = || replica.info("replication").number("slave_repl_offset") >= offset;
        wait_until("the replica has it all", has_it_all);
        assert_eq!(contents(&mut replica, keys), contents(master, keys), "the replica has what the master has");
    }
}

/// The whole data set, and when each of the keys ends, which the digest does not show.
pub fn contents(client: &mut Client, keys: &[String]) -> (Reply, String, Vec<Reply>) {
    let ends = client.say_all(keys.iter().map(|key| format!("PEXPIRETIME {key}")));
    (client.say("DBSIZE"), client.digest(), ends)
}
