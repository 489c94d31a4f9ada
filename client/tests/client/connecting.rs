//! The ways to a server: TCP, a unix socket, a user and a database.

use crate::support::{exists, url};
use rlock_client::{Access, Address, Error, ErrorKind, Locks, Place};
use rlock_testing::Server;
use std::io::Write;
use std::net::TcpListener;
use std::time::Duration;

async fn works(locks: &Locks) {
    locks.lock("orders:42").acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn by_tcp_and_by_a_unix_socket() {
    let server = Server::start();
    let tcp = format!("redis://127.0.0.1:{}", server.port());
    for address in [&tcp, &format!("{tcp}/?protocol=resp3"), &url(&server)] {
        works(&Locks::connect(address).await.unwrap()).await;
    }
    let place = Place::Tcp { host: "localhost".to_owned(), port: server.port() };
    works(&Locks::connect(Address::new(place, Access::default())).await.unwrap()).await;
}

#[tokio::test]
async fn as_a_user_and_in_a_database() {
    let server = Server::start();
    let mut client = server.client();
    client.say("ACL SETUSER app on >secret ~* +@all");
    let locks = Locks::connect(format!("redis://app:secret@127.0.0.1:{}/3", server.port())).await.unwrap();
    let guard = locks.lock("orders:42").acquire().await.unwrap();
    assert!(!exists(&mut client, "orders:42"));
    client.say("SELECT 3");
    assert!(exists(&mut client, "orders:42"));
    guard.release().await.unwrap();
}

/// A wrong address is a permanent error. At an address that was right, another program may be there for a while.
#[tokio::test]
async fn a_program_that_is_no_server_is_an_outage_only_if_a_server_was_there() {
    let server = Server::start();
    let address = format!("redis://127.0.0.1:{}", server.port());
    let options = Locks::options().patience(Duration::from_millis(200));
    let served = options.clone().connect_to(address.as_str()).await.unwrap();
    let port = server.port();
    drop(server);
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let kind = |error: &Error| {
        assert!(error.to_string().contains(&format!("127.0.0.1:{port} is not Redis, but a web server")), "{error}");
        error.kind()
    };
    assert_eq!(kind(&served.lock("a").acquire().await.unwrap_err()), ErrorKind::Unavailable);
    assert_eq!(kind(&options.clone().connect_to(address.as_str()).await.unwrap_err()), ErrorKind::Refused);
    let lazy = options.lazily().connect_to(address.as_str()).await.unwrap();
    assert_eq!(kind(&lazy.lock("a").acquire().await.unwrap_err()), ErrorKind::Refused);
}
