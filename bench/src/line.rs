//! A connection that reads replies line by line, mostly unparsed.

use redis::ToRedisArgs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

/// Lines of the answer to SUBSCRIBE.
const SUBSCRIBED: usize = 6;

const PAUSE: Duration = Duration::from_millis(1);

pub struct Line<S = UnixStream> {
    stream: BufReader<S>,
    text: String,
}

impl Line {
    pub async fn connect(socket: &Path) -> Self {
        loop {
            match UnixStream::connect(socket).await {
                Ok(stream) => return Self::of(stream),
                // Many clients connect at once, and the server has not yet accepted earlier ones.
                Err(error) if error.kind() == ErrorKind::WouldBlock => tokio::time::sleep(PAUSE).await,
                Err(error) => panic!("the server accepts no connection: {error}"),
            }
        }
    }

    /// A connection that is subscribed to a channel: messages that are published from now on arrive.
    pub async fn subscribed(socket: &Path, channel: &str) -> Self {
        let mut line = Self::connect(socket).await;
        line.send(&packed(&["SUBSCRIBE", channel])).await;
        line.skip(SUBSCRIBED).await;
        line
    }

    /// Sends what was packed before.
    pub async fn send(&mut self, packed: &[u8]) {
        self.stream.write_all(packed).await.expect("the server takes commands");
    }

    /// Splits the connection, so that one task sends while another reads. All replies must have been read.
    pub fn split(self) -> (Line<OwnedReadHalf>, OwnedWriteHalf) {
        let (replies, commands) = self.stream.into_inner().into_split();
        (Line::of(replies), commands)
    }
}

impl<S: AsyncRead + Unpin> Line<S> {
    fn of(stream: S) -> Self {
        Self { stream: BufReader::new(stream), text: String::new() }
    }

    /// The next line of a reply.
    pub async fn next(&mut self) -> &str {
        self.text.clear();
        let length = self.stream.read_line(&mut self.text).await.expect("the server answers");
        assert!(length > 0 && !self.text.starts_with('-'), "an error: {}", self.text);
        &self.text
    }

    pub async fn skip(&mut self, lines: usize) {
        for _ in 0..lines {
            self.next().await;
        }
    }

    /// Reads the bytes that have arrived, or waits for the next ones.
    pub async fn anything(&mut self) {
        let mut buffer = [0; 4096];
        let length = self.stream.read(&mut buffer).await.expect("the server answers");
        assert!(length > 0, "the server closed the connection");
    }
}

pub fn packed(words: &[impl ToRedisArgs]) -> Vec<u8> {
    let mut command = redis::Cmd::new();
    command.arg(words);
    command.get_packed_command()
}
