//! A connection that sends any command and reads any reply, pub/sub messages included.

use crate::PATIENCE;
use crate::resp::{Frame, Protocol, Received, packed};
use std::io::{ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

pub struct Client {
    stream: UnixStream,
    received: Received,
}

/// A reply as tests compare it. RESP2 and RESP3 come out alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Nil,
    Int(i64),
    Text(String),
    List(Vec<Reply>),
    Error(String),
}

impl Client {
    pub fn connect(socket: &Path) -> std::io::Result<Self> {
        Self::connect_for(socket, PATIENCE)
    }

    /// A connection that waits up to `patience` for each reply.
    ///
    /// # Errors
    /// If no server listens there.
    pub fn connect_for(socket: &Path, patience: Duration) -> std::io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        Ok(Self { stream, received: Received::default() })
    }

    /// Sends a command and reads its reply.
    pub fn run<A: AsRef<[u8]>>(&mut self, command: &[A]) -> Reply {
        self.send(command);
        self.receive()
    }

    /// Sends a command and reads its reply from a server that may be gone or stalled. After an error the connection
    /// must not be used again.
    ///
    /// # Errors
    /// If it cannot be sent, or there is no reply in time.
    pub fn try_run<A: AsRef<[u8]>>(&mut self, command: &[A]) -> std::io::Result<Reply> {
        self.stream.write_all(&packed(command))?;
        self.next_reply()
    }

    /// A command given as words with spaces between them.
    pub fn say(&mut self, command: &str) -> Reply {
        self.run(&command.split_ascii_whitespace().collect::<Vec<_>>())
    }

    pub fn send<A: AsRef<[u8]>>(&mut self, command: &[A]) {
        self.stream.write_all(&packed(command)).expect("the server takes commands");
    }

    /// Sends several commands in one piece, so that the server reads them in one turn.
    pub fn send_together<A: AsRef<[u8]>>(&mut self, commands: &[&[A]]) {
        self.try_send_together(commands).expect("the server takes commands");
    }

    /// Sends many commands, given as words with spaces between them, before it reads the first reply.
    pub fn say_all<C: AsRef<str>>(&mut self, commands: impl IntoIterator<Item = C>) -> Vec<Reply> {
        let (mut bytes, mut count) = (Vec::new(), 0);
        for command in commands {
            bytes.extend_from_slice(&packed(&command.as_ref().split_ascii_whitespace().collect::<Vec<_>>()));
            count += 1;
        }
        self.stream.write_all(&bytes).expect("the server takes commands");
        (0..count).map(|_| self.receive()).collect()
    }

    /// Runs these commands in one transaction, and returns their replies.
    ///
    /// # Panics
    /// If one of them is refused before EXEC.
    pub fn transaction<C: AsRef<str>>(&mut self, commands: impl IntoIterator<Item = C>) -> Vec<Reply> {
        assert_eq!(self.say("MULTI"), text("OK"));
        let queued = self.say_all(commands);
        assert!(queued.iter().all(|reply| *reply == text("QUEUED")), "{queued:?}");
        self.say("EXEC").as_list().to_vec()
    }

    /// Sends several commands in one piece to a server that may be gone. [`Self::try_receive`] reads the replies.
    pub fn try_send_together<A: AsRef<[u8]>>(&mut self, commands: &[&[A]]) -> std::io::Result<()> {
        self.stream.write_all(&commands.iter().map(|command| packed(command)).collect::<Vec<_>>().concat())
    }

    /// The next reply, if the connection is not closed.
    pub fn try_receive(&mut self) -> Option<Reply> {
        self.next_reply().ok()
    }

    /// The next reply or message.
    pub fn receive(&mut self) -> Reply {
        self.next_reply().expect("the server answers")
    }

    /// The next reply as exact text. It has to be in this protocol, which HELLO has requested.
    ///
    /// # Panics
    /// If it breaks the protocol.
    pub fn receive_in(&mut self, protocol: Protocol) -> String {
        format!("{:?}", self.next_frame(protocol).expect("the server answers in the protocol"))
    }

    fn next_reply(&mut self) -> std::io::Result<Reply> {
        self.next_frame(Protocol::Either).map(Reply::from)
    }

    fn next_frame(&mut self, protocol: Protocol) -> std::io::Result<Frame> {
        loop {
            let taken = self.received.take(protocol);
            match taken.map_err(|malformed| std::io::Error::other(malformed.0))? {
                Some(frame) => return Ok(frame),
                None if self.received.read(&mut self.stream)? == 0 => return Err(ErrorKind::UnexpectedEof.into()),
                None => {}
            }
        }
    }

    /// Whether the server answers, and has loaded what it had on disk; or asks for a password.
    pub fn is_served(&mut self) -> bool {
        self.try_run(&["PING"]).is_ok_and(|reply| match reply {
            Reply::Error(line) => line.starts_with("NOAUTH"),
            reply => reply == text("PONG"),
        })
    }

    /// The server's clock, as its keys' expiries count it.
    pub fn time_ms(&mut self) -> i64 {
        let Reply::List(time) = self.run(&["TIME"]) else { panic!("TIME is a list") };
        let [seconds, micros] = [0, 1].map(|part: usize| time[part].as_text().parse::<i64>().unwrap());
        seconds * 1_000 + micros / 1_000
    }

    /// When a key expires, in Unix ms; -1 for never, -2 for a key that is not there.
    pub fn expiry(&mut self, key: &str) -> i64 {
        self.run(&["PEXPIRETIME", key]).as_int()
    }

    /// The fields of a hash with their values, in order of the fields.
    pub fn hash(&mut self, key: &str) -> Vec<(String, String)> {
        let Reply::List(flat) = self.run(&["HGETALL", key]) else { panic!("{key} is no hash") };
        let mut fields: Vec<_> =
            flat.chunks(2).map(|pair| (pair[0].as_text().to_owned(), pair[1].as_text().to_owned())).collect();
        fields.sort();
        fields
    }

    /// The same as text: `{field:value,…}`.
    pub fn fields(&mut self, key: &str) -> String {
        let fields: Vec<_> = self.hash(key).into_iter().map(|(field, value)| format!("{field}:{value}")).collect();
        format!("{{{}}}", fields.join(","))
    }

    /// Everything in the data set that a reader could see: each key's type, value and expiry.
    pub fn everything(&mut self) -> Vec<(String, String, Reply, i64)> {
        let Reply::List(keys) = self.run(&["KEYS", "*"]) else { panic!("KEYS is a list") };
        let mut names: Vec<_> = keys.iter().map(|key| key.as_text().to_owned()).collect();
        names.sort();
        let mut all = Vec::new();
        for name in names {
            let kind = self.run(&["TYPE", &name]).as_text().to_owned();
            let value = match kind.as_str() {
                "hash" => list(self.hash(&name).into_iter().flat_map(|(field, value)| [text(&field), text(&value)])),
                "zset" => self.run(&["ZRANGE", &name, "0", "-1", "WITHSCORES"]),
                _ => self.run(&["GET", &name]),
            };
            let expiry = self.expiry(&name);
            all.push((name, kind, value, expiry));
        }
        all
    }

    /// A digest of the whole data set, expiries included.
    pub fn digest(&mut self) -> String {
        self.run(&["DEBUG", "DIGEST"]).as_text().to_owned()
    }

    /// The names of all keys, in order.
    pub fn keys(&mut self) -> Vec<String> {
        self.everything().into_iter().map(|(name, ..)| name).collect()
    }
}

impl Reply {
    pub fn as_text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            other => panic!("not a text: {other:?}"),
        }
    }

    pub fn as_int(&self) -> i64 {
        match self {
            Self::Int(number) => *number,
            other => panic!("not a number: {other:?}"),
        }
    }

    pub fn as_list(&self) -> &[Reply] {
        match self {
            Self::List(list) => list,
            other => panic!("not a list: {other:?}"),
        }
    }

    /// The fencing token of a grant.
    #[track_caller]
    pub fn token(&self) -> i64 {
        match self {
            Self::List(pair) if pair[0] == Self::Nil => pair[1].as_int(),
            other => panic!("not a grant with a token: {other:?}"),
        }
    }

    /// The whole error line, its code first.
    pub fn as_error(&self) -> &str {
        match self {
            Self::Error(line) => line,
            other => panic!("not an error: {other:?}"),
        }
    }

    /// Texts of a list, however deep, in order: for looking something up in a long reply.
    pub fn words(&self) -> Vec<&str> {
        match self {
            Self::Text(text) => vec![text],
            Self::List(list) => list.iter().flat_map(Reply::words).collect(),
            _ => Vec::new(),
        }
    }
}

pub fn text(text: &str) -> Reply {
    Reply::Text(text.to_owned())
}

pub fn list(replies: impl IntoIterator<Item = Reply>) -> Reply {
    Reply::List(replies.into_iter().collect())
}

impl From<Frame> for Reply {
    fn from(frame: Frame) -> Self {
        let owned = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        match frame {
            Frame::Nil => Self::Nil,
            Frame::Int(number) => Self::Int(number),
            Frame::Simple(bytes) | Frame::Bulk(bytes) | Frame::Other(bytes) => Self::Text(owned(bytes)),
            Frame::Error(line) => Self::Error(line),
            Frame::List(frames) | Frame::Push(frames) => list(frames.into_iter().map(Self::from)),
            Frame::Map(pairs) => list(pairs.into_iter().flat_map(|(key, value)| [key.into(), value.into()])),
        }
    }
}
