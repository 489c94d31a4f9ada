//! Commands as bytes on the wire, packed before the clock runs, and replies that are only counted.
//!
//! A client that costs more than the server would hide what the server costs. So replies are hardly parsed: all measured
//! commands have replies of one line.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Commands that are sent in one piece.
#[derive(Default)]
pub struct Batch {
    bytes: Vec<u8>,
    pub commands: usize,
}

impl Batch {
    pub fn add(&mut self, words: &[&str]) {
        let mut packed = redis::Cmd::new();
        packed.arg(words).write_packed_command(&mut self.bytes);
        self.commands += 1;
    }
}

/// A connection that sends batches.
pub struct Pipe {
    stream: UnixStream,
    buffer: Vec<u8>,
}

impl Pipe {
    pub fn to(server: &rlock_testing::Server) -> Self {
        let stream = UnixStream::connect(server.socket()).expect("the server accepts connections");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket with a timeout");
        Self { stream, buffer: vec![0; 64 * 1024] }
    }

    pub fn send(&mut self, batch: &Batch) {
        self.stream.write_all(&batch.bytes).expect("the server takes commands");
    }

    /// Reads the replies to a batch.
    pub fn finish(&mut self, batch: &Batch) {
        let mut missing = batch.commands;
        let mut begins = true;
        while missing > 0 {
            let length = self.stream.read(&mut self.buffer).expect("the server answers in time");
            assert!(length > 0, "the server closed the connection");
            for &byte in &self.buffer[..length] {
                assert!(!(begins && byte == b'-'), "an error: {}", String::from_utf8_lossy(&self.buffer[..length]));
                begins = byte == b'\n';
                missing -= usize::from(begins);
            }
        }
    }

    pub fn run(&mut self, batch: &Batch) {
        self.send(batch);
        self.finish(batch);
    }
}
