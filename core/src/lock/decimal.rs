//! Integers exactly as the server itself writes and reads them: no sign but a minus, no leading zeros, no spaces.

/// The number, if these bytes are one.
#[must_use]
pub fn decimal(bytes: &[u8]) -> Option<i64> {
    let (negative, digits) = match bytes {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] => {}
        _ => return None,
    }
    let add_digit = |number: i64, byte: &u8| {
        let digit = i64::from(byte.checked_sub(b'0').filter(|digit| *digit <= 9)?);
        let shifted = number.checked_mul(10)?;
        // The smallest number has no positive counterpart, so a negative one is counted downwards.
        if negative { shifted.checked_sub(digit) } else { shifted.checked_add(digit) }
    };
    digits.iter().try_fold(0, add_digit)
}

#[cfg(test)]
mod tests {
    use super::decimal;

    #[test]
    fn what_the_server_writes_is_read() {
        for number in [0, 1, -1, 9, 10, 1_000_000, i64::MAX, i64::MIN] {
            assert_eq!(decimal(number.to_string().as_bytes()), Some(number));
        }
    }

    #[test]
    fn what_the_server_would_not_write_is_no_number() {
        let foreign = ["", "-", "+1", " 1", "1 ", "01", "-0", "00", "1.5", "1e3", "0x1", "one", "1\0", "--1"];
        let edges = ["9223372036854775808", "-9223372036854775809", "99999999999999999999999999"];
        for text in foreign.into_iter().chain(edges) {
            assert_eq!(decimal(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(decimal(b"\xff\xfe"), None);
        assert_eq!(decimal(&[b'9'; 1_000]), None);
    }
}
