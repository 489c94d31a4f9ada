//! Text for people: names with arbitrary bytes, and times.
//!
//! Keys and holders come from strangers. Unescaped they could move the cursor, or set the title of the window. So bytes
//! that do not print are escaped, for example as `\x1b`.

use std::fmt::Write;
use std::ops::RangeInclusive;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Any bytes as one line of text.
pub fn name(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            push(&mut text, character);
        }
        for byte in chunk.invalid() {
            push_byte(&mut text, *byte);
        }
    }
    text
}

/// Text from elsewhere, as one line.
pub fn line(text: &str) -> String {
    let words: Vec<_> = text.split(['\n', '\r']).map(str::trim).filter(|part| !part.is_empty()).collect();
    name(words.join(" ").as_bytes())
}

/// How many columns of the terminal a text takes: some characters take two, some none.
pub fn width(text: &str) -> usize {
    text.width()
}

/// The text, no wider than `most`, with `…` at the end if something was left out.
pub fn cut(text: &str, most: usize) -> String {
    if text.width() <= most {
        return text.to_owned();
    }
    let mut left = most.saturating_sub(1);
    let fits = |character: &char| {
        let width = character.width().unwrap_or_default();
        let fits = width <= left;
        left = left.saturating_sub(width);
        fits
    };
    let kept: String = text.chars().take_while(fits).collect();
    kept + if most > 0 { "…" } else { "" }
}

/// The text, no wider than `most`, with `…` in place of the middle. The beginning keeps twice as much room as the end,
/// because holders begin with their host and process.
pub fn shorten(text: &str, most: usize) -> String {
    if text.width() <= most {
        return text.to_owned();
    }
    let kept = most.saturating_sub(1);
    let head = (kept * 2).div_ceil(3);
    let mut left = kept - head;
    let kept = text.char_indices().rev().take_while(|(_, character)| {
        let width = character.width().unwrap_or_default();
        let fits = width <= left;
        left = left.saturating_sub(width);
        fits
    });
    // The end must not begin with a character without width: it belongs to the one before it, which was cut.
    let kept = kept.filter(|(_, character)| character.width().is_some_and(|width| width > 0));
    let tail = kept.last().map_or("", |(at, _)| &text[at..]);
    cut(text, head + usize::from(most > 0)) + tail
}

/// A time in short form: `850ms`, `12.3s`, `4m05s`, `3h02m`, `2d03h`.
pub fn time(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0 => format!("{}ms", time.as_millis()),
        1..60 => format!("{}.{}s", seconds, time.subsec_millis() / 100),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{:02}m", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// What every command says in a grace.
pub fn grace(left: Duration) -> String {
    format!("no lock is granted for {} more: grace period after a start or failover", time(left))
}

/// A moment in UTC, to the second: `2026-11-22T22:37:00Z`.
pub fn moment(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    let (year, month, day) = date(days);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Year, month and day, so many days after 1970-01-01. Counts years from March, so that the leap day is their last day.
fn date(days: u64) -> (u64, u64, u64) {
    /// From 0000-03-01 to 1970-01-01.
    const BEFORE_1970: u64 = 719_468;
    /// The calendar repeats after 400 years: 97 of them have an additional day.
    const REPEATS: u64 = 146_097;
    let (rounds, day) = ((days + BEFORE_1970) / REPEATS, (days + BEFORE_1970) % REPEATS);
    let year = (day - day / 1_460 + day / 36_524 - day / (REPEATS - 1)) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // From March on, every five months have 153 days.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (rounds * 400 + year + u64::from(month <= 2), month, day)
}

/// A time that may not be there.
pub fn time_or(time_if_any: Option<Duration>, otherwise: &str) -> String {
    time_if_any.map_or_else(|| otherwise.to_owned(), time)
}

fn push(text: &mut String, character: char) {
    if is_plain(character) {
        text.push(character);
    } else {
        let mut bytes = [0; 4];
        for byte in character.encode_utf8(&mut bytes).bytes() {
            push_byte(text, byte);
        }
    }
}

fn push_byte(text: &mut String, byte: u8) {
    let _ = write!(text, "\\x{byte:02x}");
}

/// Whether a character is shown as it is. Control characters are not, nor those that have no width or turn the
/// direction of text: if two names looked the same, a user could break the wrong lock.
fn is_plain(character: char) -> bool {
    !character.is_control() && !FORMATTING.iter().any(|range| range.contains(&character))
}

/// Unicode's format characters (category Cf) and its own ends of lines.
const FORMATTING: [RangeInclusive<char>; 20] = [
    '\u{ad}'..='\u{ad}',
    '\u{600}'..='\u{605}',
    '\u{61c}'..='\u{61c}',
    '\u{6dd}'..='\u{6dd}',
    '\u{70f}'..='\u{70f}',
    '\u{890}'..='\u{891}',
    '\u{8e2}'..='\u{8e2}',
    '\u{180e}'..='\u{180e}',
    '\u{200b}'..='\u{200f}',
    '\u{2028}'..='\u{202e}',
    '\u{2060}'..='\u{206f}',
    '\u{feff}'..='\u{feff}',
    '\u{fff9}'..='\u{fffb}',
    '\u{110bd}'..='\u{110bd}',
    '\u{110cd}'..='\u{110cd}',
    '\u{13430}'..='\u{1343f}',
    '\u{1bca0}'..='\u{1bca3}',
    '\u{1d173}'..='\u{1d17a}',
    '\u{e0001}'..='\u{e0001}',
    '\u{e0020}'..='\u{e007f}',
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_any_bytes_are_one_harmless_line() {
        assert_eq!(name("orders:42 für".as_bytes()), "orders:42 für");
        assert_eq!(name(b"\x1b[2J\n\xff\0"), "\\x1b[2J\\x0a\\xff\\x00");
        assert_eq!(name("\u{202e}evil\u{9b}".as_bytes()), "\\xe2\\x80\\xaeevil\\xc2\\x9b");
        assert_eq!(line("one\r\n\n  two\t"), "one two");
    }

    /// Different names must not look the same.
    #[test]
    fn what_takes_no_place_is_shown() {
        assert_eq!(name("a\u{200b}b".as_bytes()), "a\\xe2\\x80\\x8bb");
        for hidden in
            ['\u{ad}', '\u{61c}', '\u{200d}', '\u{2028}', '\u{2060}', '\u{2066}', '\u{feff}', '\u{fff9}', '\u{e0041}']
        {
            assert!(name(hidden.to_string().as_bytes()).starts_with("\\x"), "{hidden:?}");
        }
        assert_eq!(name("für 予約 ∞".as_bytes()), "für 予約 ∞");
    }

    #[test]
    fn what_does_not_fit_is_cut() {
        for (most, shown) in [(9, "orders:42"), (8, "orders:…"), (1, "…"), (0, "")] {
            assert_eq!(cut("orders:42", most), shown);
        }
        for (most, shown) in [(4, "予約"), (3, "予…"), (2, "…")] {
            assert_eq!(cut("予約", most), shown);
        }
    }

    #[test]
    fn both_ends_of_a_long_name_stay() {
        for (most, shown) in [(9, "orders:42"), (8, "order…42"), (7, "orde…42"), (2, "o…"), (1, "…"), (0, "")] {
            assert_eq!(shorten("orders:42", most), shown);
        }
        for (most, shown) in [(8, "予約予約"), (7, "予約…約"), (6, "予約…"), (5, "予…"), (4, "予…"), (2, "…")]
        {
            assert_eq!(shorten("予約予約", most), shown);
        }
        assert_eq!(shorten("abcde\u{301}\u{301}f", 4), "ab…f");
    }

    #[test]
    fn moments_are_those_of_the_calendar() {
        for (seconds, shown) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(moment(UNIX_EPOCH + Duration::from_secs(seconds)), shown);
        }
    }

    #[test]
    fn times_are_short() {
        let cases = [(0, "0ms"), (850, "850ms"), (12_345, "12.3s"), (59_999, "59.9s"), (245_000, "4m05s")];
        let long = [(10_920_000, "3h02m"), (183_600_000, "2d03h")];
        for (ms, shown) in cases.into_iter().chain(long) {
            assert_eq!(time(Duration::from_millis(ms)), shown);
        }
    }
}
