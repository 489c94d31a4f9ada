//! TLS where both sides show a certificate, which is what servers ask for by default.

use crate::support::{Place, bare, run};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair};
use rlock_testing::{Server, Start};
use std::net::TcpListener;
use std::process::Command;

/// A server with a certificate of an authority, which requires client certificates. `client.pem` and `client-key.pem`
/// are for a client, `ca.pem` is the authority.
struct TlsServer {
    server: Server,
    place: Place,
    port: u16,
}

impl TlsServer {
    fn start(options: &[&str]) -> Self {
        let (place, port) = (Place::new(), rlock_testing::free_port());
        let authority_key = KeyPair::generate().unwrap();
        let mut authority = CertificateParams::new([]).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority.distinguished_name.push(DnType::CommonName, "an authority");
        let authority = authority.self_signed(&authority_key).unwrap();
        std::fs::write(place.file("ca.pem"), authority.pem()).unwrap();
        for name in ["server", "client"] {
            let key = KeyPair::generate().unwrap();
            let names = CertificateParams::new(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
            let certificate = names.signed_by(&key, &authority, &authority_key).unwrap();
            std::fs::write(place.file(&format!("{name}.pem")), certificate.pem()).unwrap();
            std::fs::write(place.file(&format!("{name}-key.pem")), key.serialize_pem()).unwrap();
        }
        let server = with_tls(Server::prepare(), &place, port).options(options).start();
        Self { server, place, port }
    }

    /// With these files, each behind its option.
    fn rlock(&self, scheme: &str, files: &[(&str, &str)], arguments: &[&str]) -> Command {
        let mut command = bare(&["-u", &format!("{scheme}://localhost:{}", self.port)]);
        for (option, name) in files {
            command.args([option.to_string(), file(&self.place, name)]);
        }
        command.env_remove("SSL_CERT_FILE").env_remove("SSL_CERT_DIR").args(arguments);
        command
    }
}

/// On that port, with the server's files.
fn with_tls(start: Start, place: &Place, port: u16) -> Start {
    let [cert, key, ca] = ["server.pem", "server-key.pem", "ca.pem"].map(|name| file(place, name));
    start
        .options(&["--tls-port", &port.to_string(), "--tls-cert-file", &cert, "--tls-key-file", &key])
        .options(&["--tls-ca-cert-file", &ca])
}

fn file(place: &Place, name: &str) -> String {
    place.file(name).display().to_string()
}

const TRUST: (&str, &str) = ("--cacert", "ca.pem");
const ALL: [(&str, &str); 3] = [TRUST, ("--cert", "client.pem"), ("--key", "client-key.pem")];

#[test]
fn a_server_that_wants_to_know_its_clients() {
    let server = TlsServer::start(&[]);
    let held = run(server.rlock("rediss", &ALL, &["run", "key", "--", "sh", "-c", "echo $RLOCK_KEY"]));
    assert_eq!(held.succeeded(), "key\n");
    for arguments in [&["ls"][..], &["run", "key", "true"]] {
        let without = run(server.rlock("rediss", &[TRUST], arguments));
        without.failed(78, &["asks for a client certificate", "--cert and --key"]);
        assert!(!without.errors.contains("no server answers"), "{without:?}");
    }
    let unknown = run(server.rlock("rediss", &ALL[1..], &["ls"]));
    unknown.failed(78, &["not trusted", "UnknownIssuer", "--cacert"]);
    let by_variable = |file: &str| {
        let mut command = server.rlock("rediss", &ALL[1..], &["ls"]);
        command.env("SSL_CERT_FILE", server.place.file(file));
        run(command)
    };
    by_variable("ca.pem").succeeded();
    by_variable("nowhere.pem").failed(78, &["SSL_CERT_FILE"]);
    let other_name = format!("rediss://0.0.0.0:{}", server.port);
    run(bare(&["-u", &other_name, "--cacert", &file(&server.place, "ca.pem"), "ls"]))
        .failed(78, &["certificate", "the name that the certificate is for"]);
    run(server.rlock("redis", &[], &["ls"])).failed(78, &["speaks TLS", "rediss://"]);
}

/// A plain server waits for the rest of what it takes for a line, so `rlock` asks if it is plain. A silent one may be busy.
#[test]
fn a_port_that_speaks_no_tls() {
    let server = Server::start();
    for arguments in [&["ls"][..], &["run", "--wait", "10m", "key", "true"]] {
        let address = format!("rediss://127.0.0.1:{}", server.port());
        let arguments = [&["-u", &address, "--connect-timeout", "500ms"], arguments].concat();
        run(bare(&arguments)).failed(78, &["speaks no TLS", "redis://"]);
    }
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("rediss://{}", silent.local_addr().unwrap());
    run(bare(&["-u", &address, "--connect-timeout", "100ms", "ls"])).failed(69, &["timed out", "is it up"]);
}

#[test]
fn a_server_that_speaks_an_older_tls() {
    let server = TlsServer::start(&["--tls-protocols", "TLSv1.2"]);
    run(server.rlock("rediss", &ALL, &["ls"])).failed(78, &["TLS 1.3", "tls-protocols"]);
}

#[test]
fn a_client_with_a_certificate_of_another_authority() {
    let (server, other) = (TlsServer::start(&[]), TlsServer::start(&[]));
    for name in ["client.pem", "client-key.pem"] {
        std::fs::copy(other.place.file(name), server.place.file(name)).unwrap();
    }
    run(server.rlock("rediss", &ALL, &["ls"])).failed(78, &["refuses the client certificate", "--cert"]);
}

#[test]
fn a_cluster_that_wants_to_know_its_clients() {
    let server = TlsServer::start(&["--cluster-enabled", "yes", "--tls-cluster", "yes"]);
    assert_eq!(server.server.client().say("CLUSTER ADDSLOTSRANGE 0 16383").words(), ["OK"]);
    let run_in = |files| run(server.rlock("rediss+cluster", files, &["run", "key", "--", "echo", "done"]));
    rlock_testing::wait_until("the cluster is up", || run_in(&ALL[..]).output == "done\n");
    run_in(&ALL[..1]).failed(78, &["asks for a client certificate"]);
}

/// The sentinel asks for a client certificate, and so does the master that it names.
#[test]
fn sentinels_that_want_to_know_their_clients() {
    let server = TlsServer::start(&[]);
    let (place, port) = (&server.place, rlock_testing::free_port());
    let monitor = format!("sentinel monitor main 127.0.0.1 {} 1\n", server.port);
    let sentinel = with_tls(Server::prepare().sentinel(&monitor), place, port).options(&["--tls-replication", "yes"]);
    let _sentinel = sentinel.start();
    let run_with = |files: &[(&str, &str)]| {
        let mut command = bare(&["-u", &format!("rediss+sentinel://localhost:{port}/main")]);
        for (option, name) in files {
            command.args([(*option).to_owned(), file(place, name)]);
        }
        run({
            command.args(["run", "key", "--", "echo", "done"]);
            command
        })
    };
    assert_eq!(run_with(&ALL).succeeded(), "done\n");
    run_with(&[TRUST]).failed(78, &["asks for a client certificate", "--cert and --key"]);
}

#[test]
fn files_that_are_no_certificates() {
    let server = TlsServer::start(&[]);
    std::fs::write(server.place.file("text"), "text").unwrap();
    std::fs::write(server.place.file("broken"), "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n").unwrap();
    let refused =
        |files: &[(&str, &str)], words: &[&str]| run(server.rlock("rediss", files, &["ls"])).failed(64, words);
    refused(&[("--cacert", "nowhere")], &["--cacert", "nowhere", "No such file"]);
    refused(&[("--cacert", "text")], &["--cacert", "text", "PEM"]);
    refused(&[("--cacert", "broken")], &["certificate", "PEM"]);
    refused(&[TRUST, ALL[1]], &["--cert and --key belong together"]);
    refused(&[TRUST, ALL[2]], &["--cert and --key belong together"]);
    refused(&[TRUST, ("--cert", "client.pem"), ("--key", "client.pem")], &["private key"]);
    refused(&[TRUST, ("--cert", "client.pem"), ("--key", "server-key.pem")], &["certificate and its key"]);
    run(server.rlock("redis", &ALL, &["ls"])).failed(64, &["rediss://"]);
}
