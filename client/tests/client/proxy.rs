//! A network between the client and the server that can hold back what is under way, also when its sender is gone by then.

use rlock_testing::Server;
use std::path::PathBuf;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;

pub struct Proxy {
    directory: TempDir,
    /// How many of the connections so far are held back.
    held: watch::Sender<usize>,
    accepted: watch::Receiver<usize>,
}

impl Proxy {
    pub fn to(server: &Server) -> Self {
        let directory = TempDir::with_prefix("rlock-proxy-").unwrap();
        let listener = UnixListener::bind(directory.path().join("socket")).unwrap();
        let (held, (accept, accepted)) = (watch::Sender::new(0), watch::channel(0));
        tokio::spawn(forward_all(listener, server.socket(), accept, held.clone()));
        Self { directory, held, accepted }
    }

    pub fn url(&self) -> String {
        format!("redis+unix://{}", self.directory.path().join("socket").display())
    }

    /// What is sent on the connections that are there now does not arrive until [`Self::let_through`].
    pub fn hold_back(&self) {
        self.held.send_replace(*self.accepted.borrow());
    }

    pub fn let_through(&self) {
        self.held.send_replace(0);
    }
}

async fn forward_all(
    listener: UnixListener,
    server: PathBuf,
    accept: watch::Sender<usize>,
    held: watch::Sender<usize>,
) {
    while let Ok((client, _)) = listener.accept().await {
        accept.send_modify(|count| *count += 1);
        let number = *accept.borrow();
        let server = UnixStream::connect(&server).await.unwrap();
        tokio::spawn(forward(client, server, number, held.subscribe()));
    }
}

async fn forward(client: UnixStream, server: UnixStream, number: usize, mut held: watch::Receiver<usize>) {
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let answers = tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
    let mut bytes = vec![0; 65_536];
    while let Ok(count @ 1..) = from_client.read(&mut bytes).await {
        let _ = held.wait_for(|held| *held < number).await;
        if to_server.write_all(&bytes[..count]).await.is_err() {
            break;
        }
    }
    drop(to_server);
    let _ = answers.await;
}
