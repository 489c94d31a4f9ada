//! Servers that send without end, before and after the login: they must not take the client's memory or time.

use rlock_client::{ErrorKind, Locks, Options};
use rlock_testing::PATIENCE;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;
use tokio::time::timeout;

/// More than what the client reads, and what sockets and buffers hold.
const SENT_MAX: usize = 32 * 1_024 * 1_024;

const LIMIT: Duration = Duration::from_millis(300);

/// The replies to the commands that name the connection.
const WELCOME: &[u8] = b"+OK\r\n+OK\r\n+OK\r\n";

#[derive(Clone, Copy)]
struct Words {
    first: &'static [u8],
    /// Again and again.
    then: &'static [u8],
    pause: Duration,
}

const fn flood(first: &'static [u8], then: &'static [u8]) -> Words {
    Words { first, then, pause: Duration::ZERO }
}

const ENDLESS: [Words; 5] = [
    flood(b"$9999999999\r\n", b"x"),
    flood(b"*9999999999\r\n", b":1\r\n"),
    flood(b"+", b"x"),
    flood(b"", b"*1\r\n"),
    Words { first: b"+", then: b"x", pause: Duration::from_millis(10) },
];

struct Hostile {
    address: String,
    sent: Arc<AtomicUsize>,
}

impl Hostile {
    fn start(is_welcoming: bool, words: Words) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("redis://{}", listener.local_addr().unwrap());
        let sent = Arc::<AtomicUsize>::default();
        let count = sent.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let count = count.clone();
                thread::spawn(move || _ = talk(client, is_welcoming, words, &count));
            }
        });
        Self { address, sent }
    }

    fn sent(&self) -> usize {
        self.sent.load(Relaxed)
    }
}

/// Sends until the client hangs up.
fn talk(mut client: TcpStream, is_welcoming: bool, words: Words, sent: &AtomicUsize) -> std::io::Result<()> {
    let mut request = [0; 4_096];
    let _ = client.read(&mut request)?;
    if is_welcoming {
        client.write_all(WELCOME)?;
        let _ = client.read(&mut request)?;
    }
    client.write_all(words.first)?;
    let piece = if words.pause.is_zero() { words.then.repeat(16_384) } else { words.then.to_vec() };
    loop {
        client.write_all(&piece)?;
        sent.fetch_add(piece.len(), Relaxed);
        thread::sleep(words.pause);
    }
}

fn options() -> Options {
    Locks::options().connect_timeout(LIMIT).answer_timeout(LIMIT).patience(LIMIT)
}

#[tokio::test]
async fn a_server_that_never_ends_its_first_answer_is_given_up() {
    for words in ENDLESS {
        let server = Hostile::start(false, words);
        let connected = timeout(PATIENCE, options().connect_to(server.address.as_str())).await;
        connected.expect("it is given up in time").expect_err("it has granted nothing");
        assert!(server.sent() < SENT_MAX, "{} bytes were read", server.sent());
    }
}

#[tokio::test]
async fn a_server_that_never_ends_an_answer_is_given_up() {
    for words in ENDLESS {
        let server = Hostile::start(true, words);
        let locks = options().connect_to(server.address.as_str()).await.unwrap();
        let tried = timeout(PATIENCE, locks.lock("a").try_acquire()).await;
        let error = tried.expect("it is given up in time").map(drop).unwrap_err();
        assert!(error.is_unavailable(), "{error}");
        assert!(server.sent() < SENT_MAX, "{} bytes were read", server.sent());
    }
}

/// There is no fenced guard without the tokens of all its locks.
#[tokio::test]
async fn a_grant_without_its_tokens_is_none() {
    let words = Words { first: b"*2\r\n$-1\r\n*1\r\n:5\r\n", then: b"", pause: LIMIT };
    let server = Hostile::start(true, words);
    let locks = options().connect_to(server.address.as_str()).await.unwrap();
    let error = locks.all(["a", "b"]).fenced().try_acquire().await.map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
}
