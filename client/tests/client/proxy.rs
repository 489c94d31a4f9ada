//! A network between client and server that can delay requests, even until their sender is gone, and that can break,
//! with or without notice. It can also make the server look older than it is.

use rlock_testing::Server;
use std::future::pending;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
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

/// What happens to connections. Each number means the connections up to that number.
#[derive(Clone, Copy, Default)]
struct Trouble {
    held: usize,
    cut: usize,
    cut_at_request: usize,
    swallowed: Swallowed,
    /// The server has a module that knows no sessions.
    is_older: bool,
}

/// Directions in which bytes are read and silently dropped, on connections on which a client waits.
#[derive(Clone, Copy, Default)]
struct Swallowed {
    number: usize,
    requests: bool,
    answers: bool,
}

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Requests,
    Answers,
}

/// Words that an older module does not know, and what is sent in their place: as long, and unknown to every module.
const UNKNOWN_TO_OLDER: [(&[u8], &[u8]); 4] = [
    (b"RLOCK.ONCE", b"RLOCK.XXXX"),
    (b"RLOCK.EVENTS", b"RLOCK.XXXXXX"),
    (b"RLOCK.CANCEL", b"RLOCK.XXXXXX"),
    (b"\r\nSESSION\r\n", b"\r\nXXXXXXX\r\n"),
];

/// The connection has to break.
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

    /// Requests on the current connections do not arrive until [`Self::let_through`].
    pub fn hold_back(&self) {
        self.trouble.send_modify(|trouble| trouble.held = *self.accepted.borrow());
    }

    pub fn let_through(&self) {
        self.trouble.send_modify(|trouble| trouble.held = 0);
    }

    /// No request arrives until [`Self::let_through`], on new connections either; these are still accepted.
    pub fn hold_back_everything(&self) {
        self.trouble.send_modify(|trouble| trouble.held = usize::MAX);
    }

    /// Drops everything in these directions on the current connections on which a client waits. Neither side is notified,
    /// and all other connections work.
    pub fn swallow_where_is_waited(&self, ways: &[Way]) {
        let [requests, answers] = [Way::Requests, Way::Answers].map(|way| ways.contains(&way));
        let swallowed = Swallowed { number: *self.accepted.borrow(), requests, answers };
        self.trouble.send_modify(|trouble| trouble.swallowed = swallowed);
    }

    /// From now on the server looks like one with a module without sessions.
    pub fn make_the_server_older(&self) {
        self.trouble.send_modify(|trouble| trouble.is_older = true);
    }

    /// Breaks the connections that are there now.
    pub fn cut(&self) {
        self.trouble.send_modify(|trouble| trouble.cut = *self.accepted.borrow());
    }

    /// Breaks each current connection at its next request, which does not arrive.
    pub fn cut_at_request(&self) {
        self.trouble.send_modify(|trouble| trouble.cut_at_request = *self.accepted.borrow());
    }
}

/// One connection, as seen by each of its two ways.
#[derive(Clone)]
struct Link {
    number: usize,
    trouble: watch::Receiver<Trouble>,
    /// The server keeps a client waiting on it, or has done so.
    is_waited_on: Arc<AtomicBool>,
}

impl Link {
    fn swallows(&self, way: Way) -> bool {
        let Swallowed { number, requests, answers } = self.trouble.borrow().swallowed;
        let this_way = if way == Way::Requests { requests } else { answers };
        this_way && self.number <= number && self.is_waited_on.load(Relaxed)
    }

    /// Resolves when the end of one side has to be passed to the other.
    async fn ends(&self, way: Way) {
        if self.swallows(way) {
            pending().await
        }
    }

    fn note(&self, requests: &[u8]) {
        let waits = has(requests, b"RLOCK.EVENTS") || has(requests, b"\r\nWAIT\r\n") && !has(requests, b"SESSION");
        if waits {
            self.is_waited_on.store(true, Relaxed);
        }
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
        let link = Link { number: *accept.borrow(), trouble: trouble.clone(), is_waited_on: Arc::default() };
        let server = UnixStream::connect(&server).await.unwrap();
        tokio::spawn(forward(client, server, link));
    }
}

async fn forward(client: UnixStream, server: UnixStream, link: Link) {
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let (number, mut trouble) = (link.number, link.trouble.clone());
    let requests = requests(from_client, to_server, link.clone());
    let answers = async {
        answers(from_server, to_client, link).await;
        Ok(())
    };
    tokio::select! {
        _ = async { tokio::try_join!(requests, answers) } => {}
        _ = trouble.wait_for(|trouble| trouble.cut >= number) => {}
    }
}

async fn requests(mut from_client: OwnedReadHalf, mut to_server: OwnedWriteHalf, mut link: Link) -> Result<(), Cut> {
    let mut bytes = vec![0; 65_536];
    while let Ok(count @ 1..) = from_client.read(&mut bytes).await {
        let requests = &mut bytes[..count];
        link.note(requests);
        if link.trouble.borrow().cut_at_request >= link.number {
            return Err(Cut);
        }
        let _ = link.trouble.wait_for(|trouble| trouble.held < link.number).await;
        // What was delayed until now does not arrive.
        if link.trouble.borrow().cut >= link.number {
            return Err(Cut);
        }
        if link.swallows(Way::Requests) {
            continue;
        }
        if link.trouble.borrow().is_older {
            UNKNOWN_TO_OLDER.iter().for_each(|(known, unknown)| replace(requests, known, unknown));
        }
        if to_server.write_all(requests).await.is_err() {
            break;
        }
    }
    link.ends(Way::Requests).await;
    Ok(())
}

async fn answers(mut from_server: OwnedReadHalf, mut to_client: OwnedWriteHalf, link: Link) {
    let mut bytes = vec![0; 65_536];
    while let Ok(count @ 1..) = from_server.read(&mut bytes).await {
        if !link.swallows(Way::Answers) && to_client.write_all(&bytes[..count]).await.is_err() {
            break;
        }
    }
    link.ends(Way::Answers).await;
}

fn has(bytes: &[u8], word: &[u8]) -> bool {
    bytes.windows(word.len()).any(|window| window == word)
}

/// Both words have the same length, because the lengths were sent already.
fn replace(bytes: &mut [u8], word: &[u8], by: &[u8]) {
    while let Some(place) = bytes.windows(word.len()).position(|window| window == word) {
        bytes[place..place + word.len()].copy_from_slice(by);
    }
}
