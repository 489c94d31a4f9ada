//! What clients send and servers reply: RESP version 2, and what sentinels use of version 3.

/// The reply to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Nothing.
    Nil,
    /// A number.
    Int(i64),
    /// A text or any bytes.
    Text(Vec<u8>),
    /// A status such as `OK`.
    Word(Vec<u8>),
    /// Several replies in one.
    List(Vec<Reply>),
    /// An error within a list: the server's line.
    Error(String),
}

/// No real server nests lists deeper, or sends longer lines or larger replies. A hostile one must not take all memory.
const DEPTH_MAX: usize = 16;
const LINE_MAX: usize = 64 * 1_024;
pub const REPLY_MAX: usize = 64 * 1_024 * 1_024;

/// The first byte of a reply is one of these.
const MARKS: &[u8] = b"+,(-:#_$=*~>%";

/// Bytes that are no RESP.
#[derive(Debug, PartialEq, Eq)]
pub struct Garbled;

/// Appends one command.
pub fn write<A: AsRef<[u8]>>(out: &mut Vec<u8>, command: &[A]) {
    head(out, b'*', command.len());
    for argument in command {
        word(out, argument.as_ref());
    }
}

pub(crate) fn word(out: &mut Vec<u8>, word: &[u8]) {
    head(out, b'$', word.len());
    out.extend_from_slice(word);
    out.extend_from_slice(b"\r\n");
}

pub(crate) fn head(out: &mut Vec<u8>, mark: u8, length: usize) {
    out.push(mark);
    digits(out, length);
    out.extend_from_slice(b"\r\n");
}

/// Writes a number without an allocation: half of the lines of a request are lengths.
fn digits(out: &mut Vec<u8>, number: usize) {
    if number >= 10 {
        digits(out, number / 10);
    }
    out.push(b"0123456789"[number % 10]);
}

/// Reads replies from pieces of any size, without starting again for each piece.
pub struct Reader {
    bytes: Vec<u8>,
    /// How many bytes are read, and how many after them are known to contain no end of a line.
    read: usize,
    scanned: usize,
    /// The length of the text that begins here.
    text: Option<usize>,
    /// The enclosing lists: how many elements are missing, and those that have come.
    lists: Vec<(usize, Vec<Reply>)>,
    /// The memory that the reply takes, and may take.
    size: usize,
    pub limit: usize,
}

impl Default for Reader {
    fn default() -> Self {
        Self::up_to(REPLY_MAX)
    }
}

impl Reader {
    pub fn up_to(limit: usize) -> Self {
        let (bytes, read, scanned, text, lists, size) = Default::default();
        Self { bytes, read, scanned, text, lists, size, limit }
    }

    pub fn add(&mut self, bytes: &[u8]) {
        self.bytes.drain(..std::mem::take(&mut self.read));
        if self.bytes.is_empty() {
            self.bytes.shrink_to(LINE_MAX);
        }
        self.bytes.extend_from_slice(bytes);
    }

    pub fn unread(&self) -> &[u8] {
        &self.bytes[self.read..]
    }

    /// The next reply. `None`: it is incomplete.
    pub fn next_reply(&mut self) -> Result<Option<Reply>, Garbled> {
        while let Some(mut reply) = self.part()? {
            loop {
                let Some((missing, list)) = self.lists.last_mut() else {
                    self.size = 0;
                    return Ok(Some(reply));
                };
                list.push(reply);
                *missing -= 1;
                if *missing > 0 {
                    break;
                }
                reply = Reply::List(self.lists.pop().unwrap_or_default().1);
            }
        }
        Ok(None)
    }

    /// Reads a reply that is not a list, or is an empty list.
    fn part(&mut self) -> Result<Option<Reply>, Garbled> {
        loop {
            if let Some(length) = self.text {
                let Some(text) = self.unread().get(..length + 2) else { return Ok(None) };
                let text = text[..length].to_vec();
                (self.text, self.read) = (None, self.read + length + 2);
                return Ok(Some(Reply::Text(text)));
            }
            let unread = &self.bytes[self.read..];
            if unread.first().is_some_and(|mark| !MARKS.contains(mark)) {
                return Err(Garbled);
            }
            let Some(end) = unread[self.scanned..].windows(2).position(|pair| pair == b"\r\n") else {
                self.scanned = unread.len().saturating_sub(1);
                return if self.scanned > LINE_MAX { Err(Garbled) } else { Ok(None) };
            };
            let end = self.scanned + end;
            let (mark, line) = unread[..end].split_first().ok_or(Garbled)?;
            let length = |line: &[u8]| usize::try_from(number(line)?).map_err(|_| Garbled);
            let reply = match mark {
                b'+' => Some(Reply::Word(line.to_vec())),
                b',' | b'(' => Some(Reply::Text(line.to_vec())),
                b'-' => Some(Reply::Error(String::from_utf8_lossy(line).into_owned())),
                b':' => Some(Reply::Int(number(line)?)),
                b'#' => Some(Reply::Int(i64::from(line == b"t"))),
                b'_' => Some(Reply::Nil),
                b'$' | b'=' | b'*' | b'~' | b'>' | b'%' if line == b"-1" => Some(Reply::Nil),
                b'$' | b'=' => {
                    let length = length(line)?;
                    self.takes(length)?;
                    self.text = Some(length);
                    None
                }
                b'*' | b'~' | b'>' => self.begin_list(length(line)?)?,
                b'%' => self.begin_list(length(line)?.saturating_mul(2))?,
                _ => return Err(Garbled),
            };
            self.takes(end)?;
            (self.read, self.scanned) = (self.read + end + 2, 0);
            if reply.is_some() {
                return Ok(reply);
            }
        }
    }

    /// An empty list is a complete reply. The items of any other list are still to come.
    fn begin_list(&mut self, count: usize) -> Result<Option<Reply>, Garbled> {
        self.takes(count.saturating_mul(size_of::<Reply>()))?;
        if self.lists.len() == DEPTH_MAX {
            return Err(Garbled);
        }
        if count == 0 {
            return Ok(Some(Reply::List(Vec::new())));
        }
        self.lists.push((count, Vec::with_capacity(count.min(1_024))));
        Ok(None)
    }

    fn takes(&mut self, size: usize) -> Result<(), Garbled> {
        self.size = self.size.saturating_add(size);
        if self.size > self.limit { Err(Garbled) } else { Ok(()) }
    }
}

fn number(line: &[u8]) -> Result<i64, Garbled> {
    std::str::from_utf8(line).ok().and_then(|line| line.parse().ok()).ok_or(Garbled)
}

impl Reply {
    /// The text, if it is UTF-8.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        if let Self::Text(bytes) | Self::Word(bytes) = self { std::str::from_utf8(bytes).ok() } else { None }
    }

    /// The number, or the number that the text contains.
    #[must_use]
    pub fn number<N: TryFrom<i64> + std::str::FromStr>(&self) -> Option<N> {
        match self {
            Self::Int(number) => N::try_from(*number).ok(),
            _ => self.text()?.parse().ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_a_list_of_its_arguments() {
        let mut out = Vec::new();
        write(&mut out, &[&b"GET"[..], b"a\r\n"]);
        assert_eq!(out, b"*2\r\n$3\r\nGET\r\n$3\r\na\r\n\r\n");
    }

    #[test]
    fn answers_are_read_wherever_they_are_cut() {
        let [text, word] = [Reply::Text, Reply::Word].map(|reply| move |text: &str| reply(text.into()));
        for (bytes, reply) in [
            ("+WAITING\r\n", word("WAITING")),
            ("$-1\r\n", Reply::Nil),
            ("*-1\r\n", Reply::Nil),
            ("_\r\n", Reply::Nil),
            (":-7\r\n", Reply::Int(-7)),
            ("-ERR no\r\n", Reply::Error("ERR no".into())),
            ("$4\r\na\r\nb\r\n", text("a\r\nb")),
            ("$0\r\n\r\n", text("")),
            ("*0\r\n", Reply::List(vec![])),
            ("*2\r\n*1\r\n$-1\r\n:3\r\n", Reply::List(vec![Reply::List(vec![Reply::Nil]), Reply::Int(3)])),
            ("%1\r\n+a\r\n#t\r\n", Reply::List(vec![word("a"), Reply::Int(1)])),
            (">1\r\n+a\r\n", Reply::List(vec![word("a")])),
        ] {
            for cut in 0..bytes.len() {
                let mut reader = Reader::default();
                reader.add(&bytes.as_bytes()[..cut]);
                assert_eq!(reader.next_reply(), Ok(None), "{bytes:?} up to {cut}");
                reader.add(format!("{}+rest", &bytes[cut..]).as_bytes());
                assert_eq!(reader.next_reply(), Ok(Some(reply.clone())), "{bytes:?} cut at {cut}");
                assert_eq!((reader.next_reply(), reader.unread()), (Ok(None), &b"+rest"[..]));
            }
        }
    }

    fn read(bytes: &[u8]) -> Result<Option<Reply>, Garbled> {
        let mut reader = Reader::default();
        reader.add(bytes);
        reader.next_reply()
    }

    #[test]
    fn bytes_of_no_server_are_recognized() {
        for bytes in ["HTTP/1.1 400\r\n", "\r\n", ":x\r\n", "$-2\r\n", "*x\r\n"] {
            assert_eq!(read(bytes.as_bytes()), Err(Garbled), "{bytes:?}");
        }
    }

    #[test]
    fn what_is_larger_than_any_reply_is_refused_before_it_has_come() {
        assert_eq!(read("*1\r\n".repeat(1_000).as_bytes()), Err(Garbled), "without an end");
        assert_eq!(read(b"$999999999\r\nx"), Err(Garbled));
        assert_eq!(read(b"*999999999\r\n:1\r\n"), Err(Garbled));
        assert_eq!(read(&[b'+'; 70_000]), Err(Garbled));
        let text = [&b"$60000000\r\n"[..], &vec![b'x'; 60_000_000], b"\r\n"].concat();
        assert!(read(&text).is_ok_and(|reply| reply.is_some()));
        assert_eq!(read(&[b"*2\r\n", &text[..], &text[..]].concat()), Err(Garbled), "together");
    }

    /// A reply in a thousand pieces costs a few times as much as in one piece, not a thousand times.
    #[test]
    fn small_pieces_are_no_more_work() {
        let item = "*4\r\n:1\r\n$7\r\ngranted\r\n$-1\r\n:30000\r\n";
        let reply = format!("*20000\r\n{}", item.repeat(20_000)).into_bytes();
        let time = |piece: usize| {
            let (mut reader, began) = (Reader::default(), std::time::Instant::now());
            let replies = reply.chunks(piece).filter_map(|piece| {
                reader.add(piece);
                reader.next_reply().unwrap()
            });
            assert_eq!(replies.count(), 1);
            began.elapsed()
        };
        let fastest = |piece| (0..3).map(|_| time(piece)).min().unwrap();
        let (whole, pieces) = (fastest(reply.len()), fastest(1_460));
        assert!(pieces < whole * 30, "{pieces:?} in pieces, {whole:?} as a whole");
    }
}
