//! Servers that follow another.

use crate::{Server, wait_until};

impl Server {
    /// Makes this server follow the master. Returns once it has the master's data and gets its changes.
    pub fn follow(&self, master: &Server) {
        self.begin_to_follow(master);
        self.until_linked();
    }

    /// Tells this server to follow the master, and does not wait until it does.
    pub fn begin_to_follow(&self, master: &Server) {
        let reply = self.client().say(&format!("REPLICAOF 127.0.0.1 {}", master.port()));
        assert_eq!(reply.words(), ["OK"], "{reply:?}");
    }

    pub fn until_linked(&self) {
        let mut client = self.client();
        wait_until("the replica follows", || client.info("replication").find("master_link_status") == Some("up"));
    }
}
