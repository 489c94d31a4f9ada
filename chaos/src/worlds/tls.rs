//! A world's servers listen for TLS too, where they can: with a certificate that is made for the world, so that clients
//! have to be told to trust it.

use rlock_testing::{Reply, Server};
use std::io;
use std::path::Path;
use std::sync::LazyLock;

pub struct Certificate {
    /// For clients that are to trust it.
    pub pem: String,
    /// Where servers read it and its key.
    files: [String; 2],
}

impl Certificate {
    /// None, with a word of it, if the servers were built without TLS.
    ///
    /// # Errors
    /// If it cannot be made or written.
    pub fn issue(directory: &Path) -> io::Result<Option<Self>> {
        static KNOW_TLS: LazyLock<bool> = LazyLock::new(servers_know_tls);
        if !*KNOW_TLS {
            return Ok(None);
        }
        let issued = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).map_err(io::Error::other)?;
        let (pem, key) = (issued.cert.pem(), issued.key_pair.serialize_pem());
        let files = ["certificate.pem", "key.pem"].map(|name| directory.join(name));
        for (file, content) in files.iter().zip([&pem, &key]) {
            std::fs::write(file, content)?;
        }
        Ok(Some(Self { pem, files: files.map(|file| file.display().to_string()) }))
    }

    /// A server's, besides the port.
    pub fn options(&self) -> [&str; 6] {
        let [certificate, key] = &self.files;
        ["--tls-cert-file", certificate, "--tls-key-file", key, "--tls-auth-clients", "no"]
    }
}

fn servers_know_tls() -> bool {
    let server = Server::prepare().without_module().start();
    let knows = server.client().say("CONFIG GET tls-port") != Reply::List(Vec::new());
    if !knows {
        println!("the server was built without TLS: no client comes by it");
    }
    knows
}
