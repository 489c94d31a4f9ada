//! One connection through the network: two sockets, and what is carried between them.

use std::cell::Cell;
use std::collections::VecDeque;
use std::future::pending;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, sleep_until};

/// The buffer of one direction. Requests and answers are small, and connections are many.
const BUFFER: usize = 8 * 1_024;

/// How much may be under way in one direction before no more is taken.
const UNDER_WAY: usize = 32 * BUFFER;

/// A command that only replicas send.
const ASKS_FOR_CHANGES: &[u8] = b"PSYNC";

/// Which end sends the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sender {
    Client,
    Server,
}

/// The rules for all connections of a network, one for each sender. They are read for every piece that is carried.
pub type Rules = [Rule; 2];

#[derive(Clone, Copy, Debug, Default)]
pub struct Rule {
    pub delay: Duration,
    pub loses: bool,
    /// Loses only what is sent between replicas and their master.
    pub loses_of_replicas: bool,
    /// Loses what is sent on connections from this address.
    pub loses_of: Option<IpAddr>,
}

/// What the network and the task that carries the data know of a connection.
#[derive(Default)]
pub struct Line {
    pub rules: Rc<Cell<Rules>>,
    /// Something was lost by a rule, so that what comes afterwards makes no sense.
    pub has_holes: Cell<bool>,
    /// It is to be cut in the middle of the next answer.
    pub is_cut_mid_reply: Cell<bool>,
    /// A replica's connection: it has asked for all changes.
    pub is_of_replica: Cell<bool>,
    /// Where it comes from.
    pub peer: Option<IpAddr>,
    /// The end that loses its data for the connection's lifetime, its close included.
    pub silenced: Cell<Option<Sender>>,
}

impl Line {
    /// Carries data until the connection ends in good order. If the task is dropped or something fails, both sides are reset.
    pub async fn carry(self: Rc<Self>, mut client: TcpStream, target: u16) {
        let Ok(()) = prepare(&client) else { return };
        let Ok(mut server) = connect(target).await else { return };
        if self.carry_both_ways(&mut client, &mut server).await.is_ok() {
            end_gracefully(&client);
            end_gracefully(&server);
        }
    }

    async fn carry_both_ways(&self, client: &mut TcpStream, server: &mut TcpStream) -> io::Result<()> {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let requests = Way::new(self, Sender::Client, from_client, to_server);
        let answers = Way::new(self, Sender::Server, from_server, to_client);
        tokio::try_join!(requests.carry(), answers.carry()).map(|_| ())
    }

    fn rule(&self, sender: Sender) -> Rule {
        self.rules.get()[sender as usize]
    }

    /// Whether what this end sends now is lost.
    fn loses(&self, sender: Sender) -> bool {
        let rule = self.rule(sender);
        let is_lost_by_rule = rule.loses
            || (rule.loses_of_replicas && self.is_of_replica.get())
            || (rule.loses_of.is_some() && rule.loses_of == self.peer);
        self.has_holes.set(self.has_holes.get() || is_lost_by_rule);
        is_lost_by_rule || self.silenced.get() == Some(sender)
    }

    /// While everything that this end sends is lost, the other end does not learn that it is gone.
    async fn mourn(&self, gone: Sender, error: io::Error) -> io::Result<()> {
        if self.loses(gone) { pending().await } else { Err(error) }
    }
}

/// A connection begins at any free port, which may be the port of a dead server.
async fn connect(target: u16) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    // So the server can still come back to its port.
    socket.set_reuseaddr(true)?;
    let stream = socket.connect((Ipv4Addr::LOCALHOST, target).into()).await?;
    prepare(&stream)?;
    // It can even be the target port: then the network would answer itself.
    if stream.local_addr()? == stream.peer_addr()? { Err(io::ErrorKind::ConnectionRefused.into()) } else { Ok(stream) }
}

/// A socket that is dropped is reset, so that the other side learns of it at once whatever is under way.
fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_zero_linger()
}

#[allow(deprecated)] // To set a time would be wrong here; to take it away is not.
fn end_gracefully(stream: &TcpStream) {
    // Otherwise what was written last might be lost; and what fails here has failed already.
    let _ = stream.set_linger(None);
}

/// One of the two directions of a connection.
struct Way<'a> {
    line: &'a Line,
    sender: Sender,
    from: ReadHalf<'a>,
    to: WriteHalf<'a>,
    under_way: VecDeque<Piece>,
}

struct Piece {
    due: Instant,
    bytes: Vec<u8>,
    then: Then,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    GoOn,
    /// The sender has ended, and the receiver learns of it.
    End,
    /// The sender has ended, and the other end does not learn of it.
    Stay,
    Cut,
}

impl<'a> Way<'a> {
    fn new(line: &'a Line, sender: Sender, from: ReadHalf<'a>, to: WriteHalf<'a>) -> Self {
        Self { line, sender, from, to, under_way: VecDeque::new() }
    }

    async fn carry(mut self) -> io::Result<()> {
        let mut buffer = vec![0; BUFFER];
        loop {
            let next_due = self.under_way.front().map(|piece| piece.due);
            let ended = tokio::select! {
                biased;
                () = until(next_due) => {
                    let piece = self.under_way.pop_front().expect("one is due");
                    self.deliver(&piece.bytes, piece.then).await?
                }
                taken = self.from.read(&mut buffer), if self.takes_more() => {
                    match taken {
                        Ok(length) => self.take(&buffer[..length]).await?,
                        Err(error) => return self.line.mourn(self.sender, error).await,
                    }
                }
            };
            if ended.is_break() {
                return Ok(());
            }
        }
    }

    /// Not after the end, and not if too much is under way.
    fn takes_more(&self) -> bool {
        let bytes_under_way: usize = self.under_way.iter().map(|piece| piece.bytes.len()).sum();
        self.under_way.back().is_none_or(|last| last.then == Then::GoOn) && bytes_under_way < UNDER_WAY
    }

    /// No bytes mean that the sender has ended.
    async fn take(&mut self, bytes: &[u8]) -> io::Result<ControlFlow<()>> {
        let Rule { delay, .. } = self.line.rule(self.sender);
        if self.sender == Sender::Client && bytes.windows(ASKS_FOR_CHANGES.len()).any(|it| it == ASKS_FOR_CHANGES) {
            self.line.is_of_replica.set(true);
        }
        let (bytes, then) = if self.line.loses(self.sender) {
            (&[][..], if bytes.is_empty() { Then::Stay } else { Then::GoOn })
        } else if bytes.is_empty() {
            (bytes, Then::End)
        } else if self.sender == Sender::Server && self.line.is_cut_mid_reply.take() {
            (&bytes[..bytes.len() / 2], Then::Cut)
        } else {
            (bytes, Then::GoOn)
        };
        let last_due = self.under_way.back().map(|piece| piece.due);
        if last_due.is_none() && delay.is_zero() {
            return self.deliver(bytes, then).await;
        }
        let due = last_due.unwrap_or_else(Instant::now).max(Instant::now() + delay);
        self.under_way.push_back(Piece { due, bytes: bytes.to_vec(), then });
        Ok(ControlFlow::Continue(()))
    }

    async fn deliver(&mut self, bytes: &[u8], then: Then) -> io::Result<ControlFlow<()>> {
        if let Err(error) = self.to.write_all(bytes).await {
            let receiver = if self.sender == Sender::Client { Sender::Server } else { Sender::Client };
            self.line.mourn(receiver, error).await?;
        }
        match then {
            Then::GoOn => Ok(ControlFlow::Continue(())),
            Then::End => self.to.shutdown().await.map(ControlFlow::Break),
            Then::Stay => pending().await,
            Then::Cut => Err(io::ErrorKind::ConnectionReset.into()),
        }
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => pending().await,
    }
}
