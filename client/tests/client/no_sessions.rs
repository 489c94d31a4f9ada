//! Servers that give a client no session: the module is older, the user lacks the right, or there are too many. A wait
//! there fails at once, with an error that says what to do.

use crate::proxy::Proxy;
use crate::support::{locks_on, url};
use rlock_client::{Error, ErrorKind, Locks};
use rlock_testing::Server;
use std::time::Duration;
use tokio::time::timeout;

/// The error of a wait. It has to come within a time that is longer than any patience.
async fn error_of(wait: impl Future<Output = Result<(), Error>>) -> Error {
    timeout(Duration::from_secs(15), wait).await.expect("it is reported at last").unwrap_err()
}

#[tokio::test]
async fn an_older_module_is_named() {
    let server = Server::start();
    server.client().say("RLOCK.ACQUIRE a other 600000");
    let network = Proxy::to(&server);
    network.make_the_server_older();
    let error = error_of(async { Locks::connect(network.url()).await?.lock("a").acquire().await.map(drop) }).await;
    // By its name, to see whether it has its own kind.
    let kind = format!("{:?}", error.kind());
    assert!(["ModuleMissing", "ModuleTooOld"].contains(&kind.as_str()), "{kind}: {error}");
    assert!(error.to_string().contains("rlock"), "{error}");
    assert!(names_a_version(&error.to_string()), "{error} should say from which version on");
}

/// For example 1.0.
fn names_a_version(text: &str) -> bool {
    text.as_bytes().windows(3).any(|it| it[0].is_ascii_digit() && it[1] == b'.' && it[2].is_ascii_digit())
}

#[tokio::test]
async fn a_user_without_the_right_gets_an_error() {
    let server = Server::start();
    let mut client = server.client();
    client.say("RLOCK.ACQUIRE a other 600000");
    client.say("ACL SETUSER app on >secret ~* +@all -rlock.events");
    let locks = Locks::connect(format!("{}?user=app&pass=secret", url(&server))).await.unwrap();
    let error = error_of(async { locks.lock("a").acquire().await.map(drop) }).await;
    assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
    assert!(error.to_string().contains("NOPERM"), "{error}");
    assert!(error.to_string().to_lowercase().contains("rlock.events"), "{error}");
    // An acquire that does not wait needs no session.
    locks.lock("b").acquire().await.unwrap().release().await.unwrap();
}

#[tokio::test]
async fn a_server_with_too_many_gives_an_error() {
    for limit in ["rlock.max-sessions", "rlock.max-tickets"] {
        let server = Server::start();
        let mut client = server.client();
        client.say("RLOCK.ACQUIRE a other 600000");
        assert_eq!(client.run(&["CONFIG", "SET", limit, "0"]).as_text(), "OK");
        let locks = locks_on(&server).await;
        let error = error_of(async { locks.lock("a").acquire().await.map(drop) }).await;
        assert!(error.is_queue_full(), "{limit}: {error}");
        assert!(error.to_string().contains(limit), "{error} should name {limit}");
    }
}
