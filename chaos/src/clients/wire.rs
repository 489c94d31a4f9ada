//! One connection: commands out, replies in, as they are. It has no time limits and no second try, so the record is
//! exactly what was sent and received. To stop waiting is to drop it, together with all outstanding answers.

use rlock_testing::Reply;
use rlock_testing::resp::{Protocol, Received, packed};
use std::io;
use std::net::Ipv4Addr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A command as its words.
pub type Command = Vec<String>;

pub struct Wire {
    stream: TcpStream,
    received: Received,
}

impl Wire {
    pub async fn connect(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, received: Received::default() })
    }

    /// Sends all commands in one piece, and reads as many replies. If this call is dropped early, never use the wire again.
    pub async fn ask(&mut self, commands: &[Command]) -> io::Result<Vec<Reply>> {
        let bytes: Vec<u8> = commands.iter().flat_map(|command| packed(command)).collect();
        self.stream.write_all(&bytes).await?;
        let mut replies = Vec::with_capacity(commands.len());
        for _ in commands {
            replies.push(self.receive().await?);
        }
        Ok(replies)
    }

    async fn receive(&mut self) -> io::Result<Reply> {
        loop {
            let reply = self.received.take(Protocol::Either).map_err(|malformed| io::Error::other(malformed.0))?;
            if let Some(reply) = reply {
                return Ok(Reply::from(reply));
            }
            let mut piece = [0; 4 * 1_024];
            match self.stream.read(&mut piece).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                length => self.received.add(&piece[..length]),
            }
        }
    }
}
