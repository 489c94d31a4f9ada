//! A server that speaks TLS, and a thousand that wait for one lock of it.
//!
//! To agree on keys takes the processor for a while, so a client that did so for each wait would have no time left to
//! renew what it holds.

use crate::support::{until, until_waiting};
use rlock_client::{Certificates, ErrorKind, Locks, Options};
use rlock_testing::Server;
use std::time::Duration;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// A server with a certificate that it has vouched for itself.
pub struct TlsServer {
    server: Server,
    /// It trusts nobody in particular.
    pub address: String,
    certificate: String,
    _files: TempDir,
}

impl TlsServer {
    pub fn start() -> Self {
        let issued = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let files = tempfile::tempdir().unwrap();
        let path = |name: &str| files.path().join(name).display().to_string();
        std::fs::write(path("cert"), issued.cert.pem()).unwrap();
        std::fs::write(path("key"), issued.key_pair.serialize_pem()).unwrap();
        let port = rlock_testing::free_port().to_string();
        let server = Server::prepare()
            .options(&["--tls-port", &port, "--tls-cert-file", &path("cert"), "--tls-key-file", &path("key")])
            .options(&["--tls-auth-clients", "no"])
            .start();
        let address = format!("rediss://localhost:{port}");
        Self { server, address, certificate: issued.cert.pem(), _files: files }
    }

    /// Trust in its certificate.
    pub fn trusted(&self) -> Options {
        trusting(&self.certificate)
    }
}

fn trusting(pem: &str) -> Options {
    let mut certificates = Certificates::default();
    certificates.authorities = Some(pem.as_bytes().to_vec());
    Locks::options().certificates(certificates)
}

/// Whether the servers that the tests run on speak it. One that was built without it has no such setting.
pub fn is_spoken() -> bool {
    let port = Server::start().client().say("CONFIG GET tls-port");
    let spoken = !port.as_list().is_empty();
    if !spoken {
        println!("left out, as the server was built without TLS");
    }
    spoken
}

/// That clients with certificates are known by them, `cli/tests/cli/tls.rs` shows.
#[tokio::test]
async fn certificates_of_the_programs_own() {
    if !is_spoken() {
        return;
    }
    let tls = TlsServer::start();
    let untrusted = Locks::connect(tls.address.clone()).await.unwrap_err();
    assert_eq!(untrusted.kind(), ErrorKind::Refused, "{untrusted}");
    let locks = tls.trusted().connect_to(&tls.address).await.unwrap();
    locks.lock("orders:42").acquire().await.unwrap().release().await.unwrap();
    let unusable = trusting("no PEM").connect_to(&tls.address).await.unwrap_err();
    assert_eq!(unusable.kind(), ErrorKind::Configuration);
    assert!(unusable.to_string().starts_with("certificates: cannot be used"), "{unusable}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_wait_at_once_and_their_holder_keeps_the_lock() {
    const WAITERS: i64 = 1_000;
    const LEASE: Duration = Duration::from_secs(2);
    const SOON: Duration = Duration::from_secs(5);
    if !is_spoken() {
        return;
    }
    let tls = TlsServer::start();
    let mut client = tls.server.client();
    let locks = tls.trusted().lease(LEASE).connect_to(&tls.address).await.unwrap();
    let guard = locks.lock("orders:42").acquire().await.unwrap();
    let mut waits = JoinSet::new();
    for _ in 0..WAITERS {
        let lock = locks.lock("orders:42");
        waits.spawn(async move { lock.acquire().await.map(drop) });
    }
    let all_wait = timeout(SOON, until_waiting(&mut client, WAITERS)).await;
    assert!(
        all_wait.is_ok(),
        "only {} wait by now, and the holder's loss is {:?}",
        client.figure("waiters"),
        guard.loss()
    );
    let renewed_twice = client.expiry("orders:42") + i64::try_from(LEASE.as_millis()).unwrap();
    until("it is renewed", || guard.is_lost() || client.expiry("orders:42") >= renewed_twice).await;
    assert!(!guard.is_lost(), "the holder has lost it: {:?}", guard.loss());
    assert_eq!(client.figure("waiters"), WAITERS);
    if let Some(ended) = waits.try_join_next() {
        panic!("a wait has ended: {ended:?}");
    }
    waits.shutdown().await;
    until_waiting(&mut client, 0).await;
    guard.release().await.unwrap();
}
