//! The grammar of the commands: what is written is read back as the same, each error names what is wrong, and the page says
//! what the tables say.
#![allow(clippy::unwrap_used)]

use proptest::collection::{hash_set, vec};
use proptest::option;
use proptest::prelude::*;
use rlock_core::lock::{HOLDER_LEN_MAX, Lease, Limit, Side};
use rlock_core::words::{
    self, Argument, COMMANDS, Command, ERRORS, Error, Form, KEYS_MAX, KeyUse, Meaning, Request, Rule,
};
use std::collections::BTreeSet;

const PAGE: &str = include_str!("../../docs/commands.md");
const ON_CALL: &str = include_str!("../../docs/on-call.md");
const SESSION: &str = "0123456789abcdef";

/// Owned, as a request only borrows.
#[derive(Clone, Debug)]
struct Values {
    keys: Vec<Vec<u8>>,
    tickets: Vec<Vec<u8>>,
    holder: Vec<u8>,
    session: Vec<u8>,
    lease: i64,
    numbers: [Option<i64>; 7],
    flags: [bool; 4],
}

fn values() -> impl Strategy<Value = Values> {
    let bytes = |least, most| vec(any::<u8>(), least..=most);
    let holder =
        bytes(1, HOLDER_LEN_MAX).prop_filter("the layout has it", |name| name != b"mode" && !name.ends_with(b":write"));
    let keys = hash_set(bytes(0, 20), 1..=usize::try_from(KEYS_MAX).unwrap());
    let number = |argument: Argument| {
        let Form::Number(least, most) = argument.form() else { panic!("{argument:?} is a number") };
        option::of(least..=most)
    };
    let numbers =
        [Argument::Wait, Argument::Max, Argument::Limit, Argument::Seq, Argument::Ttl, Argument::Count, Argument::Id]
            .map(number);
    (keys, vec(bytes(1, 64), 0..5), holder, bytes(16, 64), 1..=i64::MAX, numbers, any::<[bool; 4]>()).prop_map(
        |(keys, tickets, holder, session, lease, numbers, flags)| Values {
            keys: keys.into_iter().collect(),
            tickets,
            holder,
            session,
            lease,
            numbers,
            flags,
        },
    )
}

/// Checks the request for a command that has these values as far as the command takes them.
fn check(command: &Command, values: &Values) {
    let keys: Vec<_> = values.keys.iter().map(Vec::as_slice).collect();
    let tickets: Vec<_> = values.tickets.iter().map(Vec::as_slice).collect();
    let [wait, max, limit, seq, ttl, count, id] = values.numbers;
    let [fenced, all, has_side, reads] = values.flags;
    let positive = |number: Option<i64>| number.map(i64::unsigned_abs);
    let size = |number: Option<i64>| number.map(|number| usize::try_from(number).unwrap());
    let mut request = Request::default();
    let options = command.options.iter().flat_map(|option| option.arguments());
    for argument in command.arguments.iter().chain(options) {
        match argument {
            Argument::Key => request.keys = &keys[..1],
            Argument::Keys => request.keys = &keys,
            Argument::Holder => request.holder = Some(&values.holder[..]),
            Argument::Lease => request.lease = Lease::from_ms(values.lease),
            Argument::Value => request.value = tickets.last().map_or(Some(&[][..]), |value| Some(*value)),
            Argument::Keep => request.keep = Lease::from_ms(values.lease),
            Argument::Session => request.session = Some(&values.session),
            Argument::Ticket => request.tickets = tickets.get(..1).unwrap_or_default(),
            Argument::Tickets => request.tickets = &tickets,
            Argument::Wait => request.wait_ms = wait,
            Argument::Max => request.max = size(max),
            Argument::Limit => request.limit = Limit::new(limit.unwrap_or(1)),
            Argument::Seq => request.seq = positive(seq),
            Argument::Ttl => request.ttl_ms = ttl,
            Argument::Count => request.count = size(count),
            Argument::Id => request.id = positive(id),
        }
    }
    for option in command.options {
        match option.meaning {
            Meaning::Fenced => request.fenced = fenced,
            Meaning::All => request.all = all,
            Meaning::Side => request.side = has_side.then_some(if reads { Side::Read } else { Side::Write }),
            Meaning::Arguments([Argument::Lease]) if !all => request.lease = None,
            Meaning::Arguments([Argument::Session, _]) if wait.is_none() || tickets.is_empty() => {
                (request.session, request.tickets) = (None, &[]);
            }
            Meaning::Arguments([Argument::Max]) if wait.is_none() => request.max = None,
            Meaning::Arguments([Argument::Id]) if count.is_some() => request.id = None,
            Meaning::Arguments(_) => {}
        }
    }
    let written = written(command, &request);
    assert_eq!(words::read(command, &borrowed(&written)), Ok(request), "{written:?}");
    let mixed = in_another_order(command, &written);
    assert_eq!(words::read(command, &borrowed(&mixed)), Ok(request), "{mixed:?}");
}

fn written(command: &Command, request: &Request<'_, &[u8]>) -> Vec<Vec<u8>> {
    let mut written = Vec::new();
    request.write(command, |word| written.push(word.to_vec()));
    written
}

fn borrowed(words: &[Vec<u8>]) -> Vec<&[u8]> {
    words.iter().map(Vec::as_slice).collect()
}

/// The options in the reverse order, in small letters.
fn in_another_order(command: &Command, words: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut front = 1 + command.arguments.len();
    if command.arguments.contains(&Argument::Keys) {
        front += std::str::from_utf8(&words[1]).unwrap().parse::<usize>().unwrap();
    }
    if command.options.is_empty() {
        return words.to_vec();
    }
    let (arguments, mut rest) = words.split_at(front);
    let mut options = Vec::new();
    while let [word, ..] = rest {
        let is = |known: &&str| known.as_bytes() == word;
        let option = command.options.iter().find(|option| option.words.iter().any(is)).unwrap();
        let (one, behind) = rest.split_at(1 + option.arguments().len());
        let mut one = one.to_vec();
        one[0].make_ascii_lowercase();
        options.push(one);
        rest = behind;
    }
    options.reverse();
    [arguments, &options.concat()].concat()
}

proptest! {
    #[test]
    fn what_is_written_is_read_back_as_the_same_request(values in values()) {
        for command in COMMANDS {
            check(command, &values);
        }
    }

    /// Words of all kinds in any order: they are refused, or written back with the same meaning.
    #[test]
    fn what_is_read_is_written_as_the_same(picks in vec(0..40_usize, 0..9), place in 0..COMMANDS.len()) {
        let options = COMMANDS.iter().flat_map(|command| command.options).flat_map(|option| option.words);
        let others = ["", "1", "2", "0", "k", "h", "mode", "x:write", "1000", "-1", "01", SESSION, "NOW", "100001"];
        let pool: Vec<&str> = options.copied().chain(others).collect::<BTreeSet<_>>().into_iter().collect();
        let command = COMMANDS[place];
        let words = [command.name].into_iter().chain(picks.iter().map(|pick| pool[pick % pool.len()]));
        let words: Vec<_> = words.map(|word| word.as_bytes().to_vec()).collect();
        if let Ok(request) = words::read(command, &borrowed(&words)) {
            let again = written(command, &request);
            let again = borrowed(&again);
            prop_assert_eq!(words::read(command, &again), Ok(request));
        }
    }
}

/// Words with spaces between them; `''` is an empty one.
fn said(line: &str) -> Result<Request<'static, &'static [u8]>, Error> {
    let line = line.replace("SSS", SESSION).replace("LONG", &"x".repeat(65)).leak();
    let words: Vec<_> = line.split(' ').map(|word| word.strip_prefix("''").unwrap_or(word).as_bytes()).collect();
    let command = Command::named(&[b"RLOCK.", words[0]].concat()).unwrap();
    words::read(command, words.leak())
}

#[test]
fn each_command_is_found_by_its_name() {
    for command in COMMANDS {
        assert_eq!(Command::named(command.name.to_lowercase().as_bytes()).unwrap().name, command.name);
    }
    assert!(Command::named(b"RLOCK.").is_none());
}

#[test]
fn each_command_is_described_to_the_server_by_its_own_entry() {
    let different = |of: fn(&Command) -> &str| COMMANDS.into_iter().map(of).collect::<BTreeSet<_>>().len();
    assert_eq!(different(|command| command.summary), COMMANDS.len());
    // ACQUIRE, RACQUIRE and WACQUIRE cost the same.
    assert_eq!(different(|command| command.complexity), COMMANDS.len() - 2);
    for command in COMMANDS {
        let has_several = command.arguments.contains(&Argument::Keys);
        assert_eq!(command.flags.contains("getkeys-api"), has_several, "{}", command.name);
        assert_eq!(matches!(command.key, KeyUse::UpdatesSeveral), has_several, "{}", command.name);
    }
    let several = Command::named(b"RLOCK.MACQUIRE").unwrap();
    let names: Vec<_> = several.arguments.iter().map(|argument| argument.name()).collect();
    assert_eq!((names, several.arity()), (vec!["key", "holder", "lease-ms"], (5, true)));
}

#[test]
fn words_say_what_is_asked() {
    let acquire = said("ACQUIRE k h 7 wait 5 session SSS t Max 2 FENCED").unwrap();
    let waiting = acquire.waiting().unwrap();
    assert_eq!((acquire.key(), acquire.wish(Side::Read).unwrap().lease.ms()), (Ok(&b"k"[..]), 7));
    assert_eq!((waiting.limit_ms, waiting.max, waiting.ticket), (5, Some(2), Some((SESSION.as_bytes(), &b"t"[..]))));
    assert!(acquire.wish(Side::Plain).unwrap().fenced);
    assert_eq!(said("ACQUIRE k h 7").unwrap().waiting(), None);
    let release = said("RELEASE k h write Lease 5 ALL").unwrap().release();
    assert_eq!((release.side, release.lease, release.all), (Some(Side::Write), Lease::from_ms(5), true));
    assert_eq!(said("RELEASE k h READ").unwrap().release().side, Some(Side::Read));
    let all = said("MACQUIRE 2 a b h 7 fenced WAIT 0").unwrap();
    assert_eq!((all.keys, all.holder), (&[&b"a"[..], b"b"][..], Some(&b"h"[..])));
    assert_eq!((said("QUEUES").unwrap().count(), said("INSPECT k count 3").unwrap().count()), (100, 3));
    assert_eq!(said("SESSIONS end 12").unwrap().id, Some(12));
    assert_eq!(said("CANCEL SSS a b").unwrap().tickets, [b"a", b"b"]);
    let events = said("EVENTS SSS TTL 1000 ACK 7").unwrap();
    assert_eq!((events.seq, events.wait_ms, events.ttl_ms), (Some(7), None, Some(1_000)));
}

#[test]
fn what_is_wrong_is_named() {
    for (lines, error) in [
        (
            &["ACQUIRE", "ACQUIRE k", "ACQUIRE k h", "RELEASE k", "RENEW k h", "RENEW k h 7 7", "BREAK", "BREAK k h"][..],
            Error::Arity,
        ),
        (
            &["INSPECT", "EVENTS", "CANCEL", "MACQUIRE 1", "MACQUIRE 1 a h", "MACQUIRE 2 a a h", "MACQUIRE 64 a h 7"],
            Error::Arity,
        ),
        (
            &["ACQUIRE k '' 7", "ACQUIRE k mode 7", "RELEASE k x:write", "RENEW k :write 7", "ACQUIRE k mode x"],
            Error::Holder,
        ),
        (
            &["ACQUIRE k h 0", "ACQUIRE k h -1", "RENEW k h 9223372036854775808", "ACQUIRE k h 01", "ACQUIRE k h ''"],
            Error::Lease,
        ),
        (
            &["RELEASE k h LEASE", "RELEASE k h LEASE 0", "MACQUIRE 1 a b h 7", "RELEASE k h LEASE 7 LEASE 0"],
            Error::Lease,
        ),
        (&["MACQUIRE 0 a h 7", "MACQUIRE 65 a h 7", "MACQUIRE +1 a h 7", "MACQUIRE '' a h 7"], Error::Numkeys),
        (&["MACQUIRE 3 a b a h 7", "MACQUIRE 2 a a mode 7"], Error::KeyTwice),
        (
            &["ACQUIRE k h 7 WAIT", "ACQUIRE k h 7 WAIT -1", "EVENTS SSS WAIT x", "ACQUIRE k h 7 WAIT FENCED"],
            Error::Wait,
        ),
        (&["ACQUIRE k h 7 WAIT 5 MAX", "ACQUIRE k h 7 MAX 0 WAIT 5", "ACQUIRE k h 7 MAX WAIT 5"], Error::Max),
        (
            &["PACQUIRE k h 7", "PACQUIRE k h 7 WAIT 0", "PACQUIRE k h 7 LIMIT 0", "PACQUIRE k h 7 LIMIT 100001"],
            Error::Limit,
        ),
        (
            &["ACQUIRE k h 7 WAIT 5 SESSION", "ACQUIRE k h 7 SESSION short t", "EVENTS short", "CANCEL LONG"],
            Error::Session,
        ),
        (&["ACQUIRE k h 7 WAIT 5 SESSION SSS", "ACQUIRE k h 7 SESSION SSS LONG", "CANCEL SSS a ''"], Error::Ticket),
        (&["EVENTS SSS ACK", "EVENTS SSS ACK -1"], Error::Ack),
        (&["EVENTS SSS TTL 999", "EVENTS SSS TTL 600001"], Error::Ttl),
        (
            &[
                "INSPECT k COUNT",
                "INSPECT k COUNT 0",
                "QUEUES COUNT 10001",
                "SESSIONS COUNT END 1",
                "SESSIONS COUNT 0 END 1",
            ],
            Error::Count,
        ),
        (&["SESSIONS END", "SESSIONS END -1", "SESSIONS END x"], Error::Id),
        (&["ACQUIRE k h 7 WAIT 1 WAIT 1", "EVENTS SSS WAIT 1 wait 1"], Error::WaitTwice),
        (&["ACQUIRE k h 7 WAIT 1 MAX 1 MAX 1"], Error::MaxTwice),
        (&["ACQUIRE k h 7 FENCED fenced"], Error::FencedTwice),
        (&["ACQUIRE k h 7 WAIT 1 SESSION SSS t SESSION SSS t"], Error::SessionTwice),
        (&["PACQUIRE k h 7 LIMIT 1 limit 1"], Error::LimitTwice),
        (&["RELEASE k h READ WRITE", "RELEASE k h READ read"], Error::SideTwice),
        (&["RELEASE k h LEASE 1 LEASE 1"], Error::LeaseTwice),
        (&["RELEASE k h ALL all"], Error::AllTwice),
        (&["EVENTS SSS ACK 1 ACK 1"], Error::AckTwice),
        (&["EVENTS SSS TTL 1000 TTL 1000"], Error::TtlTwice),
        (&["QUEUES COUNT 1 count 1", "SESSIONS COUNT 1 COUNT 1"], Error::CountTwice),
        (&["ACQUIRE k h 7 MAX 1", "PACQUIRE k h 7 MAX 1"], Error::MaxWithoutWait),
        (&["ACQUIRE k h 7 SESSION SSS t", "ACQUIRE k h 7 MAX 1 SESSION SSS t"], Error::SessionWithoutWait),
        (
            &["ACQUIRE k h 7 NOW", "WACQUIRE k h 7 ''", "MACQUIRE 1 k h 7 ALL", "RACQUIRE k h 7 LIMIT 1"],
            Error::OptionOfAcquire,
        ),
        (&["PACQUIRE k h 7 LIMIT 1 ALL"], Error::OptionOfPermit),
        (&["ONCE k h 7 FENCED"], Error::OptionOfOnce),
        (&["ANSWER k h v WAIT 0"], Error::OptionOfAnswer),
        (&["RELEASE k h FENCED"], Error::OptionOfRelease),
        (&["EVENTS SSS COUNT 1"], Error::OptionOfEvents),
        (&["INSPECT k 5"], Error::OptionOfInspect),
        (&["QUEUES k"], Error::OptionOfQueues),
        (
            &["SESSIONS k", "SESSIONS END 1 COUNT 1", "SESSIONS COUNT 1 END 1", "SESSIONS END x 1"],
            Error::OptionOfSessions,
        ),
    ] {
        for line in lines {
            assert_eq!(said(line), Err(error), "{line}");
        }
    }
}

/// A holder's longest name, and one that only looks like a field.
#[test]
fn a_holder_fits_the_layout() {
    let holders = ["h", "Mode", "h:Write", ":write:", "h:write ", &"h".repeat(HOLDER_LEN_MAX)];
    for holder in holders {
        assert_eq!(said(&format!("RELEASE k {}", holder.replace(' ', "_"))).map(drop), Ok(()), "{holder}");
    }
    assert_eq!(said(&format!("RELEASE k {}", "h".repeat(HOLDER_LEN_MAX + 1))), Err(Error::Holder));
}

/// The bounds of an argument, unless its maximum is that of any integer or any name.
#[test]
fn errors_name_the_bounds_of_the_table() {
    let arguments = COMMANDS.iter().flat_map(|command| command.arguments);
    let behind = COMMANDS.iter().flat_map(|command| command.options).flat_map(|option| option.arguments());
    for argument in arguments.chain(behind) {
        let line = argument.wrong().line().to_str().unwrap();
        let bounds = match argument.form() {
            Form::Text(least, most) => format!("must be {least} to {most} bytes"),
            Form::Number(..) if matches!(argument, Argument::Lease | Argument::Keep | Argument::Seq | Argument::Id) => {
                continue;
            }
            Form::Number(least, most) if *argument == Argument::Wait => format!("from {least} (forever) to {most}"),
            Form::Number(least, most) => format!("from {least} to {most}"),
            Form::Key | Form::Value => continue,
        };
        assert!(line.contains(&bounds), "{line}: {bounds}");
    }
    assert!(Error::Numkeys.text().contains(&format!("from 1 to {KEYS_MAX}")));
}

/// The words of the page's grammar, by command.
fn of_the_page() -> Vec<(String, BTreeSet<String>)> {
    let block = PAGE.split("```").nth(1).unwrap();
    let waiting = block.lines().find_map(|line| line.trim().strip_prefix("waiting:")).unwrap();
    let mut commands: Vec<(String, BTreeSet<String>)> = Vec::new();
    for line in block.lines().filter(|line| line.starts_with("RLOCK.")) {
        let (name, rest) = line.split_once(' ').unwrap();
        let grammar = rest.trim_start().split("   ").next().unwrap().replace("[waiting]", waiting);
        let words = grammar.split([' ', '[', ']', '|']).filter(|word| !word.is_empty() && *word == word.to_uppercase());
        let words = words.filter(|word| word.starts_with(char::is_alphabetic)).map(str::to_owned);
        match commands.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => known.extend(words),
            None => commands.push((name.to_owned(), words.collect())),
        }
    }
    commands
}

#[test]
fn the_page_has_each_command_and_each_option_of_the_tables() {
    let mut told = of_the_page();
    let mut known: Vec<_> = COMMANDS
        .iter()
        .map(|command| {
            let words = command.options.iter().flat_map(|option| option.words);
            (command.name.to_owned(), words.map(|word| (*word).to_owned()).collect())
        })
        .collect();
    told.sort();
    known.sort();
    assert_eq!(told, known);
}

/// The page's patterns of errors: `…` is anything.
#[test]
fn the_page_has_each_error_of_the_tables() {
    let table = PAGE.split("\n## Errors\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    let patterns: Vec<_> =
        rows.flat_map(|row| row.split(" | ").next().unwrap().split('`').skip(1).step_by(2)).collect();
    let matches = |pattern: &str, line: &str| {
        let mut parts = pattern.split('…');
        let Some(mut rest) = parts.next().and_then(|first| line.strip_prefix(first.trim_end())) else { return false };
        parts.all(|part| rest.split_once(part.trim()).map(|(_, behind)| rest = behind).is_some())
    };
    let lines: Vec<_> = ERRORS.iter().map(|(_, line)| line.to_str().unwrap()).collect();
    for pattern in &patterns {
        let pattern = pattern.strip_suffix(": n").unwrap_or(pattern);
        assert!(lines.iter().any(|line| matches(pattern, line)), "no error is {pattern}");
    }
    for line in lines {
        // Only waiting clients get these errors: the page lists them in another place.
        let is_told = line.starts_with("UNBLOCKED") || line.starts_with("TRYAGAIN another node");
        assert!(is_told || patterns.iter().any(|pattern| matches(pattern, line)), "the page lacks {line}");
    }
}

/// So that the parser has to look ahead by one word at most.
#[test]
fn the_tables_keep_their_own_rules() {
    for command in COMMANDS {
        assert!(command.arguments.len() <= 3, "{}", command.name);
        let required = command.options.iter().skip(1).filter(|option| matches!(option.rule, Rule::Required)).count();
        assert_eq!(required, 0, "{}: a required option is the first, and the only one", command.name);
    }
}

/// The rows of the page's table, each the beginning of an error, without the ellipsis.
fn beginnings_on_call() -> Vec<&'static str> {
    let (_, table) = ON_CALL.split_once("| error | do |\n|---|---|\n").unwrap();
    let rows = table.lines().map_while(|line| line.strip_prefix("| `")?.split_once("` | "));
    rows.map(|(beginning, _)| beginning.trim_end_matches(" …")).collect()
}

#[test]
fn each_error_has_a_row_on_call_and_each_row_an_error() {
    let beginnings = beginnings_on_call();
    let mut without_error: BTreeSet<_> = beginnings.iter().copied().collect();
    for (error, line) in ERRORS {
        let rows = beginnings.iter().filter(|beginning| line.to_str().unwrap().starts_with(**beginning));
        let row = rows.max_by_key(|beginning| beginning.len());
        without_error.remove(row.unwrap_or_else(|| panic!("docs/on-call.md has no row for {error:?}: {line:?}")));
    }
    assert!(without_error.is_empty(), "docs/on-call.md has rows for no error: {without_error:?}");
}
