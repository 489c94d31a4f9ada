//! Times and counts from the command line.

use nix::libc;
use std::os::fd::RawFd;
use std::time::Duration;

/// `500ms`, `10s`, `1.5m`, `2h`, or seconds as a plain number.
pub fn time(text: &str) -> Result<Duration, String> {
    let unit = text.trim_start_matches(|character: char| character.is_ascii_digit() || character == '.');
    let factor = match unit {
        "ms" => 0.001,
        "s" | "" => 1.0,
        "m" => 60.0,
        "h" => 3_600.0,
        _ => return Err("a time is a number with ms, s, m or h".to_owned()),
    };
    let number: f64 = text[..text.len() - unit.len()].parse().map_err(|_| "a time is a number with ms, s, m or h")?;
    // Rounded to milliseconds, the server's unit.
    let ms = (number * factor * 1_000.0).round();
    if ms > 1e15 {
        return Err("this is too long".to_owned());
    }
    Ok(Duration::from_millis(ms as u64))
}

/// A time that is not 0.
pub fn some_time(text: &str) -> Result<Duration, String> {
    time(text).and_then(|time| if time.is_zero() { Err("it must be longer than 0".to_owned()) } else { Ok(time) })
}

/// A screen that changes more often than that cannot be read, and each change costs the server something.
pub fn interval(text: &str) -> Result<Duration, String> {
    let enough = |time: &Duration| *time >= Duration::from_millis(100);
    time(text).and_then(|time| Some(time).filter(enough).ok_or_else(|| "it must be at least 100ms".to_owned()))
}

/// A file descriptor that is already open, before one of ours could get its number.
pub fn descriptor(text: &str) -> Result<RawFd, String> {
    let number = text.parse().map_err(|_| "a file descriptor is a number")?;
    // SAFETY: it asks for a flag, and no memory is involved.
    match unsafe { libc::fcntl(number, libc::F_GETFD) } {
        -1 => Err(format!("file descriptor {number} is not open")),
        _ => Ok(number),
    }
}

/// The maximum that the server returns at once.
pub fn count(text: &str) -> Result<u32, String> {
    let count = text.parse().ok().filter(|count| (1..=10_000).contains(count));
    count.ok_or_else(|| "a number from 1 to 10000".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        let cases = [("0", 0), ("10", 10_000), ("500ms", 500), ("1.5s", 1_500), ("2m", 120_000), ("1h", 3_600_000)];
        for (text, ms) in cases {
            assert_eq!(time(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for text in ["", "s", "ten", "-1s", "1d", "1.2.3", "1e3", "99999999999999h", "10 s"] {
            assert!(time(text).is_err(), "{text}");
        }
        assert!(some_time("0s").is_err());
    }
}
