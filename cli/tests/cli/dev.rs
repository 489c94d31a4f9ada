//! `rlock dev`: a server in memory, which clients and tests start, and which ends with them.

use crate::support::{Ended, bare, run};
use rlock_client::{Locks, testing};
use rlock_testing::resp::{Frame, Protocol, Received, packed};
use rlock_testing::{Client, PATIENCE, Server, Signal, send_signal, wait_until};
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

    /// The next reply as readable text.
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
    // Not SIGINT: a shell makes its background programs ignore it.
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
        // The settings are checked first.
        (vec!["--port", port, "--set", "grace=x"], 64, "grace is a whole number"),
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
    let took = |start: fn()| {
        let began = Instant::now();
        start();
        began.elapsed()
    };
    let (mut fastest, mut of_any_process) = (Duration::MAX, Duration::MAX);
    for _ in 0..5 {
        fastest = fastest.min(took(|| Dev::start(&[]).connect().is("PING", "+PONG")));
        of_any_process = of_any_process.min(took(|| assert_eq!(run(bare(&["--version"])).code(), 0)));
    }
    // On a quiet machine both take equally long.
    assert!(fastest < 8 * of_any_process, "{fastest:?} for {of_any_process:?}");
}

/// Each command and each form of a reply, on both servers in both versions. `>` reads the reply of a client that waits.
const CONVERSATION: [&str; 62] = [
    "a ACQUIRE l h 60000",
    "a ACQUIRE l h 60000 FENCED",
    "a ACQUIRE l other 60000",
    "a ACQUIRE l other 60000 FENCED",
    "a RENEW l h 60000",
    "a RENEW l other 60000",
    "a INSPECT l",
    "a RELEASE l h",
    "a RELEASE l h ALL",
    "a RELEASE l h",
    "a INSPECT l",
    "a RACQUIRE rw h 60000",
    "a RACQUIRE rw i 60000",
    "a WACQUIRE rw i 60000",
    "a INSPECT rw COUNT 1",
    "a RENEW rw h 50000",
    "a ACQUIRE rw h 60000",
    "a RELEASE rw h READ",
    "a RELEASE rw i",
    "a PACQUIRE p h 60000 LIMIT 1",
    "a PACQUIRE p i 60000 LIMIT 1",
    "a PACQUIRE p i 60000",
    "a INSPECT p",
    "a RELEASE p h",
    "a MACQUIRE 2 m n h 60000 FENCED",
    "a MACQUIRE 2 n o i 60000",
    "a MACQUIRE 2 n o i 60000 FENCED",
    "a RELEASE m h",
    "a BREAK n",
    "a BREAK n",
    "a EVENTS session-of-sixteen ACK 0",
    "a ACQUIRE l h 60000",
    "a ACQUIRE l i 60000 WAIT 0 SESSION session-of-sixteen 1",
    "a ACQUIRE l k 60000 WAIT 0 MAX 1 SESSION session-of-sixteen 3",
    "a ACQUIRE l j 60000 WAIT 1 SESSION session-of-sixteen 2",
    "a ACQUIRE l i 60000 WAIT 0 SESSION session-of-fifteen- 1",
    "a EVENTS session-of-sixteen WAIT 10000",
    "a QUEUES",
    "a INSPECT l",
    "a SESSIONS",
    "a CANCEL session-of-sixteen 9",
    "a RELEASE l h",
    "a EVENTS session-of-sixteen ACK 1",
    "a CANCEL session-of-sixteen 1 2",
    "a EVENTS session-of-sixteen ACK 7",
    "a CANCEL session-of-sixteen",
    "a CANCEL session-of-sixteen",
    "b ACQUIRE l b 60000 WAIT 0 FENCED",
    "a RELEASE l i",
    "b >",
    "b ACQUIRE l c 60000 WAIT 1",
    "b >",
    "b MACQUIRE 2 l m c 60000 WAIT 0",
    "a RELEASE l b",
    "b >",
    "a ACQUIRE l",
    "a ACQUIRE l h lease",
    "a ACQUIRE l h 0",
    "a ACQUIRE l h 60000 MAX 1",
    "a ACQUIRE l h 60000 WAIT",
    "a RELEASE l h WRONG",
    "a EVENTS short",
];

/// A reply without times, addresses, and numbers of clients and sessions.
fn without_accidents(reply: &str) -> String {
    let reply = reply.replace("\": ", "\", ");
    let mut words: Vec<_> = reply.split(", ").collect();
    for place in 1..words.len() {
        let is_accidental = |name: &&str| words[place - 1].ends_with(name);
        if ["address\"", "client-id\"", "\"id\"", "-ms\"", "\"bytes\""].iter().any(is_accidental) {
            words[place] = "some";
        }
    }
    let is_long = |word: &str| word.chars().filter(char::is_ascii_digit).count() > 1;
    words.into_iter().map(|word| if is_long(word) { "some" } else { word }).collect::<Vec<_>>().join(", ")
}

/// Sends the conversation on two connections to a server, and returns the replies.
fn conversation(mut send: impl FnMut(usize, &str), mut next: impl FnMut(usize) -> String) -> Vec<String> {
    let mut replies = Vec::new();
    for line in CONVERSATION {
        let (who, command) = line.split_once(' ').unwrap();
        let place = usize::from(who == "b");
        let waits = place == 1 && command != ">";
        if command != ">" {
            send(place, &format!("RLOCK.{command}"));
        }
        if !waits {
            replies.push(format!("{line}: {}", without_accidents(&next(place))));
        }
    }
    replies
}

#[test]
fn it_replies_as_the_module_does() {
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        let hello = if protocol == Protocol::Resp3 { "HELLO 3" } else { "HELLO 2" };
        // Counted tokens, so that both servers have the same ones.
        let dev = Dev::start(&["--set", "tokens=count"]);
        let connections = std::cell::RefCell::new([dev.connect(), dev.connect()]);
        for connection in connections.borrow_mut().iter_mut() {
            connection.protocol = protocol;
            connection.say(hello);
        }
        let of_dev = conversation(
            |place, command| {
                let [a, b] = &mut *connections.borrow_mut();
                if place == 0 {
                    a.send(command)
                } else {
                    b.send(command)
                }
                if place == 1 && command.contains("WAIT 0") {
                    a.until_one_waits();
                }
            },
            |place| connections.borrow_mut()[place].next(),
        );
        let server = Server::prepare().counted_tokens().start();
        let clients = std::cell::RefCell::new([server.client(), server.client()]);
        clients.borrow_mut().iter_mut().for_each(|client: &mut Client| _ = client.say(hello));
        let of_module = conversation(
            |place, command| {
                let [a, b] = &mut *clients.borrow_mut();
                let words: Vec<_> = command.split(' ').collect();
                if place == 0 {
                    a.send(&words)
                } else {
                    b.send(&words)
                }
                if place == 1 && command.contains("WAIT 0") {
                    wait_until("one waits", || a.figure("waiters") == 1);
                }
            },
            |place| clients.borrow_mut()[place].receive_in(protocol),
        );
        for (dev, module) in of_dev.iter().zip(&of_module) {
            assert_eq!(dev, module);
        }
    }
}
