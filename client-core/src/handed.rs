//! A detached hold as a line of text, with which another process adopts it:
//! `rlock1/KIND/LEASE/LIMIT/TOKENS/HOLDER/KEY[/KEY…]`. The text is ASCII without spaces, whatever the names contain: in
//! a holder and a key, each byte other than a letter, a digit or one of `-._~:` is `%XX`.

use crate::error::Error;
use crate::terms::Side;
use std::collections::BTreeSet;
use std::fmt::{self, Write};
use std::str;
use std::time::Duration;

const VERSION: &str = "rlock1";

/// The server's limit.
const KEYS_MAX: usize = 64;
const LIMIT_MAX: u32 = 100_000;

/// The kind of a detached hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Plain,
    Read,
    Write,
    Permit { limit: u32 },
    Several,
}

/// A detached hold. Keep its text as secret as a holder's name: it is enough to release the lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handed {
    pub what: What,
    /// The lease for its renewals.
    pub lease: Duration,
    /// One for each key, or empty.
    pub tokens: Vec<u64>,
    pub holder: Vec<u8>,
    /// At least one.
    pub keys: Vec<Vec<u8>>,
}

impl What {
    fn word(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Read => "read",
            Self::Write => "write",
            Self::Permit { .. } => "permit",
            Self::Several => "several",
        }
    }

    fn of(word: &[u8], limit: u32) -> Option<Self> {
        match (word, limit) {
            (b"plain", 0) => Some(Self::Plain),
            (b"read", 0) => Some(Self::Read),
            (b"write", 0) => Some(Self::Write),
            (b"several", 0) => Some(Self::Several),
            (b"permit", 1..=LIMIT_MAX) => Some(Self::Permit { limit }),
            _ => None,
        }
    }

    pub fn side(self) -> Side {
        match self {
            Self::Read => Side::Read,
            Self::Write => Side::Write,
            Self::Plain | Self::Permit { .. } | Self::Several => Side::Plain,
        }
    }

    pub fn limit(self) -> Option<u32> {
        if let Self::Permit { limit } = self { Some(limit) } else { None }
    }
}

impl Handed {
    /// # Errors
    /// [`ErrorKind::Configuration`](crate::ErrorKind::Configuration) if this is not the text of a detached hold. The
    /// error does not repeat the text, which is secret.
    pub fn parse(text: &[u8]) -> Result<Self, Error> {
        read(text).ok_or_else(|| Error::configuration("text", "is not that of a detached lock"))
    }
}

fn read(text: &[u8]) -> Option<Handed> {
    let mut parts = text.split(|byte| *byte == b'/');
    let version = parts.next()?;
    let (word, lease, limit) = (parts.next()?, number(parts.next()?)?, number(parts.next()?)?);
    let tokens = match parts.next()? {
        b"-" => Vec::new(),
        tokens => tokens.split(|byte| *byte == b',').map(number).collect::<Option<_>>()?,
    };
    let holder = name(parts.next()?)?;
    let keys = parts.map(name).collect::<Option<Vec<_>>>()?;
    let what = What::of(word, limit.try_into().ok()?)?;
    let keys_max = if what == What::Several { KEYS_MAX } else { 1 };
    let is_right = version == VERSION.as_bytes()
        && lease >= 1
        && i64::try_from(lease).is_ok()
        && (1..=keys_max).contains(&keys.len())
        && keys.iter().collect::<BTreeSet<_>>().len() == keys.len()
        && (tokens.is_empty() || tokens.len() == keys.len());
    is_right.then(|| Handed { what, lease: Duration::from_millis(lease), tokens, holder, keys })
}

/// Only digits: no sign, no spaces.
fn number(digits: &[u8]) -> Option<u64> {
    let is_plain = digits.iter().all(u8::is_ascii_digit);
    str::from_utf8(digits).ok().filter(|_| is_plain)?.parse().ok()
}

fn name(mut text: &[u8]) -> Option<Vec<u8>> {
    let mut name = Vec::with_capacity(text.len());
    while let [first, rest @ ..] = text {
        let (byte, rest) = match (first, rest) {
            (b'%', [high, low, rest @ ..]) => (digit(*high)? << 4 | digit(*low)?, rest),
            (byte, rest) if is_plain(*byte) => (*byte, rest),
            _ => return None,
        };
        name.push(byte);
        text = rest;
    }
    if name.is_empty() { None } else { Some(name) }
}

fn digit(hex: u8) -> Option<u8> {
    match hex {
        b'0'..=b'9' => Some(hex - b'0'),
        b'A'..=b'F' => Some(hex - b'A' + 10),
        _ => None,
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte)
}

impl fmt::Display for Handed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, lease, tokens, holder, keys } = self;
        write!(f, "{VERSION}/{}/{}/{}/", what.word(), lease.as_millis(), what.limit().unwrap_or(0))?;
        match &tokens[..] {
            [] => f.write_char('-')?,
            [first, more @ ..] => {
                write!(f, "{first}")?;
                more.iter().try_for_each(|token| write!(f, ",{token}"))?;
            }
        }
        for name in std::iter::once(holder).chain(keys) {
            f.write_char('/')?;
            for byte in name {
                if is_plain(*byte) { f.write_char(char::from(*byte))? } else { write!(f, "%{byte:02X}")? }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handed(what: What, lease: u64, tokens: &[u64], holder: &[u8], keys: &[&[u8]]) -> Handed {
        let keys = keys.iter().map(|key| key.to_vec()).collect();
        Handed { what, lease: Duration::from_millis(lease), tokens: tokens.to_vec(), holder: holder.to_vec(), keys }
    }

    #[test]
    fn each_kind_has_its_text_and_is_read_back_from_it() {
        let of = handed;
        for (hold, text) in [
            (of(What::Plain, 30_000, &[], b"3f2a:7", &[b"orders:42"]), "rlock1/plain/30000/0/-/3f2a:7/orders:42"),
            (of(What::Permit { limit: 4 }, 30_000, &[17], b"h", &[b"gpu"]), "rlock1/permit/30000/4/17/h/gpu"),
            (
                of(What::Several, 10_000, &[5, 9], b"h", &[b"a b", b"{x}c"]),
                "rlock1/several/10000/0/5,9/h/a%20b/%7Bx%7Dc",
            ),
            (of(What::Read, 1, &[], b"a/b", &[b"%"]), "rlock1/read/1/0/-/a%2Fb/%25"),
            (
                of(What::Write, 1, &[u64::MAX], b"-._~:", &[b"\0\xFF\n"]),
                "rlock1/write/1/0/18446744073709551615/-._~:/%00%FF%0A",
            ),
        ] {
            assert_eq!(hold.to_string(), text);
            assert_eq!(Handed::parse(text.as_bytes()).unwrap(), hold, "{text}");
        }
    }

    #[test]
    fn any_bytes_are_a_name() {
        let all: Vec<u8> = (0..=u8::MAX).collect();
        let names: Vec<_> = all.chunks(16).map(<[u8]>::to_vec).collect();
        let keys: Vec<_> = names.iter().map(|name| &name[..]).collect();
        let hold = handed(What::Several, 1, &[], &all, &keys);
        let text = hold.to_string();
        assert!(text.bytes().all(|byte| byte.is_ascii_graphic()), "{text}");
        assert_eq!(Handed::parse(text.as_bytes()).unwrap(), hold);
    }

    #[test]
    fn what_is_malformed_is_refused() {
        let too_many = format!("rlock1/several/1/0/-/h{}", (0..65).map(|key| format!("/{key}")).collect::<String>());
        for text in [
            "",
            "rlock1",
            "rlock2/plain/1/0/-/h/a",
            "RLOCK1/plain/1/0/-/h/a",
            "rlock1/fair/1/0/-/h/a",
            "rlock1/plain/0/0/-/h/a",
            "rlock1/plain/-1/0/-/h/a",
            "rlock1/plain/+1/0/-/h/a",
            "rlock1/plain//0/-/h/a",
            "rlock1/plain/9223372036854775808/0/-/h/a",
            "rlock1/plain/99999999999999999999/0/-/h/a",
            "rlock1/plain/1/1/-/h/a",
            "rlock1/permit/1/0/-/h/a",
            "rlock1/permit/1/100001/-/h/a",
            "rlock1/permit/1/4294967297/-/h/a",
            "rlock1/plain/1/0//h/a",
            "rlock1/plain/1/0/1,/h/a",
            "rlock1/plain/1/0/x/h/a",
            "rlock1/plain/1/0/1,2/h/a",
            "rlock1/several/1/0/1/h/a/b",
            "rlock1/plain/1/0/-/h",
            "rlock1/plain/1/0/-//a",
            "rlock1/plain/1/0/-/h/",
            "rlock1/plain/1/0/-/h/a/b",
            "rlock1/several/1/0/-/h/a/a",
            "rlock1/several/1/0/-/h",
            "rlock1/plain/1/0/-/h/a b",
            "rlock1/plain/1/0/-/h/a\n",
            " rlock1/plain/1/0/-/h/a",
            "rlock1/plain/1/0/-/h/ä",
            "rlock1/plain/1/0/-/h/%",
            "rlock1/plain/1/0/-/h/%2",
            "rlock1/plain/1/0/-/h/%2f",
            "rlock1/plain/1/0/-/h/%G0",
            &too_many,
        ] {
            let error = Handed::parse(text.as_bytes()).expect_err(text);
            assert_eq!(error.kind(), crate::ErrorKind::Configuration, "{text}");
            assert!(!error.to_string().contains("/h/"), "{error}");
        }
        assert!(Handed::parse(b"rlock1/plain/1/0/-/h/\xFF").is_err());
    }

    /// A text with any small change is another hold or an error, never a panic.
    #[test]
    fn what_is_cut_or_changed_anywhere_is_read_or_refused() {
        let text = b"rlock1/several/10000/0/5,9/h%20/a%20b/%7Bx%7Dc";
        for place in 0..text.len() {
            let _ = Handed::parse(&text[..place]);
            for byte in 0..=u8::MAX {
                let mut changed = text.to_vec();
                changed[place] = byte;
                if let Ok(hold) = Handed::parse(&changed) {
                    assert_eq!(Handed::parse(hold.to_string().as_bytes()).unwrap(), hold);
                }
            }
        }
    }
}
