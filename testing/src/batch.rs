//! Thousands of clients that each send one command and wait for its reply, in one thread.
//!
//! A thread for each client would cost more than the server under test, and reading one client after the other would
//! not show when each was answered.

use crate::resp::{Protocol, Received, packed};
use crate::{PATIENCE, Reply, Server, unix_ms};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::io::{ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Instant;

/// What else a test has open: its own connections to the server, and the server's files, if it inherits the limit.
const OTHER_FILES: u64 = 500;

/// With fewer clients there is no storm.
const FEWEST: usize = 3_000;

/// How many clients a batch can have here: as many as wanted, if the limit of open files allows it. The soft limit is
/// raised to the hard one, and a server that is started afterwards inherits it.
///
/// # Panics
/// If the limit allows too few clients for a meaningful test.
pub fn batch_of(wanted: usize) -> usize {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit of open files");
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).expect("the soft limit may be as high as the hard one");
    let possible = usize::try_from(hard.saturating_sub(OTHER_FILES)).unwrap_or(usize::MAX);
    if possible >= wanted {
        return wanted;
    }
    assert!(possible >= FEWEST, "{FEWEST} clients at least are needed, but the hard limit of open files is {hard}");
    println!("{possible} clients instead of {wanted}: the hard limit of open files is {hard}");
    possible
}

/// Raises the limit of open files for this many clients, for this process and the servers that it starts from now on;
/// beyond the hard limit if that is allowed.
///
/// # Errors
/// Why there cannot be so many.
pub fn make_room_for(clients: usize) -> Result<(), String> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit of open files");
    let files = u64::try_from(clients).expect("a number of files").saturating_add(OTHER_FILES);
    let limit = files.max(hard);
    setrlimit(Resource::RLIMIT_NOFILE, limit, limit).map_err(|error| {
        format!("{files} open files are needed, and the hard limit of {hard} cannot be raised ({error})")
    })
}

pub struct Batch {
    epoll: Epoll,
    members: Vec<Member>,
}

struct Member {
    stream: UnixStream,
    received: Received,
    answer: Option<Answer>,
}

/// The reply to a client's command.
#[derive(Clone, Debug)]
pub struct Answer {
    /// None if the connection was closed instead.
    pub reply: Option<Reply>,
    /// When it was read, in Unix ms.
    pub at: i64,
}

impl Batch {
    pub fn connect(server: &Server, size: usize) -> Self {
        Self::at(&server.socket(), size)
    }

    /// By a server's socket, for callers without a [`Server`].
    pub fn at(socket: &Path, size: usize) -> Self {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).expect("an epoll");
        let members = (0..size).map(|number| {
            let stream = UnixStream::connect(socket).expect("the server accepts connections");
            stream.set_nonblocking(true).expect("a socket that does not block");
            let event = EpollEvent::new(EpollFlags::EPOLLIN, number as u64);
            epoll.add(&stream, event).expect("a socket that can be waited for");
            Member { stream, received: Received::default(), answer: None }
        });
        let members = members.collect();
        Self { epoll, members }
    }

    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// Sends one client's command: it then has no answer yet.
    pub fn say(&mut self, number: usize, command: &str) {
        let member = &mut self.members[number];
        member.answer = None;
        let bytes = packed(&command.split_ascii_whitespace().collect::<Vec<_>>());
        member.stream.write_all(&bytes).expect("there is room for one command");
    }

    /// Reads until this many clients have their answers. Returns how many have one: fewer only if the others got none
    /// in time.
    pub fn collect(&mut self, wanted: usize) -> usize {
        let deadline = Instant::now() + PATIENCE;
        let mut answered = self.answered();
        let mut events = [EpollEvent::empty(); 256];
        while answered < wanted && Instant::now() < deadline {
            let count = self.epoll.wait(&mut events, EpollTimeout::from(100_u8)).unwrap_or(0);
            let at = unix_ms();
            for event in &events[..count] {
                let number = usize::try_from(event.data()).expect("a number that was given");
                answered += usize::from(self.read(number, at));
            }
        }
        answered
    }

    /// The answer of each client, if there is one.
    pub fn answers(&self) -> impl Iterator<Item = Option<&Answer>> {
        self.members.iter().map(|member| member.answer.as_ref())
    }

    pub fn answered(&self) -> usize {
        self.answers().flatten().count()
    }

    /// Whether the client has its answer now, and had none before.
    fn read(&mut self, number: usize, at: i64) -> bool {
        let member = &mut self.members[number];
        let reply = match member.received.read(&mut member.stream) {
            Ok(0) => None,
            Ok(_) => {
                // It may be only the beginning.
                let taken = member.received.take(Protocol::Either).expect("the server keeps to the protocol");
                let Some(frame) = taken else { return false };
                assert!(member.received.is_empty(), "client {number} is answered once: {frame:?}");
                Some(Reply::from(frame))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            Err(_) => None,
        };
        if reply.is_none() {
            // Otherwise epoll would report it forever.
            let _ = self.epoll.delete(&member.stream);
        }
        assert!(member.answer.is_none() || reply.is_none(), "client {number} is answered once: {reply:?}");
        let is_first = member.answer.is_none();
        if is_first {
            member.answer = Some(Answer { reply, at });
        }
        is_first
    }
}
