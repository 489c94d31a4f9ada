//! The server's side of the protocol: commands are read, and replies written, in the version that each client has chosen.

/// What a client may send in one command. More is no command for locks.
const COMMAND_MAX: usize = 1_024 * 1_024;
const WORDS_MAX: usize = 10_000;
const LINE_MAX: usize = 64 * 1_024;

/// Bytes that were read and are not a whole command yet.
#[derive(Default)]
pub struct Requests {
    pub bytes: Vec<u8>,
}

/// What cannot be read as a command; the connection is closed after this error.
#[derive(Debug, PartialEq, Eq)]
pub struct Garbled(pub &'static str);

impl Requests {
    /// The next whole command. `None`: it has not arrived completely.
    pub fn next_command(&mut self) -> Result<Option<Vec<Vec<u8>>>, Garbled> {
        loop {
            let mut rest = &self.bytes[..];
            let Some(words) = read(&mut rest)? else { return Ok(None) };
            let read = self.bytes.len() - rest.len();
            self.bytes.drain(..read);
            // An empty line, or an empty list, is not answered.
            if !words.is_empty() {
                return Ok(Some(words));
            }
        }
    }
}

fn read(rest: &mut &[u8]) -> Result<Option<Vec<Vec<u8>>>, Garbled> {
    let Some(head) = line(rest)? else { return Ok(None) };
    let Some(count) = head.strip_prefix(b"*") else {
        let words = head.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        return Ok(Some(words.map(<[u8]>::to_vec).collect()));
    };
    let count = number(count).filter(|count| *count <= WORDS_MAX as i64);
    let count = count.ok_or(Garbled("ERR Protocol error: invalid multibulk length"))?;
    let (mut words, mut size) = (Vec::new(), 0);
    for _ in 0..count {
        let Some(head) = line(rest)? else { return Ok(None) };
        let length = head.strip_prefix(b"$").ok_or(Garbled("ERR Protocol error: expected '$'"))?;
        let length = number(length).and_then(|length| usize::try_from(length).ok());
        let length = length.filter(|length| size + length <= COMMAND_MAX);
        let length = length.ok_or(Garbled("ERR Protocol error: invalid bulk length"))?;
        let Some((word, behind)) = rest.split_at_checked(length) else { return Ok(None) };
        let Some((_, behind)) = behind.split_at_checked(2) else { return Ok(None) };
        (*rest, size) = (behind, size + length);
        words.push(word.to_vec());
    }
    Ok(Some(words))
}

/// The next line, without its end.
fn line<'a>(rest: &mut &'a [u8]) -> Result<Option<&'a [u8]>, Garbled> {
    let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
        return if rest.len() > LINE_MAX {
            Err(Garbled("ERR Protocol error: too big inline request"))
        } else {
            Ok(None)
        };
    };
    let (line, behind) = rest.split_at(end);
    *rest = &behind[1..];
    Ok(Some(line.strip_suffix(b"\r").unwrap_or(line)))
}

fn number(digits: &[u8]) -> Option<i64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// What is to be sent to a client.
#[derive(Default)]
pub struct Replies {
    pub bytes: Vec<u8>,
    /// Whether the client has chosen version 3.
    pub is_3: bool,
}

impl Replies {
    pub fn in_the_same_version(&self) -> Self {
        Self { bytes: Vec::new(), is_3: self.is_3 }
    }

    pub fn simple(&mut self, word: &str) -> &mut Self {
        self.line('+', word.as_bytes())
    }

    /// A whole line, its code first.
    pub fn error(&mut self, line: &[u8]) -> &mut Self {
        self.line('-', line)
    }

    pub fn number(&mut self, number: impl TryInto<i64>) -> &mut Self {
        let number = number.try_into().unwrap_or(i64::MAX);
        self.line(':', number.to_string().as_bytes())
    }

    pub fn nil(&mut self) -> &mut Self {
        self.bytes.extend_from_slice(if self.is_3 { b"_\r\n" } else { b"$-1\r\n" });
        self
    }

    pub fn bulk(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.head('$', bytes.as_ref().len());
        self.bytes.extend_from_slice(bytes.as_ref());
        self.bytes.extend_from_slice(b"\r\n");
        self
    }

    /// This many values follow.
    pub fn array(&mut self, length: usize) -> &mut Self {
        self.head('*', length)
    }

    /// This many names follow, each with a value after it.
    pub fn map(&mut self, length: usize) -> &mut Self {
        if self.is_3 { self.head('%', length) } else { self.head('*', length * 2) }
    }

    /// This many values follow, for which the client has not just asked.
    pub fn push(&mut self, length: usize) -> &mut Self {
        self.head(if self.is_3 { '>' } else { '*' }, length)
    }

    pub fn or_nil<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) -> &mut Self {
        match value {
            Some(value) => write(self, value),
            None => _ = self.nil(),
        }
        self
    }

    fn head(&mut self, mark: char, length: usize) -> &mut Self {
        self.line(mark, length.to_string().as_bytes())
    }

    fn line(&mut self, mark: char, line: &[u8]) -> &mut Self {
        self.bytes.push(mark as u8);
        self.bytes.extend_from_slice(line);
        self.bytes.extend_from_slice(b"\r\n");
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(bytes: &[u8]) -> Vec<Vec<Vec<u8>>> {
        let mut requests = Requests { bytes: bytes.to_vec() };
        std::iter::from_fn(|| requests.next_command().unwrap()).collect()
    }

    #[test]
    fn commands_are_read_wherever_they_are_cut() {
        let bytes = b"*2\r\n$4\r\nPING\r\n$3\r\na\r\n\r\nECHO  b\r\n\r\n*0\r\n*1\r\n$0\r\n\r\n";
        let all: [Vec<Vec<u8>>; 3] =
            [vec![b"PING".into(), b"a\r\n".into()], vec![b"ECHO".into(), b"b".into()], vec![b"".into()]];
        assert_eq!(commands(bytes), all);
        for cut in 0..bytes.len() {
            let mut requests = Requests { bytes: bytes[..cut].to_vec() };
            let mut read: Vec<_> = std::iter::from_fn(|| requests.next_command().unwrap()).collect();
            requests.bytes.extend_from_slice(&bytes[cut..]);
            read.extend(std::iter::from_fn(|| requests.next_command().unwrap()));
            assert_eq!(read, all, "cut at {cut}");
        }
    }

    #[test]
    fn what_is_no_command_is_refused_before_it_has_come() {
        for bytes in [&b"*x\r\n"[..], b"*99999\r\n", b"*1\r\n+PING\r\n", b"*1\r\n$-1\r\n", b"*1\r\n$9999999999\r\n"] {
            assert!(Requests { bytes: bytes.to_vec() }.next_command().is_err(), "{bytes:?}");
        }
        assert!(Requests { bytes: vec![b'x'; LINE_MAX + 1] }.next_command().is_err());
    }

    #[test]
    fn replies_are_in_the_version_of_the_client() {
        let written = |is_3| {
            let mut replies = Replies { bytes: Vec::new(), is_3 };
            replies.map(1).bulk("a").nil().push(1).number(-7_i64).simple("OK").error(b"ERR no");
            String::from_utf8(replies.bytes).unwrap()
        };
        assert_eq!(written(false), "*2\r\n$1\r\na\r\n$-1\r\n*1\r\n:-7\r\n+OK\r\n-ERR no\r\n");
        assert_eq!(written(true), "%1\r\n$1\r\na\r\n_\r\n>1\r\n:-7\r\n+OK\r\n-ERR no\r\n");
    }
}
