//! A master, its replicas, and three sentinels that watch them: all real processes.

use crate::{Server, wait_until};

const SENTINELS: usize = 3;

/// What the sentinels call the master.
const NAME: &str = "locks";

/// When a sentinel takes a silent master for dead, and when it gives up on a failover.
const DOWN_AFTER_MS: u64 = 1_000;
const FAILOVER_TIMEOUT_MS: u64 = 5_000;

/// By default sentinels speak rarely, and do nothing for half a minute after a busy disk or processor has kept them
/// waiting. The tests are about neither. But a sentinel that has not heard of a new master for four publish periods
/// makes that master a replica again: on a busy machine this must not come too soon.
const PACE: &str = "SENTINEL DEBUG publish-period 500 info-period 500 tilt-trigger 20000 tilt-period 100";

pub struct Watched {
    /// The first one is the master at the beginning.
    pub servers: Vec<Server>,
    pub sentinels: Vec<Server>,
}

impl Watched {
    /// What the sentinels call the master.
    pub const NAME: &str = NAME;

    /// A master with that many replicas.
    pub fn start(replicas: usize) -> Self {
        let servers: Vec<_> = (0..=replicas).map(|_| Server::start()).collect();
        let master = &servers[0];
        for replica in &servers[1..] {
            replica.follow(master);
        }
        let sentinels = Self::sentinels_over(master.port(), replicas);
        Self { servers, sentinels }
    }

    /// Three sentinels over a master on that port, which has that many replicas, once they know all of them.
    pub fn sentinels_over(master: u16, replicas: usize) -> Vec<Server> {
        let sentinels: Vec<_> = (0..SENTINELS).map(|_| sentinel_of(master)).collect();
        wait_until_ready(&sentinels, replicas);
        sentinels
    }

    /// The port of the master, as the first sentinel knows it.
    pub fn master_port(&self) -> u16 {
        let reply = self.sentinels[0].client().say(&format!("SENTINEL GET-MASTER-ADDR-BY-NAME {NAME}"));
        reply.words()[1].parse().expect("a port")
    }
}

fn wait_until_ready(sentinels: &[Server], replicas: usize) {
    let (replicas, others) = (replicas.to_string(), (SENTINELS - 1).to_string());
    let usable = format!("OK {SENTINELS} usable");
    for sentinel in sentinels {
        let mut client = sentinel.client();
        wait_until("the sentinel sees everybody", || {
            let master = client.say(&format!("SENTINEL MASTER {NAME}"));
            let says = |pair: [&str; 2]| master.words().chunks(2).any(|it| it == pair);
            let quorum = client.say(&format!("SENTINEL CKQUORUM {NAME}"));
            says(["num-slaves", &replicas])
                && says(["num-other-sentinels", &others])
                && quorum.words().first().is_some_and(|it| it.starts_with(&usable))
        });
    }
}

fn sentinel_of(master: u16) -> Server {
    let configuration = format!(
        "sentinel monitor {NAME} 127.0.0.1 {master} 2\n\
         sentinel down-after-milliseconds {NAME} {DOWN_AFTER_MS}\n\
         sentinel failover-timeout {NAME} {FAILOVER_TIMEOUT_MS}\n"
    );
    let sentinel = Server::prepare().sentinel(&configuration).start();
    let reply = sentinel.client().say(PACE);
    assert_eq!(reply.words(), ["OK"], "{reply:?}");
    sentinel
}
