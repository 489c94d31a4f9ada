//! Where a lock is, for clients that send their commands themselves. Nodes announce the ports of their proxies, so a
//! redirection can be followed as it is.

use crate::plan::Address;
use rlock_testing::{Random, Reply};
use std::collections::HashMap;

pub struct Route {
    /// The server ports. Any may be asked first.
    ports: Vec<u16>,
    /// Where locks are, according to a cluster's nodes.
    places: HashMap<String, u16>,
    random: Random,
}

/// Another server has to be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redirection {
    pub port: u16,
    /// For this command only, and after an ASKING.
    pub asking: bool,
}

impl Route {
    pub fn to(address: &Address, line: u32, random: Random) -> Self {
        let ports = match address {
            Address::Lines { ports } | Address::Sentinels { lines: ports, .. } => {
                vec![ports[line as usize % ports.len()]]
            }
            Address::Cluster { ports } => ports.clone(),
        };
        Self { ports, places: HashMap::new(), random }
    }

    /// Stays the same until a reply redirects.
    pub fn port(&mut self, lock: &str) -> u16 {
        match self.places.get(lock) {
            Some(port) => *port,
            None => {
                let port = self.random.one_of(&self.ports);
                self.places.insert(lock.to_owned(), port);
                port
            }
        }
    }

    /// Forgets where the lock is: its server does not answer.
    pub fn doubt(&mut self, lock: &str) {
        self.places.remove(lock);
    }

    /// The node to ask next, if this reply redirects.
    pub fn redirection(&mut self, lock: &str, reply: &Reply) -> Option<Redirection> {
        let Reply::Error(line) = reply else { return None };
        let asking = line.starts_with("ASK ");
        if !asking && !line.starts_with("MOVED ") {
            return None;
        }
        let port = line.rsplit(':').next()?.trim().parse().ok()?;
        if !asking {
            self.places.insert(lock.to_owned(), port);
        }
        Some(Redirection { port, asking })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(address: &Address, line: u32) -> Route {
        Route::to(address, line, Random::from(1))
    }

    #[test]
    fn a_moved_lock_is_remembered_until_its_server_is_silent() {
        let mut route = to(&Address::Cluster { ports: vec![7_001] }, 0);
        let moved = Reply::Error("MOVED 3999 127.0.0.1:7002".to_owned());
        assert_eq!(route.redirection("lock", &moved), Some(Redirection { port: 7_002, asking: false }));
        assert_eq!((route.port("lock"), route.port("other")), (7_002, 7_001));
        route.doubt("lock");
        assert_eq!(route.port("lock"), 7_001);
    }

    #[test]
    fn a_single_redirection_is_not_remembered() {
        let mut route = to(&Address::Cluster { ports: vec![7_001] }, 0);
        let ask = Reply::Error("ASK 3999 :7003".to_owned());
        assert_eq!(route.redirection("lock", &ask), Some(Redirection { port: 7_003, asking: true }));
        assert_eq!(route.port("lock"), 7_001);
    }
}
