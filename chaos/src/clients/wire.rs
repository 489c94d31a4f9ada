//! One connection: bytes out, replies in. It knows no time limits; whoever is tired of waiting drops it, and with it all
//! answers that are still to come.

use super::resp::{self, Command, Missing};
use rlock_testing::Reply;
use std::io;
use std::net::Ipv4Addr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub struct Wire {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Wire {
    pub async fn connect(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, received: Vec::new() })
    }

    /// Sends all of them in one piece, and reads as many replies. Dropped before that, it must not be used again.
    pub async fn ask(&mut self, commands: &[Command]) -> io::Result<Vec<Reply>> {
        self.send(commands).await?;
        let mut replies = Vec::with_capacity(commands.len());
        for _ in commands {
            replies.push(self.receive().await?);
        }
        Ok(replies)
    }

    /// Sends all of them in one piece, whose replies are read one by one. Dropped before it is done, it must not be used
    /// again.
    pub async fn send(&mut self, commands: &[Command]) -> io::Result<()> {
        self.stream.write_all(&resp::packed(commands)).await
    }

    /// The next reply. Nothing is lost if it is dropped before.
    pub async fn receive(&mut self) -> io::Result<Reply> {
        loop {
            match resp::reply(&self.received) {
                Ok((reply, length)) => {
                    self.received.drain(..length);
                    return Ok(reply);
                }
                Err(Missing::Sense(what)) => return Err(io::Error::new(io::ErrorKind::InvalidData, what)),
                Err(Missing::Rest) => {}
            }
            if self.stream.read_buf(&mut self.received).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}
