//! Name patterns in the syntax of the server's KEYS and SCAN: `*`, `?`, `[a-z]`, `[^a]`, and `\` before a literal
//! character.

/// Whether the pattern matches the whole name. Takes at most pattern × name steps: only the last star is tried again.
pub fn matches(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut rest) = (pattern, name);
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        if let Some(after) = at.strip_prefix(b"*") {
            retry = Some((after, rest));
            at = after;
            continue;
        }
        match (rest.split_first(), step(at)) {
            (None, _) if at.is_empty() => return true,
            (Some((byte, left)), Some((class, after))) if class.has(*byte) => (at, rest) = (after, left),
            _ => match retry {
                Some((after, [_, left @ ..])) => {
                    retry = Some((after, left));
                    (at, rest) = (after, left);
                }
                _ => return false,
            },
        }
    }
}

enum Class<'a> {
    Any,
    One(u8),
    Set { members: &'a [u8], inverted: bool },
}

/// What the next byte may be, and the pattern after it.
fn step(pattern: &[u8]) -> Option<(Class<'_>, &[u8])> {
    match pattern {
        [] => None,
        [b'?', after @ ..] => Some((Class::Any, after)),
        [b'\\', byte, after @ ..] => Some((Class::One(*byte), after)),
        [b'[', after @ ..] => {
            let (inverted, after) = after.strip_prefix(b"^").map_or((false, after), |after| (true, after));
            let mut end = 0;
            while end < after.len() && after[end] != b']' {
                end += if after[end] == b'\\' { 2 } else { 1 };
            }
            let end = end.min(after.len());
            Some((Class::Set { members: &after[..end], inverted }, after.get(end + 1..).unwrap_or_default()))
        }
        [byte, after @ ..] => Some((Class::One(*byte), after)),
    }
}

impl Class<'_> {
    fn has(&self, byte: u8) -> bool {
        match self {
            Self::Any => true,
            Self::One(one) => *one == byte,
            Self::Set { members, inverted } => is_member(members, byte) != *inverted,
        }
    }
}

fn is_member(mut members: &[u8], byte: u8) -> bool {
    loop {
        let found = match members {
            [] => return false,
            [b'\\', one, after @ ..] => {
                members = after;
                *one == byte
            }
            [first, b'-', last, after @ ..] => {
                members = after;
                (*first.min(last)..=*first.max(last)).contains(&byte)
            }
            [one, after @ ..] => {
                members = after;
                *one == byte
            }
        };
        if found {
            return true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_mean_what_they_mean_to_the_server() {
        let yes: [(&str, &str); 14] = [
            ("*", ""),
            ("**", "a"),
            ("a*c*e", "abcde"),
            ("*:42", "orders:42"),
            ("h?llo", "hallo"),
            ("h[ae]llo", "hello"),
            ("h[^e]llo", "hallo"),
            ("h[a-c]llo", "hbllo"),
            ("h[c-a]llo", "hbllo"),
            ("\\*", "*"),
            ("[\\]]", "]"),
            ("a[b", "ab"),
            ("*ab", "aab"),
            ("orders:*", "orders:"),
        ];
        for (pattern, name) in yes {
            assert!(matches(pattern.as_bytes(), name.as_bytes()), "{pattern} {name}");
        }
        let no = [("", "a"), ("?", ""), ("a*c", "abd"), ("h[^e]llo", "hello"), ("\\*", "a"), ("[b", "a"), ("a", "ab")];
        for (pattern, name) in no {
            assert!(!matches(pattern.as_bytes(), name.as_bytes()), "{pattern} {name}");
        }
    }

    #[test]
    fn many_stars_do_not_take_forever() {
        let name = vec![b'a'; 10_000];
        let pattern = [b"a*".repeat(50), b"b".to_vec()].concat();
        assert!(!matches(&pattern, &name));
    }
}
