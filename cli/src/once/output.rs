//! CMD's standard output, which becomes the answer.
//!
//! A task reads it while CMD runs, also while CMD is being ended: an unread pipe would stop CMD. The answer ends with
//! CMD: a process that CMD left in the background may keep the pipe open forever.

use crate::failure::Failure;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::process::Stdio;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::{self, Receiver};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The maximum of `rlock.max-answer`. What is longer is read and dropped.
pub const LONGEST: usize = 8 * 1024 * 1024;

const PIECE: usize = 64 * 1024;

pub struct Output {
    cmd_ended: oneshot::Sender<()>,
    read: JoinHandle<std::io::Result<Vec<u8>>>,
}

impl Output {
    /// Also returns the end of the pipe that CMD gets.
    pub fn open() -> Result<(Self, Stdio), Failure> {
        let (sender, receiver) = pipe::pipe().map_err(Failure::of_the_system)?;
        let stdout = sender.into_blocking_fd().map_err(Failure::of_the_system)?;
        let (cmd_ended, ended) = oneshot::channel();
        Ok((Self { cmd_ended, read: tokio::spawn(read(receiver, ended)) }, stdout.into()))
    }

    /// CMD's output, after CMD has ended. If it exceeds `LONGEST`, only a part of it, which also exceeds that.
    pub async fn end(self) -> Result<Vec<u8>, Failure> {
        let _ = self.cmd_ended.send(());
        let bytes = self.read.await.map_err(|error| Failure::system(error.to_string()))?;
        bytes.map_err(Failure::of_the_system)
    }
}

async fn read(mut pipe: Receiver, mut cmd_ended: oneshot::Receiver<()>) -> std::io::Result<Vec<u8>> {
    let (mut bytes, mut piece) = (Vec::new(), vec![0; PIECE]);
    loop {
        let count = tokio::select! {
            biased;
            _ = &mut cmd_ended => break,
            count = pipe.read(&mut piece) => count?,
        };
        if count == 0 {
            return Ok(bytes);
        }
        keep(&mut bytes, &piece[..count]);
    }
    // Not by `try_read`: the runtime may not know yet that there is something.
    let mut pipe = File::from(pipe.into_nonblocking_fd()?);
    loop {
        match pipe.read(&mut piece) {
            Ok(0) => return Ok(bytes),
            Ok(count) => keep(&mut bytes, &piece[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(bytes),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn keep(bytes: &mut Vec<u8>, piece: &[u8]) {
    if bytes.len() <= LONGEST {
        bytes.extend_from_slice(piece);
    }
}
