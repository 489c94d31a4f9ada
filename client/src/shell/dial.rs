//! Makes connections: a few at a time, with one TLS configuration for all, and with the server's own words if it
//! refuses one. A connection is ready when the server has replied to the login.

use super::socket::{Socket, Watched};
use super::thread::Thread;
use crate::process::Process;
use futures_util::future::select_ok;
use rlock_client_core::fault::{Fault, What};
use rlock_client_core::resp::{self, Reply};
use rlock_client_core::{Access, Address, Place};
use socket2::{SockRef, TcpKeepalive};
use std::future::poll_fn;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
#[cfg(feature = "tls")]
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
#[cfg(feature = "tls")]
use {super::tls::SPEAKS_NO_TLS, rlock_client_core::error::Cause, std::future::pending, tokio::time::sleep};

/// What all connections of a client have in common.
#[derive(Clone)]
pub(crate) struct Dialer {
    pub process: Process,
    pub limit: Duration,
    /// The name of its connections in the server's list; empty for none.
    pub name: Arc<str>,
    #[cfg(feature = "tls")]
    pub tls: Option<Arc<rustls::ClientConfig>>,
}

impl Dialer {
    /// Opens a connection when its turn comes, within the time limit. Runs in the client's own thread.
    pub(crate) async fn open(&self, address: &Address, thread: &Thread) -> Result<Conversation, Fault> {
        // Never an error, since the semaphore is never closed.
        let _turn = thread.opening.acquire().await;
        let opened = timeout(self.limit, self.greet_in_its_language(address)).await;
        let opened = opened.unwrap_or_else(|_| Err(Fault::unreachable(io::ErrorKind::TimedOut.into())));
        opened.map_err(|fault| fault.at(|| address.place.to_string().into()))
    }

    /// A server that does not understand a protocol is silent, or closes the connection. So this tests whether the
    /// server expects TLS and got plain text, or the reverse.
    #[cfg(feature = "tls")]
    async fn greet_in_its_language(&self, address: &Address) -> Result<Conversation, Fault> {
        let Place::Tcp { host, port } = &address.place else { return self.greet(address).await };
        if !address.access.tls {
            let greeted = self.greet(address).await;
            let is_dropped = greeted.as_ref().is_err_and(is_dropped);
            return if is_dropped && speaks_tls(self.tls.clone(), host, *port).await.is_ok_and(|it| it) {
                Err(Fault::of_set_up(SPEAKS_TLS))
            } else {
                greeted
            };
        }
        let slow = async {
            sleep(self.limit / 2).await;
            if speaks_plainly(host, *port).await.is_ok_and(|it| it) {
                Fault::of_set_up(SPEAKS_NO_TLS)
            } else {
                pending().await
            }
        };
        tokio::select! {
            greeted = self.greet(address) => greeted,
            fault = slow => Err(fault),
        }
    }

    #[cfg(not(feature = "tls"))]
    async fn greet_in_its_language(&self, address: &Address) -> Result<Conversation, Fault> {
        self.greet(address).await
    }

    async fn greet(&self, address: &Address) -> Result<Conversation, Fault> {
        let socket = self.connect(address).await?;
        let socket = Arc::new(socket).watched().map_err(Fault::unreachable)?;
        let mut conversation = Conversation { socket, heard: resp::Reader::up_to(LOGIN_MAX), has_news: false };
        let login = self.login(&address.access);
        login.iter().for_each(|command| conversation.say(command));
        conversation.socket.socket.write();
        for _ in login {
            let served = conversation.hear().await.map_err(unserved)?;
            match served {
                Reply::Error(line) if !may_be_ignored(&line) => return Err(Fault::of_connecting(line)),
                _ => {}
            }
        }
        conversation.heard.limit = resp::REPLY_MAX;
        Ok(conversation)
    }

    /// The server may refuse the commands that only describe the client.
    fn login(&self, Access { user, password, database, .. }: &Access) -> Vec<Vec<String>> {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let mut login = Vec::new();
        match (user, password) {
            (Some(user), Some(password)) => login.push(words(&["AUTH", user, password])),
            (None, Some(password)) => login.push(words(&["AUTH", password])),
            (_, None) => {}
        }
        if *database > 0 {
            login.push(words(&["SELECT", &database.to_string()]));
        }
        if !self.name.is_empty() {
            login.push(words(&["CLIENT", "SETNAME", &self.name]));
        }
        login.push(words(&["CLIENT", "SETINFO", "LIB-NAME", env!("CARGO_PKG_NAME")]));
        login.push(words(&["CLIENT", "SETINFO", "LIB-VER", env!("CARGO_PKG_VERSION")]));
        login
    }

    async fn connect(&self, address: &Address) -> Result<Socket, Fault> {
        let stream = match &address.place {
            Place::Tcp { host, port } => {
                tcp(host, *port).await.and_then(TcpStream::into_std).map_err(Fault::unreachable)?
            }
            Place::Unix(path) => unix_socket(path).await?,
        };
        #[cfg(feature = "tls")]
        return match &address.place {
            Place::Tcp { host, .. } if address.access.tls => {
                let begun = super::tls::begin(self.tls.clone(), host);
                Ok(Socket::new(
                    stream,
                    self.process.clone(),
                    Some(begun.map_err(|why| Fault::of_set_up(why.to_string()))?),
                ))
            }
            _ => Ok(Socket::new(stream, self.process.clone(), None)),
        };
        #[cfg(not(feature = "tls"))]
        match address.access.tls {
            true => Err(Fault::of_set_up("is asked over TLS, which needs the feature `tls`")),
            false => Ok(Socket::new(stream, self.process.clone())),
        }
    }
}

/// A longer reply to a login is not Redis.
const LOGIN_MAX: usize = 64 * 1_024;

const SPEAKS_TLS: &str = "speaks TLS: give its address as rediss://";

/// No request was served, whatever was sent.
fn unserved(fault: Fault) -> Fault {
    #[cfg(feature = "tls")]
    if let Cause::System(error) = &fault.cause {
        if let Some(words) = super::tls::refusal(error) {
            return Fault::of_set_up(words);
        }
    }
    if fault.what == What::Refused { fault } else { Fault { what: What::Unreachable, ..fault } }
}

#[cfg(feature = "tls")]
fn is_dropped(fault: &Fault) -> bool {
    let Cause::System(error) = &fault.cause else { return false };
    matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe)
}

#[cfg(feature = "tls")]
async fn speaks_tls(config: Option<Arc<rustls::ClientConfig>>, host: &str, port: u16) -> io::Result<bool> {
    let mut hello = Vec::new();
    super::tls::begin(config, host)?.write_tls(&mut hello)?;
    let answer = first_byte(host, port, &hello).await?;
    // A part of the handshake, or an alert.
    Ok(matches!(answer, 0x16 | 0x15))
}

#[cfg(feature = "tls")]
async fn speaks_plainly(host: &str, port: u16) -> io::Result<bool> {
    Ok(matches!(first_byte(host, port, b"PING\r\n").await?, b'+' | b'-'))
}

#[cfg(feature = "tls")]
async fn first_byte(host: &str, port: u16, question: &[u8]) -> io::Result<u8> {
    let mut stream = tcp(host, port).await?;
    stream.write_all(question).await?;
    stream.read_u8().await
}

fn may_be_ignored(line: &str) -> bool {
    line.starts_with("NOPERM")
        || line.starts_with("ERR") && line.contains("CLIENT")
        || line.to_ascii_lowercase().contains("unknown")
}

async fn tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let mut addresses = lookup_host((host, port)).await?.peekable();
    if addresses.peek().is_none() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the host has no address"));
    }
    // Tries all addresses at once, as some may be out of reach.
    let (stream, _) = select_ok(addresses.map(|address| Box::pin(TcpStream::connect(address)))).await?;
    stream.set_nodelay(true)?;
    // Detects a server that disappeared, also while nothing is sent.
    let probes = TcpKeepalive::new().with_time(Duration::from_secs(15)).with_interval(Duration::from_secs(5));
    SockRef::from(&stream).set_tcp_keepalive(&probes)?;
    #[cfg(target_os = "linux")]
    SockRef::from(&stream).set_tcp_user_timeout(Some(Duration::from_secs(30)))?;
    Ok(stream)
}

#[cfg(unix)]
async fn unix_socket(path: &Path) -> Result<std::net::TcpStream, Fault> {
    let stream = tokio::net::UnixStream::connect(path).await.and_then(tokio::net::UnixStream::into_std);
    Ok(std::os::fd::OwnedFd::from(stream.map_err(Fault::unreachable)?).into())
}

#[cfg(not(unix))]
async fn unix_socket(_: &Path) -> Result<std::net::TcpStream, Fault> {
    Err(Fault::of_set_up("is a Unix socket, which this system cannot open: use redis:// or rediss://"))
}

/// What the server is, if it is not Redis.
fn what_else(heard: &[u8]) -> &'static str {
    match heard {
        [b'H', b'T', b'T', b'P', ..] | [b'<', ..] => "is not Redis, but a web server: is the port right?",
        // An alert.
        [0x15, ..] => SPEAKS_TLS,
        _ => "is not Redis, by what it says: is the port right?",
    }
}

/// A connection for one request at a time, in the thread that opened it.
pub(crate) struct Conversation {
    socket: Watched,
    heard: resp::Reader,
    /// Messages that are not replies have come.
    pub(super) has_news: bool,
}

impl Conversation {
    /// # Errors
    /// The connection broke. An error reply is a reply.
    pub(crate) async fn ask(&mut self, command: &[&[u8]]) -> Result<Reply, Fault> {
        self.say(command);
        self.socket.socket.write();
        self.hear().await
    }

    /// Adds a command to send with the next one.
    pub(super) fn say<A: AsRef<[u8]>>(&self, command: &[A]) {
        let mut bytes = Vec::new();
        resp::write(&mut bytes, command);
        self.socket.socket.add(&bytes);
    }

    /// The next message of the server.
    pub(crate) async fn hear(&mut self) -> Result<Reply, Fault> {
        loop {
            match self.heard.next_reply() {
                Ok(Some(reply)) => return Ok(reply),
                Ok(None) => {}
                Err(resp::Garbled) => return Err(Fault::of_set_up(what_else(self.heard.unread()))),
            }
            let (mut has_come, heard, socket) = (false, &mut self.heard, &self.socket);
            let read = poll_fn(|context| {
                let add = |bytes: &[u8]| {
                    has_come = true;
                    heard.add(bytes);
                };
                let read = socket.poll_read(context, add);
                if has_come { Poll::Ready(Ok(())) } else { read }
            });
            let ended = tokio::select! {
                read = read => read,
                error = socket.writes() => Err(error),
            };
            // A server may say why it closes the connection.
            if !has_come {
                ended.map_err(Fault::silent)?;
            }
        }
    }

    /// For use by the engine.
    pub(crate) fn into_socket(self) -> Arc<Socket> {
        self.socket.socket
    }
}
