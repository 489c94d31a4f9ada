//! What servers are sent, and what they answer (RESP, version 2, and of version 3 what sentinels say in it).

/// The answer to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Nothing.
    Nil,
    /// A number.
    Int(i64),
    /// A text or any bytes.
    Text(Vec<u8>),
    /// Several answers in one.
    List(Vec<Reply>),
    /// An error within a list, as the server's line has it.
    Error(String),
}

/// Deeper lists are not a server's.
const DEPTH_MAX: usize = 16;

/// What each answer begins with one of.
pub(crate) const MARKS: &[u8] = b"+,(-:#_$=*~>%";

/// What no server says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Garbled;

/// Adds one command to what is to be sent.
pub(crate) fn write<A: AsRef<[u8]>>(out: &mut Vec<u8>, command: &[A]) {
    head(out, b'*', command.len());
    for argument in command {
        let argument = argument.as_ref();
        head(out, b'$', argument.len());
        out.extend_from_slice(argument);
        out.extend_from_slice(b"\r\n");
    }
}

fn head(out: &mut Vec<u8>, mark: u8, length: usize) {
    out.push(mark);
    out.extend_from_slice(length.to_string().as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// The first answer among these bytes, and what is behind it. `None`: it has not come whole yet.
pub(crate) fn read(bytes: &[u8]) -> Result<Option<(Reply, &[u8])>, Garbled> {
    read_within(bytes, DEPTH_MAX)
}

fn read_within(bytes: &[u8], depth: usize) -> Result<Option<(Reply, &[u8])>, Garbled> {
    let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
    let (line, rest) = (&bytes[..end], &bytes[end + 2..]);
    let (mark, line) = line.split_first().ok_or(Garbled)?;
    let reply = match mark {
        b'+' | b',' | b'(' => Reply::Text(line.to_vec()),
        b'-' => Reply::Error(String::from_utf8_lossy(line).into_owned()),
        b':' => Reply::Int(number(line)?),
        b'#' => Reply::Int(i64::from(line == b"t")),
        b'_' => Reply::Nil,
        b'$' | b'=' | b'*' | b'~' | b'>' | b'%' if line == b"-1" => Reply::Nil,
        b'$' | b'=' => {
            let length = usize::try_from(number(line)?).map_err(|_| Garbled)?;
            let Some((text, end)) = rest.split_at_checked(length) else { return Ok(None) };
            let Some(end) = end.get(..2).map(|_| &end[2..]) else { return Ok(None) };
            return Ok(Some((Reply::Text(text.to_vec()), end)));
        }
        b'*' | b'~' | b'>' | b'%' => {
            let depth = depth.checked_sub(1).ok_or(Garbled)?;
            let count = usize::try_from(number(line)?).map_err(|_| Garbled)?;
            let count = if *mark == b'%' { count.saturating_mul(2) } else { count };
            let (mut list, mut rest) = (Vec::with_capacity(count.min(1_024)), rest);
            for _ in 0..count {
                let Some((reply, behind)) = read_within(rest, depth)? else { return Ok(None) };
                list.push(reply);
                rest = behind;
            }
            return Ok(Some((Reply::List(list), rest)));
        }
        _ => return Err(Garbled),
    };
    Ok(Some((reply, rest)))
}

fn number(line: &[u8]) -> Result<i64, Garbled> {
    std::str::from_utf8(line).ok().and_then(|line| line.parse().ok()).ok_or(Garbled)
}

impl Reply {
    /// The text that it is, if it is UTF-8.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        if let Self::Text(bytes) = self { std::str::from_utf8(bytes).ok() } else { None }
    }

    /// The number that it is, or that its text tells.
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
        let text = |text: &str| Reply::Text(text.into());
        for (bytes, reply) in [
            ("+WAITING\r\n", text("WAITING")),
            ("$-1\r\n", Reply::Nil),
            ("*-1\r\n", Reply::Nil),
            ("_\r\n", Reply::Nil),
            (":-7\r\n", Reply::Int(-7)),
            ("-ERR no\r\n", Reply::Error("ERR no".into())),
            ("$4\r\na\r\nb\r\n", text("a\r\nb")),
            ("$0\r\n\r\n", text("")),
            ("*0\r\n", Reply::List(vec![])),
            ("*2\r\n*1\r\n$-1\r\n:3\r\n", Reply::List(vec![Reply::List(vec![Reply::Nil]), Reply::Int(3)])),
            ("%1\r\n+a\r\n#t\r\n", Reply::List(vec![text("a"), Reply::Int(1)])),
            (">1\r\n+a\r\n", Reply::List(vec![text("a")])),
        ] {
            for cut in 0..bytes.len() {
                assert_eq!(read(&bytes.as_bytes()[..cut]), Ok(None), "{bytes:?} up to {cut}");
            }
            let more = format!("{bytes}rest");
            assert_eq!(read(more.as_bytes()), Ok(Some((reply, &b"rest"[..]))), "{bytes:?}");
        }
    }

    #[test]
    fn what_no_server_says_is_told_apart() {
        for bytes in ["HTTP/1.1 400\r\n", "\r\n", ":x\r\n", "$-2\r\n", "*x\r\n"] {
            assert_eq!(read(bytes.as_bytes()), Err(Garbled), "{bytes:?}");
        }
        assert_eq!(read("*1\r\n".repeat(1_000).as_bytes()), Err(Garbled), "without an end");
    }
}
