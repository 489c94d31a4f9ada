//! Replies as bytes. Read here and not by a client library, so that nothing of what a server says is hidden: neither
//! time limits of its own nor a second try stands between the wire and the record.

use rlock_testing::Reply;

/// A command as its words.
pub type Command = Vec<String>;

/// Why there is no reply in these bytes.
#[derive(Debug, PartialEq, Eq)]
pub enum Missing {
    /// More of it is to come.
    Rest,
    /// No reply begins like this.
    Sense(String),
}

/// Several commands in one piece.
pub fn packed(commands: &[Command]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for command in commands {
        bytes.extend_from_slice(format!("*{}\r\n", command.len()).as_bytes());
        for word in command {
            bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
        }
    }
    bytes
}

/// The first reply in these bytes, and how many of them it takes. RESP2 and RESP3 come out alike.
pub fn reply(bytes: &[u8]) -> Result<(Reply, usize), Missing> {
    let mut reader = Reader { bytes, at: 0 };
    let reply = reader.reply()?;
    Ok((reply, reader.at))
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn reply(&mut self) -> Result<Reply, Missing> {
        let line = self.line()?;
        let (kind, rest) = line.split_at_checked(1).ok_or_else(|| Missing::Sense("an empty line".to_owned()))?;
        match kind {
            "+" | "#" | "," | "(" => Ok(Reply::Text(rest.to_owned())),
            "-" => Ok(Reply::Error(rest.to_owned())),
            ":" => Ok(Reply::Int(number(rest)?)),
            "_" => Ok(Reply::Nil),
            "$" => Ok(self.text(rest)?.map_or(Reply::Nil, Reply::Text)),
            "!" => Ok(self.text(rest)?.map_or(Reply::Nil, Reply::Error)),
            "*" | "~" => self.list(rest, 1),
            "%" => self.list(rest, 2),
            _ => Err(Missing::Sense(line)),
        }
    }

    fn line(&mut self) -> Result<String, Missing> {
        let rest = &self.bytes[self.at..];
        let length = rest.windows(2).position(|pair| pair == b"\r\n").ok_or(Missing::Rest)?;
        self.at += length + 2;
        Ok(String::from_utf8_lossy(&rest[..length]).into_owned())
    }

    fn text(&mut self, length: &str) -> Result<Option<String>, Missing> {
        let Ok(length) = usize::try_from(number(length)?) else { return Ok(None) };
        let text = self.bytes.get(self.at..self.at + length + 2).ok_or(Missing::Rest)?;
        self.at += length + 2;
        Ok(Some(String::from_utf8_lossy(&text[..length]).into_owned()))
    }

    fn list(&mut self, length: &str, replies_each: usize) -> Result<Reply, Missing> {
        let Ok(length) = usize::try_from(number(length)?) else { return Ok(Reply::Nil) };
        (0..length * replies_each).map(|_| self.reply()).collect::<Result<_, _>>().map(Reply::List)
    }
}

fn number(text: &str) -> Result<i64, Missing> {
    text.parse().map_err(|_| Missing::Sense(format!("no number: {text}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_packed_one_behind_the_other() {
        let commands = [vec!["MULTI".to_owned()], vec!["DEL".to_owned(), "ä".to_owned()]];
        assert_eq!(packed(&commands), "*1\r\n$5\r\nMULTI\r\n*2\r\n$3\r\nDEL\r\n$2\r\nä\r\n".as_bytes());
    }

    #[test]
    fn replies_of_both_protocols() {
        let token = Reply::List(vec![Reply::Nil, Reply::Int(7)]);
        for (bytes, expected) in [
            ("+OK\r\n", Reply::Text("OK".to_owned())),
            ("-UNBLOCKED by hand\r\n", Reply::Error("UNBLOCKED by hand".to_owned())),
            (":-1\r\n", Reply::Int(-1)),
            ("$-1\r\n", Reply::Nil),
            ("_\r\n", Reply::Nil),
            ("$4\r\na\r\nb\r\n", Reply::Text("a\r\nb".to_owned())),
            ("*-1\r\n", Reply::Nil),
            ("*2\r\n$-1\r\n:7\r\n", token.clone()),
            ("*2\r\n_\r\n:7\r\n", token),
            ("%1\r\n+a\r\n*0\r\n", Reply::List(vec![Reply::Text("a".to_owned()), Reply::List(Vec::new())])),
        ] {
            assert_eq!(reply(bytes.as_bytes()), Ok((expected, bytes.len())), "{bytes:?}");
            for cut in 0..bytes.len() {
                assert_eq!(reply(&bytes.as_bytes()[..cut]), Err(Missing::Rest), "{:?}", &bytes[..cut]);
            }
        }
    }

    #[test]
    fn what_follows_a_reply_is_left() {
        assert_eq!(reply(b":1\r\n:0\r\n"), Ok((Reply::Int(1), 4)));
    }

    #[test]
    fn garbage_is_no_reply() {
        assert!(matches!(reply(b"HTTP/1.1 400\r\n"), Err(Missing::Sense(_))));
        assert!(matches!(reply(b":one\r\n"), Err(Missing::Sense(_))));
    }
}
