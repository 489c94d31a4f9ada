//! What the name of a holder says about its process: `host:process:uuid:number` or `name:uuid:number` of rlock's clients,
//! `uuid:number` of Redisson.

const UUID: usize = 36;

/// `web-3:4711` of `web-3:4711:<uuid>:1`, and the uuid of `<uuid>:1`; other names as they are.
pub fn process(holder: &[u8]) -> &[u8] {
    match parts(holder) {
        Some((b"", uuid)) => uuid,
        Some((name, _)) => name,
        None => holder,
    }
}

/// The part before the uuid, and the uuid.
fn parts(holder: &[u8]) -> Option<(&[u8], &[u8])> {
    let last = holder.iter().rposition(|byte| *byte == b':')?;
    let (before, number) = (&holder[..last], &holder[last + 1..]);
    let (name, uuid) = before.split_at(before.len().checked_sub(UUID)?);
    let name = match name {
        [] => name,
        [name @ .., b':'] if !name.is_empty() => name,
        _ => return None,
    };
    let is_of_uuid = |(place, byte): (usize, &u8)| match place {
        8 | 13 | 18 | 23 => *byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    let is_whole = number.iter().all(u8::is_ascii_digit) && uuid.iter().enumerate().all(is_of_uuid);
    is_whole.then_some((name, uuid))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: &str = "5d0f3f0e-4a2e-4a94-a4f4-5cf9b2a7c5d1";

    #[test]
    fn what_is_only_for_the_server_is_left_out() {
        let with = |before: &str| format!("{before}{UUID}:17");
        let odd = format!("web-3:{UUID}:x");
        for (holder, shown) in [
            (with("web-3:4711:"), "web-3:4711"),
            (with("nightly:"), "nightly"),
            (with(""), UUID),
            (format!("web-3:{UUID}:"), "web-3"),
            (odd.clone(), odd.as_str()),
            ("somebody".to_owned(), "somebody"),
            (":".to_owned(), ":"),
        ] {
            assert_eq!(process(holder.as_bytes()), shown.as_bytes(), "{holder}");
        }
    }
}
