//! The protocol: commands as bytes, and what a server may say, read to the letter.
//!
//! A client library tolerates what servers do; this reader does not. A line with another end, a number with a plus, or
//! a type that the connection did not ask for is an error here. So is a byte too many or too few, because then the next
//! reply does not begin where it should. Nothing else is between the wire and a test: no time limits, no second try.

use std::fmt;
use std::io::{ErrorKind, Read};

/// A reply, or a message, byte for byte.
#[derive(Clone, PartialEq)]
pub enum Frame {
    Nil,
    Int(i64),
    /// A line: a status.
    Simple(Vec<u8>),
    Bulk(Vec<u8>),
    Error(String),
    /// An array or a set.
    List(Vec<Frame>),
    Map(Vec<(Frame, Frame)>),
    Push(Vec<Frame>),
    /// The line of a double, a boolean or a big number. None of our replies is one.
    Other(Vec<u8>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Resp2,
    Resp3,
    /// RESP3 as Redis before 7.2 speaks it: a push that a client's own transaction causes comes in the middle of the
    /// transaction's reply.
    LooseResp3,
    /// Whichever the server speaks, for callers that need not know.
    Either,
}

/// A reply that breaks the protocol.
#[derive(Debug, PartialEq, Eq)]
pub struct Malformed(pub String);

/// A part of a reply; `None` if more bytes have to come.
type Partial<T> = Result<Option<T>, Malformed>;

/// A command as it goes over the wire. Each argument is copied only once, because it may be as long as the server accepts.
pub fn packed<A: AsRef<[u8]>>(command: &[A]) -> Vec<u8> {
    let mut packed = format!("*{}\r\n", command.len()).into_bytes();
    for argument in command.iter().map(AsRef::as_ref) {
        packed.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        packed.extend_from_slice(argument);
        packed.extend_from_slice(b"\r\n");
    }
    packed
}

/// The first reply in these bytes, and its length.
fn first(bytes: &[u8], protocol: Protocol) -> Partial<(Frame, usize)> {
    let mut reader = Reader { bytes, at: 0, protocol };
    Ok(reader.frame()?.map(|frame| (frame, reader.at)))
}

/// What has come over a connection, and is not taken yet.
#[derive(Default)]
pub struct Received {
    bytes: Vec<u8>,
    taken: usize,
}

impl Received {
    /// Reads once, as much as is there. Returns how many bytes: 0 if the connection is closed.
    ///
    /// # Errors
    /// The stream's errors; an interrupted read is repeated.
    pub fn read(&mut self, stream: &mut impl Read) -> std::io::Result<usize> {
        let mut piece = [0; 16 * 1_024];
        loop {
            match stream.read(&mut piece) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => {
                    self.add(&piece[..*read.as_ref().unwrap_or(&0)]);
                    return read;
                }
            }
        }
    }

    /// Adds bytes to those that came before.
    pub fn add(&mut self, bytes: &[u8]) {
        self.bytes.drain(..std::mem::take(&mut self.taken));
        self.bytes.extend_from_slice(bytes);
    }

    /// Takes the first reply, if all of it has come.
    ///
    /// # Errors
    /// If it breaks the protocol.
    pub fn take(&mut self, protocol: Protocol) -> Partial<Frame> {
        let first = first(&self.bytes[self.taken..], protocol)?;
        Ok(first.map(|(frame, length)| {
            self.taken += length;
            frame
        }))
    }

    /// Whether everything that has come is taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.taken == self.bytes.len()
    }
}

impl Protocol {
    fn has_old_nil(self) -> bool {
        matches!(self, Self::Resp2 | Self::Either)
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    protocol: Protocol,
}

/// Returns `None` from the function if more bytes have to come.
macro_rules! whole {
    ($read:expr) => {
        match $read? {
            Some(it) => it,
            None => return Ok(None),
        }
    };
}

impl<'a> Reader<'a> {
    fn frame(&mut self) -> Partial<Frame> {
        let Some(kind) = self.bytes.get(self.at).copied() else { return Ok(None) };
        if !b"+-:$*_#,(!=%~>|".contains(&kind) || self.protocol == Protocol::Resp2 && !b"+-:$*".contains(&kind) {
            return Err(self.malformed("a reply of a type that there is not, or not in this protocol"));
        }
        self.at += 1;
        let line = whole!(self.line());
        Ok(Some(match kind {
            b'+' => Frame::Simple(line.to_vec()),
            b'-' if line.is_empty() => return Err(self.malformed("an error without a word")),
            b'-' => Frame::Error(String::from_utf8_lossy(line).into_owned()),
            b':' => Frame::Int(self.number(line)?),
            b'_' if line.is_empty() => Frame::Nil,
            b'#' if line == b"t" || line == b"f" => Frame::Other(line.to_vec()),
            b',' | b'(' if !line.is_empty() => Frame::Other(line.to_vec()),
            b'$' | b'*' if line == b"-1" && self.protocol.has_old_nil() => Frame::Nil,
            b'$' => Frame::Bulk(whole!(self.bulk(line))),
            b'=' => match whole!(self.bulk(line)).split_at_checked(4) {
                // The text comes after the three letters of its format and a colon.
                Some((_, text)) => Frame::Bulk(text.to_vec()),
                None => return Err(self.malformed("a text without its kind")),
            },
            b'!' => Frame::Error(String::from_utf8_lossy(&whole!(self.bulk(line))).into_owned()),
            b'*' | b'~' => Frame::List(whole!(self.list(line, 1))),
            b'>' => Frame::Push(whole!(self.list(line, 1))),
            b'%' => Frame::Map(pairs(whole!(self.list(line, 2)))),
            // Attributes of the reply that follows.
            b'|' => {
                whole!(self.list(line, 2));
                whole!(self.frame())
            }
            _ => return Err(self.malformed("a line that its type does not have")),
        }))
    }

    fn line(&mut self) -> Partial<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        let Some(end) = rest.iter().position(|byte| *byte == b'\n' || *byte == b'\r') else { return Ok(None) };
        match rest.get(end..end + 2) {
            Some(b"\r\n") => {
                self.at += end + 2;
                Ok(Some(&rest[..end]))
            }
            None if rest[end] == b'\r' => Ok(None),
            _ => Err(self.malformed("a line that ends otherwise than with CR and LF")),
        }
    }

    fn number(&self, line: &[u8]) -> Result<i64, Malformed> {
        let text = std::str::from_utf8(line).unwrap_or_default();
        let number = text.parse().ok().filter(|number: &i64| number.to_string() == text);
        number.ok_or_else(|| self.malformed("no number"))
    }

    fn length(&self, line: &[u8]) -> Result<usize, Malformed> {
        usize::try_from(self.number(line)?).map_err(|_| self.malformed("a length below nought"))
    }

    fn bulk(&mut self, line: &[u8]) -> Partial<Vec<u8>> {
        let length = self.length(line)?;
        let Some(bytes) = self.bytes.get(self.at..self.at + length + 2) else { return Ok(None) };
        let Some(content) = bytes.strip_suffix(b"\r\n") else {
            return Err(self.malformed("a string of another length"));
        };
        self.at += bytes.len();
        Ok(Some(content.to_vec()))
    }

    fn list(&mut self, line: &[u8], each: usize) -> Partial<Vec<Frame>> {
        let mut frames = Vec::new();
        let length = self.length(line)? * each;
        while frames.len() < length {
            match whole!(self.frame()) {
                Frame::Push(_) if self.protocol == Protocol::Resp3 => {
                    return Err(self.malformed("a message in the middle of a reply"));
                }
                Frame::Push(_) => {}
                frame => frames.push(frame),
            }
        }
        Ok(Some(frames))
    }

    fn malformed(&self, what: &str) -> Malformed {
        let around = &self.bytes[self.at.saturating_sub(60)..self.bytes.len().min(self.at + 60)];
        Malformed(format!("{what}, at byte {} of …{}…", self.at, around.escape_ascii()))
    }
}

fn pairs(frames: Vec<Frame>) -> Vec<(Frame, Frame)> {
    frames.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
}

impl Frame {
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        if let Self::Error(line) = self { Some(line) } else { None }
    }

    #[must_use]
    pub fn is(&self, status: &str) -> bool {
        matches!(self, Self::Simple(line) if line == status.as_bytes())
    }

    /// The text of a string; empty for other frames.
    #[must_use]
    pub fn text(&self) -> &[u8] {
        if let Self::Simple(text) | Self::Bulk(text) = self { text } else { b"" }
    }

    /// The pairs of a map, which is a flat list in RESP2.
    #[must_use]
    pub fn pairs(&self) -> Option<Vec<(Frame, Frame)>> {
        match self {
            Self::Map(pairs) => Some(pairs.clone()),
            Self::List(flat) if flat.len() % 2 == 0 => Some(pairs(flat.clone())),
            _ => None,
        }
    }

    /// Whether an error in it, at any depth, contains this text.
    #[must_use]
    pub fn mentions(&self, what: &str) -> bool {
        match self {
            Self::Error(line) => line.contains(what),
            Self::List(frames) | Self::Push(frames) => frames.iter().any(|frame| frame.mentions(what)),
            _ => false,
        }
    }
}

/// For people, so not at full length.
impl fmt::Debug for Frame {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nil => write!(formatter, "nil"),
            Self::Int(number) => write!(formatter, "{number}"),
            Self::Simple(text) => write!(formatter, "+{}", text.escape_ascii()),
            Self::Bulk(text) => write!(formatter, "\"{}\"", text[..text.len().min(80)].escape_ascii()),
            Self::Error(line) => write!(formatter, "-{line}"),
            Self::List(frames) => formatter.debug_list().entries(frames).finish(),
            Self::Push(frames) => formatter.debug_tuple("push").field(frames).finish(),
            Self::Map(pairs) => formatter.debug_map().entries(pairs.iter().map(|(name, value)| (name, value))).finish(),
            Self::Other(line) => write!(formatter, "another: {}", line.escape_ascii()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read_to_the_letter() {
        use Protocol::{Either, LooseResp3, Resp2, Resp3};
        let whole: [(&[u8], Protocol, Frame); 8] = [
            (b"$-1\r\n", Resp2, Frame::Nil),
            (b"_\r\n", Resp3, Frame::Nil),
            (b":-7\r\n", Resp2, Frame::Int(-7)),
            (b"$4\r\na\r\nb\r\n", Resp2, Frame::Bulk(b"a\r\nb".to_vec())),
            (b"-WRONGKIND no\r\n", Resp2, Frame::Error("WRONGKIND no".to_owned())),
            (b"*2\r\n:1\r\n*-1\r\n", Resp2, Frame::List(vec![Frame::Int(1), Frame::Nil])),
            (b"%1\r\n+a\r\n_\r\n", Resp3, Frame::Map(vec![(Frame::Simple(b"a".to_vec()), Frame::Nil)])),
            (b">1\r\n+a\r\n", Resp3, Frame::Push(vec![Frame::Simple(b"a".to_vec())])),
        ];
        for (bytes, protocol, frame) in whole {
            assert_eq!(first(bytes, protocol), Ok(Some((frame, bytes.len()))));
            for end in 0..bytes.len() {
                assert_eq!(first(&bytes[..end], protocol), Ok(None), "{}", bytes[..end].escape_ascii());
            }
        }
        let broken: [&[u8]; 10] = [
            b"x\r\n",
            b":+1\r\n",
            b":01\r\n",
            b"+a\n",
            b"+a\rb",
            b"$1\r\nab\r\n",
            b"$-2\r\n",
            b"-\r\n",
            b"_x\r\n",
            b"$-1\r\n",
        ];
        for bytes in broken {
            assert!(first(bytes, Resp3).is_err(), "{}", bytes.escape_ascii());
        }
        let interrupted = b"*1\r\n>1\r\n+a\r\n:1\r\n";
        assert!(first(interrupted, Resp3).is_err(), "a message in the middle of a reply");
        let whole = Frame::List(vec![Frame::Int(1)]);
        assert_eq!(first(interrupted, LooseResp3), Ok(Some((whole, interrupted.len()))));
        assert!(first(b"_\r\n", Resp2).is_err(), "a type of the other protocol");
        for nil in [b"_\r\n".as_slice(), b"$-1\r\n", b"*-1\r\n"] {
            assert_eq!(first(nil, Either), Ok(Some((Frame::Nil, nil.len()))));
        }
    }

    #[test]
    fn what_has_come_is_taken_reply_by_reply() {
        let mut received = Received::default();
        for (piece, replies) in [(":1\r\n:", 1), ("2\r", 0), ("\n:3\r\n:4\r\n", 3), ("", 0)] {
            assert_eq!(received.read(&mut piece.as_bytes()).unwrap(), piece.len());
            let taken = std::iter::from_fn(|| received.take(Protocol::Resp2).unwrap()).count();
            assert_eq!(taken, replies, "{piece:?}");
        }
        assert!(received.is_empty());
        assert_eq!(packed(&["DEL", "ä"]), "*2\r\n$3\r\nDEL\r\n$2\r\nä\r\n".as_bytes());
    }
}
