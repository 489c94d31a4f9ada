//! One connection to a server, which anybody may write to and read from without being held up: whoever sends writes at
//! once where he is, and what has come is read by whoever is there first. The order of what is sent is that in which it is
//! added, and what has come is handed on in the order in which it came.
//!
//! It is read as soon as something comes by the runtime where its lane is: that of the client's own thread, or the caller's.

use crate::here::Here;
use crate::mutex::lock;
use std::io::{self, Read, Write};
use std::mem;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use tokio::io::Interest;
use tokio::sync::Notify;

/// So much is read at once, and so many times before others have their turn: a server may send without an end.
const READ: usize = 64 * 1_024;
const READS_MAX: usize = 16;

pub(crate) struct Socket {
    /// Of TCP, or a Unix socket: reading, writing and shutting down are the same system calls.
    stream: TcpStream,
    /// What is to be sent, and has not been taken by whoever writes.
    added: Mutex<Vec<u8>>,
    /// What is being sent. Locked by whoever writes.
    writing: Mutex<Vec<u8>>,
    /// Locked by whoever reads, until what he has read is handed on.
    reading: Mutex<Vec<u8>>,
    #[cfg(feature = "tls")]
    tls: Option<Mutex<rustls::ClientConnection>>,
    /// For the driver: something is to be written.
    has_more: Notify,
    /// Whose it is: one that was forked from it has the same connection, and is to leave it alone.
    here: Here,
    /// Somebody looks in a moment whether the driver has read what comes.
    is_seen_to: AtomicBool,
}

impl Socket {
    pub(crate) fn new(
        stream: TcpStream,
        here: Here,
        #[cfg(feature = "tls")] tls: Option<rustls::ClientConnection>,
    ) -> Self {
        let (added, writing, has_more, is_seen_to) = Default::default();
        let reading = Mutex::new(vec![0; READ]);
        #[cfg(feature = "tls")]
        return Self { stream, added, writing, reading, tls: tls.map(Mutex::new), has_more, is_seen_to, here };
        #[cfg(not(feature = "tls"))]
        Self { stream, added, writing, reading, has_more, is_seen_to, here }
    }

    /// Adds what is to be sent, and sends nothing.
    pub(crate) fn add(&self, bytes: &[u8]) {
        lock(&self.added).extend_from_slice(bytes);
    }

    /// Has the driver write, together with what else is added until its turn.
    pub(crate) fn write_soon(&self) {
        self.has_more.notify_one();
    }

    /// Writes what can be written now; the driver goes on with the rest. A break is found by whoever reads.
    pub(crate) fn write(&self) {
        if !self.has_written() {
            self.has_more.notify_one();
        }
    }

    /// Whether nothing is left.
    fn has_written(&self) -> bool {
        let mut writing = lock(&self.writing);
        let added = mem::take(&mut *lock(&self.added));
        #[cfg(feature = "tls")]
        let added = match &self.tls {
            Some(tls) => {
                let mut tls = lock(tls);
                // It keeps all that it is given.
                let _ = tls.writer().write_all(&added);
                return loop {
                    match tls.wants_write().then(|| tls.write_tls(&mut &self.stream)) {
                        Some(Ok(1..)) => {}
                        Some(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => break false,
                        _ => break true,
                    }
                };
            }
            None => added,
        };
        let all = if writing.is_empty() { added } else { [mem::take(&mut *writing), added].concat() };
        let mut rest = &all[..];
        while !rest.is_empty() {
            match (&self.stream).write(rest) {
                Ok(count @ 1..) => rest = &rest[count..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    *writing = rest.to_vec();
                    return false;
                }
                // Nobody will read it.
                _ => break,
            }
        }
        true
    }

    /// Hands on what has come, and returns whether nothing more comes for now. `is_ended`: the end may be behind it; if it is
    /// not, less than might have been read is all that there was.
    ///
    /// # Errors
    /// It has broken.
    pub(crate) fn read(&self, is_ended: bool, mut hand_on: impl FnMut(&[u8])) -> io::Result<bool> {
        let mut buffer = lock(&self.reading);
        for _ in 0..READS_MAX {
            let count = match self.read_some(&mut buffer) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(error),
            };
            hand_on(buffer.get(..count).unwrap_or_default());
            if count < READ && !is_ended {
                return Ok(true);
            }
        }
        Ok(false)
    }

    #[cfg(feature = "tls")]
    fn read_some(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(tls) = &self.tls else { return (&self.stream).read(buffer) };
        let mut tls = lock(tls);
        loop {
            match tls.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
            if tls.read_tls(&mut &self.stream)? == 0 {
                return Ok(0);
            }
            if let Err(error) = tls.process_new_packets() {
                // The alert tells the server why.
                let _ = tls.write_tls(&mut &self.stream);
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
            if tls.wants_write() {
                self.has_more.notify_one();
            }
        }
    }

    /// Of what is secret, what is left to be read is not what is there.
    fn is_secret(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.tls.is_some();
        #[cfg(not(feature = "tls"))]
        false
    }

    #[cfg(not(feature = "tls"))]
    fn read_some(&self, buffer: &mut [u8]) -> io::Result<usize> {
        (&self.stream).read(buffer)
    }

    /// Whether nobody sees to it yet that what comes is read; from now on somebody does.
    pub(crate) fn is_to_be_seen_to(&self) -> bool {
        !self.is_seen_to.swap(true, Relaxed)
    }

    pub(crate) fn was_seen_to(&self) {
        self.is_seen_to.store(false, Relaxed);
    }

    pub(crate) fn is_here(&self) -> bool {
        self.here.is_here()
    }

    /// Its driver finds that it has ended.
    pub(crate) fn close(&self) {
        // Fails where it has broken already.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// For a driver in the runtime where this is called.
    ///
    /// # Panics
    /// If that runtime is for nothing that is read and written.
    pub(crate) fn watched(self: Arc<Self>) -> io::Result<Watched> {
        let readiness = tokio::net::TcpStream::from_std(self.stream.try_clone()?)?;
        Ok(Watched { socket: self, readiness })
    }
}

/// A socket that one runtime watches.
pub(crate) struct Watched {
    pub socket: Arc<Socket>,
    /// Of the same connection, by another descriptor.
    readiness: tokio::net::TcpStream,
}

impl Watched {
    /// Hands on what comes, for as long as nothing is wrong. Ready if it has broken, or if more is there than is read at once.
    pub(crate) fn poll_read(&self, context: &mut Context<'_>, mut hand_on: impl FnMut(&[u8])) -> Poll<io::Result<()>> {
        let socket = &self.socket;
        loop {
            ready!(self.readiness.poll_read_ready(context))?;
            if !socket.is_here() {
                return Poll::Pending;
            }
            // Another task may have read it meanwhile, which is no error.
            if !self.until_blocked(Interest::READABLE, || socket.read(socket.is_secret(), &mut hand_on))? {
                return Poll::Ready(Ok(()));
            }
        }
    }

    /// Writes what is to be written, until it has broken.
    pub(crate) async fn writes(&self) -> io::Error {
        loop {
            self.socket.has_more.notified().await;
            // What many tasks send at the same time goes in one piece: a write costs more than all the rest.
            tokio::task::yield_now().await;
            while !self.socket.has_written() {
                let written = self.readiness.writable().await;
                let work = || Ok(!self.socket.has_written());
                if let Err(error) = written.and_then(|()| self.until_blocked(Interest::WRITABLE, work)) {
                    return error;
                }
            }
        }
    }

    /// Does work that returns whether the system would block: from then on it is not ready until there is more.
    fn until_blocked(&self, interest: Interest, work: impl FnOnce() -> io::Result<bool>) -> io::Result<bool> {
        let work = || if work()? { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(false) };
        let worked = self.readiness.try_io(interest, work);
        worked.or_else(|error| if error.kind() == io::ErrorKind::WouldBlock { Ok(true) } else { Err(error) })
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::fd::OwnedFd;

    /// The client's own thread has others to read from.
    #[test]
    fn a_server_that_sends_without_an_end_is_left_after_some_reads() {
        let (ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let ours = TcpStream::from(OwnedFd::from(ours));
        #[cfg(feature = "tls")]
        let socket = Socket::new(ours, Here::new().unwrap(), None);
        #[cfg(not(feature = "tls"))]
        let socket = Socket::new(ours, Here::new().unwrap());
        theirs.write_all(b"x").unwrap();
        let mut reads = 0;
        let is_all = socket.read(true, |_| {
            reads += 1;
            assert!(reads <= READS_MAX, "others wait for their turn");
            theirs.write_all(b"x").unwrap();
        });
        assert!(!is_all.unwrap(), "there is more");
        assert!(socket.read(true, |_| {}).unwrap());
    }
}
