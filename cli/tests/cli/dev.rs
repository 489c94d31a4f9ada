//! `rlock dev`: a server in memory, which clients and tests start, and which ends with them.

use crate::support::{Ended, bare, run};
use rlock_client::{Locks, testing};
use rlock_testing::resp::{Frame, Protocol, Received, packed};
use rlock_testing::{PATIENCE, Signal, send_signal, wait_until};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The server for as long as a test lasts, and a connection to it.
struct Dev {
    process: Child,
    address: String,
}

impl Dev {
    fn start(options: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rlock"));
        command.args(["dev", "--port", "0", "--until-eof"]).args(options);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("redis://").expect("an address").to_owned();
        Self { process, address }
    }

    fn connect(&self) -> Connection {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Connection { stream, received: Received::default(), protocol: Protocol::Resp2 }
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

struct Connection {
    stream: TcpStream,
    received: Received,
    protocol: Protocol,
}

impl Connection {
    fn send(&mut self, command: &str) {
        self.stream.write_all(&packed(&command.split(' ').collect::<Vec<_>>())).unwrap();
    }

    fn receive(&mut self) -> Frame {
        loop {
            if let Some(frame) = self.received.take(self.protocol).unwrap() {
                return frame;
            }
            assert!(self.received.read(&mut self.stream).unwrap() > 0, "the connection is closed");
        }
    }

    /// The next reply as people see it.
    fn next(&mut self) -> String {
        format!("{:?}", self.receive())
    }

    fn say(&mut self, command: &str) -> String {
        self.send(command);
        self.next()
    }

    fn text(&mut self, command: &str) -> String {
        self.send(command);
        String::from_utf8_lossy(self.receive().text()).into_owned()
    }

    fn until_one_waits(&mut self) {
        wait_until("one waits", || self.text("INFO rlock").contains("rlock_waiters:1\r"));
    }

    fn is(&mut self, command: &str, reply: &str) {
        assert_eq!(self.say(command), reply, "{command}");
    }
}

#[test]
fn it_grants_locks_and_hands_them_over() {
    let dev = Dev::start(&[]);
    let [mut ann, mut bob] = [dev.connect(), dev.connect()];
    ann.is("RLOCK.ACQUIRE a ann 60000", "nil");
    bob.send("RLOCK.ACQUIRE a bob 60000 WAIT 0 FENCED");
    ann.until_one_waits();
    ann.is("RLOCK.RELEASE a ann", "1");
    assert!(bob.next().starts_with("[nil, "), "a token");
    ann.send("RLOCK.ACQUIRE a ann 60000 WAIT 0");
    bob.until_one_waits();
    bob.is("DEL a", "1");
    assert_eq!(ann.next(), "nil", "a key that another client has deleted is free");
    bob.send("RLOCK.ACQUIRE a bob 60000 WAIT 0");
    let mut cid = dev.connect();
    cid.until_one_waits();
    drop(bob);
    wait_until("the waiter is gone with its connection", || cid.text("INFO rlock").contains("rlock_waiters:0\r"));
}

#[test]
fn leases_and_waits_end() {
    let dev = Dev::start(&[]);
    let mut ann = dev.connect();
    ann.is("RLOCK.ACQUIRE a ann 100", "nil");
    ann.is("RLOCK.ACQUIRE a bob 60000 WAIT 60000", "nil");
    let began = Instant::now();
    assert!(ann.say("RLOCK.ACQUIRE a ann 100 WAIT 50").starts_with("59"));
    assert!(began.elapsed() >= Duration::from_millis(49));
}

#[test]
fn both_versions_of_the_protocol_are_spoken() {
    let dev = Dev::start(&["--password", "secret"]);
    let mut ann = dev.connect();
    assert!(ann.say("PING").contains("NOAUTH"));
    assert!(ann.say("AUTH wrong").contains("WRONGPASS"));
    ann.protocol = Protocol::Resp3;
    let greeting = ann.say("HELLO 3 AUTH default secret SETNAME ann");
    assert!(greeting.starts_with('{') && greeting.contains("rlock"), "{greeting}");
    assert!(ann.say("RLOCK.INSPECT a").starts_with('{'));
    ann.protocol = Protocol::Resp2;
    assert!(ann.say("HELLO 2").starts_with('['));
    assert!(ann.say("RLOCK.INSPECT a").starts_with('['));
    assert!(ann.text("CLIENT INFO").contains("name=ann"));
}

#[test]
fn what_it_does_not_know_it_refuses_by_name() {
    let dev = Dev::start(&[]);
    let mut ann = dev.connect();
    for (command, named) in [("LPUSH a b", "LPUSH"), ("EVAL 1 0", "EVAL"), ("RLOCK.NONE a", "RLOCK.NONE")] {
        let reply = ann.say(command);
        assert!(reply.contains(&format!("ERR rlock dev does not know {named}")), "{reply}");
    }
    let reply = ann.say("RLOCK.ACQUIRE a");
    assert!(reply.contains("ERR wrong number of arguments for 'rlock.acquire' command"), "{reply}");
}

#[test]
fn it_ends_with_its_input_and_by_a_signal() {
    let mut dev = Dev::start(&[]);
    drop(dev.process.stdin.take());
    wait_until("it has ended", || dev.process.try_wait().unwrap().is_some_and(|status| status.success()));
    // Not by SIGINT, which a shell in the background has its programs ignore.
    let mut dev = Dev::start(&[]);
    send_signal(dev.process.id(), Signal::SIGTERM).unwrap();
    wait_until("it has ended", || dev.process.try_wait().unwrap().is_some_and(|status| status.success()));
}

#[test]
fn what_is_wrong_with_its_options_is_said_in_a_line() {
    let taken = Dev::start(&[]);
    let port = taken.address.rsplit(':').next().unwrap();
    for (options, code, says) in [
        (vec!["--port", port], 74, "cannot listen on 127.0.0.1"),
        (vec!["--set", "no-such=1"], 64, "there is no setting no-such"),
        (vec!["--set", "grace=x"], 64, "grace is a whole number"),
    ] {
        let ended: Ended = run(bare(&[vec!["dev"], options].concat()));
        assert_eq!(ended.code(), code, "{ended:?}");
        assert!(ended.errors.contains(says), "{ended:?}");
    }
}

// snippet: rust
#[tokio::test]
async fn one_ships_at_a_time() {
    let server = dev_server(); // rlock_client::testing::serve(), if `rlock` is on PATH
    let locks = Locks::connect(server.url()).await.unwrap();

    let other = locks.lock("orders:42").acquire().await.unwrap(); // another one ships it
    assert!(!ship(&locks).await.unwrap());
    other.release().await.unwrap();
    assert!(ship(&locks).await.unwrap());
}
// end

/// Returns whether it was its turn.
async fn ship(locks: &Locks) -> Result<bool, rlock_client::Error> {
    match locks.lock("orders:42").try_acquire().await? {
        Some(guard) => guard.run(async {}).await.map(|()| true),
        None => Ok(false),
    }
}

fn dev_server() -> testing::Server {
    testing::serve_by(Path::new(env!("CARGO_BIN_EXE_rlock")), &[])
}

#[test]
fn it_starts_at_once() {
    let fastest = (0..5).map(|_| {
        let began = Instant::now();
        let dev = Dev::start(&[]);
        dev.connect().is("PING", "+PONG");
        began.elapsed()
    });
    // 50 ms, and as much again for a build without optimization on a busy machine.
    let fastest = fastest.min().unwrap();
    assert!(fastest < Duration::from_millis(100), "{fastest:?}");
}
