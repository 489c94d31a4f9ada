//! A connection whose replies are read line by line, and hardly looked at.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

const PAUSE: Duration = Duration::from_millis(1);

pub struct Line {
    stream: BufReader<UnixStream>,
    text: String,
}

impl Line {
    pub async fn connect(socket: &Path) -> Self {
        loop {
            match UnixStream::connect(socket).await {
                Ok(stream) => return Self { stream: BufReader::new(stream), text: String::new() },
                // So many connect at once that the server has not yet accepted those before.
                Err(error) if error.kind() == ErrorKind::WouldBlock => tokio::time::sleep(PAUSE).await,
                Err(error) => panic!("the server accepts no connection: {error}"),
            }
        }
    }

    /// Sends what was packed before.
    pub async fn send(&mut self, packed: &[u8]) {
        self.stream.write_all(packed).await.expect("the server takes commands");
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

    /// Whatever has come by now, or comes next.
    pub async fn anything(&mut self) {
        let mut buffer = [0; 4096];
        let length = self.stream.read(&mut buffer).await.expect("the server answers");
        assert!(length > 0, "the server closed the connection");
    }
}

pub fn packed(words: &[&str]) -> Vec<u8> {
    let mut command = redis::Cmd::new();
    command.arg(words);
    command.get_packed_command()
}
