//! A server that speaks TLS.

use rlock_client::{Certificates, ErrorKind, Locks, Options};
use rlock_testing::Server;

fn trusting(pem: &str) -> Options {
    let mut certificates = Certificates::default();
    certificates.authorities = Some(pem.as_bytes().to_vec());
    Locks::options().certificates(certificates)
}

/// `cli/tests/cli/tls.rs` shows that clients with certificates are known by them.
#[tokio::test]
async fn certificates_of_the_programs_own() {
    // A server that was built without TLS has no such setting.
    if Server::start().client().say("CONFIG GET tls-port").as_list().is_empty() {
        println!("left out, as the server was built without TLS");
        return;
    }
    let issued = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let files = tempfile::tempdir().unwrap();
    let path = |name: &str| files.path().join(name).display().to_string();
    std::fs::write(path("cert"), issued.cert.pem()).unwrap();
    std::fs::write(path("key"), issued.key_pair.serialize_pem()).unwrap();
    let port = rlock_testing::free_port().to_string();
    let _server = Server::prepare()
        .options(&["--tls-port", &port, "--tls-cert-file", &path("cert"), "--tls-key-file", &path("key")])
        .options(&["--tls-auth-clients", "no"])
        .start();
    let address = format!("rediss://localhost:{port}");
    let untrusted = Locks::connect(address.as_str()).await.unwrap_err();
    assert_eq!(untrusted.kind(), ErrorKind::Refused, "{untrusted}");
    let locks = trusting(&issued.cert.pem()).connect_to(address.as_str()).await.unwrap();
    locks.lock("orders:42").acquire().await.unwrap().release().await.unwrap();
    let unusable = trusting("no PEM").connect_to(address.as_str()).await.unwrap_err();
    assert_eq!(unusable.kind(), ErrorKind::Configuration);
    assert!(unusable.to_string().starts_with("certificates: cannot be used"), "{unusable}");
}
