//! A network between the client and the server that can hold back what is under way, also when its sender is gone by
//! then, and that can break.

use rlock_testing::Server;
use std::path::PathBuf;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;

pub struct Proxy {
    directory: TempDir,
    trouble: watch::Sender<Trouble>,
    accepted: watch::Receiver<usize>,
}

/// What becomes of the connections up to that number.
#[derive(Clone, Copy, Default)]
struct Trouble {
    held: usize,
    cut: usize,
    cut_at_request: usize,
    cut_at_answer: usize,
}

/// The connection is to break.
struct Cut;

impl Proxy {
    pub fn to(server: &Server) -> Self {
        let directory = TempDir::with_prefix("rlock-proxy-").unwrap();
        let listener = UnixListener::bind(directory.path().join("socket")).unwrap();
        let (trouble, (accept, accepted)) = (watch::Sender::default(), watch::channel(0));
        tokio::spawn(forward_all(listener, server.socket(), accept, trouble.subscribe()));
        Self { directory, trouble, accepted }
    }

    pub fn url(&self) -> String {
        format!("redis+unix://{}", self.directory.path().join("socket").display())
    }

    /// What is sent on the connections that are there now does not arrive until [`Self::let_through`].
    pub fn hold_back(&self) {
        self.trouble.send_modify(|trouble| trouble.held = *self.accepted.borrow());
    }

    pub fn let_through(&self) {
        self.trouble.send_modify(|trouble| trouble.held = 0);
    }

    /// Breaks the connections that are there now.
    pub fn cut(&self) {
        self.trouble.send_modify(|trouble| trouble.cut = *self.accepted.borrow());
    }

    /// Breaks each of them with the next that is sent on it, which does not arrive.
    pub fn cut_at_request(&self) {
        self.trouble.send_modify(|trouble| trouble.cut_at_request = *self.accepted.borrow());
    }

    /// Breaks each of them with the next answer that is sent on it, which does not arrive.
    pub fn cut_at_answer(&self) {
        self.trouble.send_modify(|trouble| trouble.cut_at_answer = *self.accepted.borrow());
    }
}

async fn forward_all(
    listener: UnixListener,
    server: PathBuf,
    accept: watch::Sender<usize>,
    trouble: watch::Receiver<Trouble>,
) {
    while let Ok((client, _)) = listener.accept().await {
        accept.send_modify(|count| *count += 1);
        let number = *accept.borrow();
        let server = UnixStream::connect(&server).await.unwrap();
        let mut trouble = trouble.clone();
        tokio::spawn(async move {
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            let requests = requests(from_client, to_server, number, trouble.clone());
            let answers = answers(from_server, to_client, number, trouble.clone());
            tokio::select! {
                _ = async { tokio::try_join!(requests, answers) } => {}
                _ = trouble.wait_for(|trouble| trouble.cut >= number) => {}
            }
        });
    }
}

async fn requests(
    mut from_client: OwnedReadHalf,
    mut to_server: OwnedWriteHalf,
    number: usize,
    mut trouble: watch::Receiver<Trouble>,
) -> Result<(), Cut> {
    let mut bytes = vec![0; 65_536];
    while let Ok(count @ 1..) = from_client.read(&mut bytes).await {
        if trouble.borrow().cut_at_request >= number {
            return Err(Cut);
        }
        let _ = trouble.wait_for(|trouble| trouble.held < number).await;
        if to_server.write_all(&bytes[..count]).await.is_err() {
            break;
        }
    }
    Ok(())
}

async fn answers(
    mut from_server: OwnedReadHalf,
    mut to_client: OwnedWriteHalf,
    number: usize,
    trouble: watch::Receiver<Trouble>,
) -> Result<(), Cut> {
    let mut bytes = vec![0; 65_536];
    while let Ok(count @ 1..) = from_server.read(&mut bytes).await {
        if trouble.borrow().cut_at_answer >= number {
            return Err(Cut);
        }
        if to_client.write_all(&bytes[..count]).await.is_err() {
            break;
        }
    }
    Ok(())
}
