//! One connection to a server. Any thread may write to it and read from it without blocking: a sender writes at once in
//! its own thread, and the first thread that can reads what has come. Bytes are sent in the order in which they are
//! added, and delivered in the order in which they came.
//!
//! The runtime of its lane reads it as soon as something comes: the client's own thread, or a caller's runtime.

use crate::mutex::lock;
use crate::process::Process;
use std::io::{self, Read, Write};
use std::mem;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use tokio::io::Interest;
use tokio::sync::Notify;

/// The size of one read, and how many reads come before other tasks: a server may send without end.
const READ: usize = 64 * 1_024;
const READS_MAX: usize = 16;

pub(crate) struct Socket {
    /// TCP, or a Unix socket: reading, writing and shutting down are the same system calls.
    stream: TcpStream,
    /// Bytes to send that no writer has taken yet.
    added: Mutex<Vec<u8>>,
    /// Bytes being sent. The writer locks it.
    writing: Mutex<Vec<u8>>,
    /// The reader locks it until the bytes are delivered.
    reading: Mutex<Vec<u8>>,
    #[cfg(feature = "tls")]
    tls: Option<Mutex<rustls::ClientConnection>>,
    /// Notifies the driver that there is something to write.
    has_more: Notify,
    /// The process that owns it: a fork has the same connection, and must not use it.
    process: Process,
    /// A timer will check whether the driver has read what comes.
    is_seen_to: AtomicBool,
}

impl Socket {
    pub(crate) fn new(
        stream: TcpStream,
        process: Process,
        #[cfg(feature = "tls")] tls: Option<rustls::ClientConnection>,
    ) -> Self {
        let (added, writing, has_more, is_seen_to) = Default::default();
        let reading = Mutex::new(vec![0; READ]);
        #[cfg(feature = "tls")]
        return Self { stream, added, writing, reading, tls: tls.map(Mutex::new), has_more, is_seen_to, process };
        #[cfg(not(feature = "tls"))]
        Self { stream, added, writing, reading, has_more, is_seen_to, process }
    }

    /// Adds bytes to send, without sending.
    pub(crate) fn add(&self, bytes: &[u8]) {
        lock(&self.added).extend_from_slice(bytes);
    }

    /// Lets the driver write, together with what is added until its turn.
    pub(crate) fn write_soon(&self) {
        self.has_more.notify_one();
    }

    /// Writes what can be written now; the driver writes the rest. If the connection breaks, the reader notices.
    pub(crate) fn write(&self) {
        if !self.has_written() {
            self.has_more.notify_one();
        }
    }

    /// Writes what can be written now. Returns whether everything is written.
    fn has_written(&self) -> bool {
        let mut writing = lock(&self.writing);
        let added = mem::take(&mut *lock(&self.added));
        #[cfg(feature = "tls")]
        let added = match &self.tls {
            Some(tls) => {
                let mut tls = lock(tls);
                // It buffers everything.
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
                // The connection broke: the reader notices, and the rest is dropped.
                _ => break,
            }
        }
        true
    }

    /// Delivers what has come, and returns whether nothing more comes for now. `is_ended`: the end of the connection may
    /// follow a short read; otherwise a short read was everything.
    ///
    /// # Errors
    /// The connection broke.
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
                // The alert tells the server the reason.
                let _ = tls.write_tls(&mut &self.stream);
                return Err(io::Error::new(io::ErrorKind::InvalidData, error));
            }
            if tls.wants_write() {
                self.has_more.notify_one();
            }
        }
    }

    /// Whether it is encrypted: then the readable bytes are not the content.
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

    /// Returns whether no timer checks it yet. From now on the caller's timer does.
    pub(crate) fn is_to_be_seen_to(&self) -> bool {
        !self.is_seen_to.swap(true, Relaxed)
    }

    pub(crate) fn was_seen_to(&self) {
        self.is_seen_to.store(false, Relaxed);
    }

    pub(crate) fn is_in_this_process(&self) -> bool {
        self.process.is_current()
    }

    /// Shuts the connection down. Its driver finds that it has ended.
    pub(crate) fn close(&self) {
        // Fails if it has broken already.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// For a driver in the current runtime.
    ///
    /// # Panics
    /// If that runtime has no I/O.
    pub(crate) fn watched(self: Arc<Self>) -> io::Result<Watched> {
        let readiness = tokio::net::TcpStream::from_std(self.stream.try_clone()?)?;
        Ok(Watched { socket: self, readiness })
    }
}

/// A socket that one runtime watches.
pub(crate) struct Watched {
    pub socket: Arc<Socket>,
    /// The same connection, with another descriptor.
    readiness: tokio::net::TcpStream,
}

impl Watched {
    /// Delivers what comes. Ready if it broke, or if there is more than is read at once.
    pub(crate) fn poll_read(&self, context: &mut Context<'_>, mut hand_on: impl FnMut(&[u8])) -> Poll<io::Result<()>> {
        let socket = &self.socket;
        loop {
            ready!(self.readiness.poll_read_ready(context))?;
            if !socket.is_in_this_process() {
                return Poll::Pending;
            }
            // Another task may have read it in the meantime, which is no error.
            if !self.until_blocked(Interest::READABLE, || socket.read(socket.is_secret(), &mut hand_on))? {
                return Poll::Ready(Ok(()));
            }
        }
    }

    /// Writes until the connection breaks.
    pub(crate) async fn writes(&self) -> io::Error {
        loop {
            self.socket.has_more.notified().await;
            // Requests that many tasks send at the same time go in one piece: a write costs more than everything else.
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

    /// Does work that returns whether the system would block. If so, the socket is not ready until there is more.
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

    /// The client's own thread has other servers to read from.
    #[test]
    fn a_server_that_sends_without_an_end_is_left_after_some_reads() {
        let (ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let ours = TcpStream::from(OwnedFd::from(ours));
        #[cfg(feature = "tls")]
        let socket = Socket::new(ours, Process::new().unwrap(), None);
        #[cfg(not(feature = "tls"))]
        let socket = Socket::new(ours, Process::new().unwrap());
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
