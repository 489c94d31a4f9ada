//! A server that refuses a connection says why, in one line, and closes it. An operator has to see that line.

use crate::support::url;
use rlock_client::{Error, Locks};
use rlock_testing::Server;
use std::io::Write;
use std::net::TcpListener;
use std::time::Duration;
use tokio::time::timeout;

const LIMIT: Duration = Duration::from_millis(300);

/// Far longer than anything here may take.
const LONG: Duration = Duration::from_secs(10);

const FULL: &str = "max number of clients reached";

fn expect_words(error: &Error, words: &str) {
    assert!(error.to_string().contains(words), "{error} should say {words}");
    assert!(error.reason().contains(words), "{} should say {words}", error.reason());
}

/// When the client connects, and when others have taken its connections after it lost them.
#[tokio::test]
async fn a_server_that_takes_no_more_clients_is_quoted() {
    let server = Server::start();
    let mut client = server.client();
    for address in [format!("redis://127.0.0.1:{}", server.port()), url(&server)] {
        client.say("CONFIG SET maxclients 100");
        let locks = Locks::options().patience(LIMIT).connect_to(address.as_str()).await.unwrap();
        let lock = locks.lock("a");
        client.say("CONFIG SET maxclients 1");
        client.say("CLIENT KILL TYPE normal SKIPME yes");
        expect_words(&lock.try_acquire().await.unwrap_err(), FULL);
        expect_words(&lock.acquire_timeout(LIMIT).await.unwrap_err(), FULL);
        expect_words(&timeout(LONG, lock.acquire()).await.expect("it is reported at last").unwrap_err(), FULL);
        expect_words(&Locks::connect(address).await.unwrap_err(), FULL);
    }
    // There is room for one connection, and a wait needs another.
    client.say("RLOCK.ACQUIRE a other 600000");
    client.say("CONFIG SET maxclients 2");
    let locks = Locks::options().patience(LIMIT).connect_to(url(&server)).await.unwrap();
    let error = timeout(LONG, locks.lock("a").acquire()).await.expect("it is reported at last").unwrap_err();
    expect_words(&error, FULL);
}

/// Sends that line to each client that connects, and closes the connection without reading.
fn refusing(line: &'static str) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = format!("redis://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let _ = stream.write_all(line.as_bytes());
        }
    });
    address
}

#[tokio::test]
async fn whatever_a_server_says_is_quoted() {
    let lines = [
        ("-DENIED Redis is running in protected mode because protected mode is enabled\r\n", "protected mode"),
        ("-ERR max number of clients + cluster connections reached\r\n", "cluster connections reached"),
        ("-LOADING Redis is loading the dataset in memory\r\n", "loading the dataset"),
    ];
    for (line, words) in lines {
        let error = Locks::connect(refusing(line)).await.unwrap_err();
        expect_words(&error, words);
    }
}
