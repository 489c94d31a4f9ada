//! The hash in a RESTORE as readable text: when a test fails, people read the stream of commands.

/// A hash in its oldest form: pairs of strings. The server that gets the dump checks its version and checksum.
const HASH: u8 = 4;
const FOOTER: usize = 2 + 8;

/// `{field:value,…}`; None for anything else.
pub fn hash_in_words(dump: &[u8]) -> Option<String> {
    let (HASH, rest) = (*dump.first()?, dump.get(1..dump.len().checked_sub(FOOTER)?)?) else { return None };
    let (pairs, mut rest) = (*rest.first()?, rest.get(1..)?);
    let mut next = || {
        let (string, behind) = string(rest)?;
        rest = behind;
        Some(String::from_utf8_lossy(string).into_owned())
    };
    let pairs: Option<Vec<_>> = (0..pairs).map(|_| Some(format!("{}:{}", next()?, next()?))).collect();
    let pairs = pairs?.join(",");
    rest.is_empty().then(|| format!("{{{pairs}}}"))
}

/// The first string, which follows a length of 6 or 14 bits, and the bytes after it.
fn string(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = match *bytes {
        [length @ 0..=0x3f, ref rest @ ..] => (usize::from(length), rest),
        [high @ 0x40..=0x7f, low, ref rest @ ..] => (usize::from(high & 0x3f) << 8 | usize::from(low), rest),
        _ => return None,
    };
    rest.split_at_checked(length)
}
