//! The page's servers and sentinels, from its own configuration, through the loss of the master: who holds a lock that
//! had reached a replica goes on, who waits for it gets it when it is given back, and a lock that had reached nobody
//! has a second holder only when the first one has stopped believing in it.
//!
//! The times are shorter than the page's, as a test would rather not wait; how they stand to each other is the page's.

use super::PAGE;
use super::machines::{Machines, Process, block, fit_together, number, wait_long_until};
use rlock_testing::unix_ms;

/// Sentinels do nothing for half a minute after a busy machine has kept them waiting, which is not what this is about.
const PACE: &str = "SENTINEL DEBUG info-period 500 publish-period 500 tilt-trigger 20000 tilt-period 100";

/// The times of the page that are others here.
const TIMES: [(&str, &str); 2] =
    [("failover-timeout locks 60000", "failover-timeout locks 3000"), ("rlock.grace 30000", "rlock.grace 20000")];

/// As long as the grace.
const LEASE_MS: i64 = 20_000;

/// More than the sockets between a master and a replica take in.
const FLOOD: &str = "EVAL return(redis.call('set',KEYS[1],string.rep('x',16777216))) 1 flood";

fn shorter(text: &str) -> String {
    TIMES.iter().fold(text.to_owned(), |text, (page, here)| text.replace(page, here))
}

/// What a command of the page prints, asked of this sentinel.
fn asked(sentinel: &Process, words: &str) -> String {
    let command = PAGE.shown(words);
    let line = command.strip_prefix("redis-cli -p 26379 ").expect("a command to a sentinel");
    sentinel.says(line)
}

fn master(sentinel: &Process) -> String {
    asked(sentinel, "GET-MASTER-ADDR-BY-NAME")
}

fn server(machines: &Machines, which: usize) -> Process {
    let configuration = shorter(block("redis.conf")) + if which > 0 { block("replica") } else { "" };
    machines.server(machines.ports[which], &configuration, &[])
}

fn sentinels(machines: &Machines) -> Vec<Process> {
    let configuration = shorter(block("sentinel.conf"));
    let sentinels: Vec<_> = (0..3).map(|_| machines.sentinel(&configuration)).collect();
    for sentinel in &sentinels {
        assert_eq!(sentinel.says(PACE), "OK");
    }
    for sentinel in &sentinels {
        wait_long_until("the sentinels agree", || asked(sentinel, "CKQUORUM").starts_with("OK 3 usable"));
        let knows = || sentinel.says("SENTINEL REPLICAS locks").matches("master-link-status\nok").count() == 2;
        wait_long_until("they know the replicas", knows);
        assert_eq!(master(sentinel), format!("127.0.0.1\n{}", machines.ports[0]));
    }
    sentinels
}

/// The time in ms at which the lock was granted: a fencing token is never below the server's clock in µs.
fn granted_at(answer: &str) -> i64 {
    let token = answer.lines().last().and_then(|token| token.parse::<i64>().ok());
    token.unwrap_or_else(|| panic!("no token: {answer}")) / 1_000
}

#[test]
fn the_times_of_the_page_fit_together() {
    fit_together(block("redis.conf"), number(block("sentinel.conf"), "sentinel down-after-milliseconds locks"));
    let here = shorter(block("redis.conf"));
    assert_eq!(i64::try_from(number(&here, "rlock.grace")), Ok(LEASE_MS), "of a test");
}

#[test]
fn a_failover_keeps_the_locks_that_it_knows_and_waits_for_those_that_it_does_not() {
    let machines = Machines::new(3);
    let old = server(&machines, 0);
    let replicas = [server(&machines, 1), server(&machines, 2)];
    for replica in &replicas {
        wait_long_until("the replica follows", || replica.follows());
    }
    let sentinels = sentinels(&machines);

    // The servers have been started: the page says how to end that grace.
    for grace in [0, LEASE_MS] {
        assert_eq!(old.says(&format!("CONFIG SET rlock.grace {grace}")), "OK");
    }
    let acquire = |key, holder, more: &str| format!("RLOCK.ACQUIRE {key} {holder} {LEASE_MS} FENCED{more}");
    let anns = granted_at(&old.says(&acquire("known", "ann", "")));
    for replica in &replicas {
        wait_long_until("the replica has the lock", || replica.says("EXISTS known") == "1");
    }
    // What comes behind the flood stays where it is, and is lost with the master.
    replicas.iter().for_each(Process::freeze);
    assert_eq!(old.says(FLOOD), "OK");
    let cyds_until = unix_ms() + LEASE_MS;
    granted_at(&old.says(&acquire("unheard-of", "cyd", "")));
    assert_eq!(old.says(&format!("RLOCK.RENEW known ann {LEASE_MS}")), "1");
    wait_long_until("a master that nobody hears of grants nothing", || {
        old.says(&acquire("late", "dan", "")).starts_with("NOREPLICAS")
    });
    drop(old);
    replicas.iter().for_each(Process::thaw);

    let is_master = |replica: &&Process| replica.says("ROLE").starts_with("master");
    wait_long_until("a replica is promoted", || replicas.iter().any(|replica| is_master(&replica)));
    let (new, other) =
        if is_master(&&replicas[0]) { (&replicas[0], &replicas[1]) } else { (&replicas[1], &replicas[0]) };
    assert_eq!((new.says("EXISTS known").as_str(), new.says("EXISTS unheard-of").as_str()), ("1", "0"));
    wait_long_until("the other one follows it", || other.says("ROLE").contains(&new.port.to_string()));
    for sentinel in &sentinels {
        wait_long_until("the sentinels know it", || master(sentinel) == format!("127.0.0.1\n{}", new.port));
    }
    let renewed = || new.says(&format!("RLOCK.RENEW known ann {LEASE_MS}"));
    wait_long_until("it can write, and ann renews", || renewed() == "1");
    assert!(!new.says("INFO rlock").contains("rlock_grace_left_ms:0"));
    let mut bob = new.asked(&acquire("known", "bob", " WAIT 0"));
    let mut dora = new.asked(&acquire("unheard-of", "dora", " WAIT 0"));
    wait_long_until("both wait", || new.says("INFO rlock").contains("rlock_waiters:2"));
    wait_long_until("the grace is over", || {
        assert_eq!(renewed(), "1", "ann goes on");
        !dora.is_waiting()
    });
    let doras = granted_at(&dora.answer());
    assert!(doras >= cyds_until, "{} ms before cyd had stopped", cyds_until - doras);
    assert!(bob.is_waiting(), "it is still ann's");

    let back = server(&machines, 0);
    wait_long_until("the old master follows", || {
        assert_eq!(renewed(), "1", "ann goes on");
        back.follows()
    });
    let released = unix_ms();
    assert_eq!(new.says("RLOCK.RELEASE known ann"), "1");
    let bobs = granted_at(&bob.answer());
    assert!(anns < released && released <= bobs, "{anns} {released} {bobs}");
    assert_eq!(new.says("HKEYS known"), "bob");
}
