//! A replica in name only: it asks a server for its replication stream, and keeps what comes.

use crate::dump::hash_in_words;
use crate::resp::{Frame, Protocol, Received};
use crate::{Client, PATIENCE, Server};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

pub struct Tap {
    stream: UnixStream,
    received: Received,
    marker: Client,
    marks: usize,
}

impl Tap {
    /// Starts to listen. Every later change comes through.
    pub fn on(server: &Server) -> Self {
        let mut stream = UnixStream::connect(server.socket()).expect("the server accepts connections");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket with a timeout");
        stream.write_all(b"SYNC\r\n").expect("the server takes commands");
        // The data set so far: a length, and that many bytes. Line feeds come before it while the server prepares it.
        let length = std::iter::repeat_with(|| line(&mut stream)).find(|line| !line.is_empty()).expect("a length");
        let length = length.strip_prefix('$').and_then(|digits| digits.parse().ok()).expect("a length");
        std::io::copy(&mut (&mut stream).take(length), &mut std::io::sink()).expect("a data set");
        Self { stream, received: Received::default(), marker: server.client(), marks: 0 }
    }

    /// All commands that were replicated since the last call, as words with spaces between them.
    pub fn drain(&mut self) -> Vec<String> {
        self.marks += 1;
        let mark = format!("PUBLISH mark {}", self.marks);
        self.marker.say(&mark);
        let mut commands = Vec::new();
        loop {
            let command = in_words(self.next_command());
            if command == mark {
                return commands;
            }
            let name = command.split(' ').next().unwrap_or_default();
            let bookkeeping = ["PING", "SELECT", "REPLCONF"].iter().any(|known| name.eq_ignore_ascii_case(known));
            if !bookkeeping {
                commands.push(command);
            }
        }
    }

    fn next_command(&mut self) -> Frame {
        loop {
            if let Some(command) = self.received.take(Protocol::Resp2).expect("the stream is in good form") {
                return command;
            }
            assert!(self.received.read(&mut self.stream).expect("the stream goes on") > 0, "the stream has ended");
        }
    }
}

fn in_words(command: Frame) -> String {
    let Frame::List(arguments) = command else { panic!("a command is an array: {command:?}") };
    let word = |argument| match argument {
        Frame::Bulk(bytes) => hash_in_words(&bytes).unwrap_or_else(|| String::from_utf8_lossy(&bytes).into_owned()),
        other => panic!("an argument is a string: {other:?}"),
    };
    arguments.into_iter().map(word).collect::<Vec<_>>().join(" ")
}

fn line(stream: &mut UnixStream) -> String {
    let mut line = String::new();
    loop {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("the stream goes on");
        match byte[0] {
            b'\n' => return line.trim_end().to_owned(),
            byte => line.push(char::from(byte)),
        }
    }
}
