//! What the commands take. Anything else is refused with an error that names the argument and what is allowed; a refused
//! command changes nothing and replicates nothing.

use crate::sessions::kept;
use rlock_core::words::{Argument, COMMANDS, Error, Form, OptionWord, Rule};
use rlock_testing::resp::Protocol;
use rlock_testing::{Client, Reply, Server, Session, Tap};

pub const ACQUIRES: [&str; 3] = ["RLOCK.ACQUIRE", "RLOCK.RACQUIRE", "RLOCK.WACQUIRE"];

/// A server with keys of all kinds, and a session with one ticket in a queue and one that has ended. No refused command may
/// change any of them.
pub struct Refusals {
    pub client: Client,
    pub session: Session,
    tap: Tap,
    before: (String, [i64; 4]),
    pub server: Server,
}

impl Refusals {
    pub fn prepare() -> Self {
        let (server, mut client, mut session) = Server::with_session();
        for setup in [
            "SET text hello",
            "RPUSH items a",
            "HSET foreign h -3 g many i 0 j 05 k 9223372036854775808",
            "HSET odd-mode mode both h 1",
            "HSET full h 9223372036854775807",
            "HSET full-write mode write h:write 9223372036854775807",
            "HSET full-read mode read h 9223372036854775807",
            "HSET crowded mode read h 10001",
            "RLOCK.ACQUIRE plain h 600000",
            "RLOCK.WACQUIRE both h 600000",
            "RLOCK.RACQUIRE both h 600000",
            "RLOCK.RACQUIRE read h 600000",
            "RLOCK.WACQUIRE queued holder 600000",
        ] {
            assert!(!matches!(client.say(setup), Reply::Error(_)), "{setup}");
        }
        session.wait_for("RLOCK.WACQUIRE queued ann 600000 WAIT 0", "waiting");
        session.wait_for("RLOCK.RACQUIRE queued bob 600000 WAIT 1", "received");
        assert_eq!(session.fetch("WAIT 10000")[0].outcome, "timeout");
        Self { tap: Tap::on(&server), before: state(&mut client), client, session, server }
    }

    /// Each call must fail with an error that starts with the code and names what is wrong, and change nothing.
    pub fn all(&mut self, calls: &[(&[&str], &str, &str)]) {
        for (call, code, named) in calls {
            let reply = self.client.run(call);
            let Reply::Error(line) = &reply else { panic!("{call:?} was answered {reply:?}") };
            assert!(line.starts_with(&format!("{code} ")), "{call:?}: {line}");
            assert!(line.contains(named), "{call:?}: {line}");
            self.is_as_before();
        }
        assert_eq!(self.tap.drain(), [""; 0], "errors replicate nothing");
        assert_eq!(self.session.fetch(""), [], "nor is the session notified of them");
    }

    /// The same for one call, given as words with spaces between them.
    pub fn one(&mut self, call: &str, code: &str, named: &str) {
        self.all(&[(&call.split(' ').collect::<Vec<_>>(), code, named)]);
    }

    /// # Panics
    /// If there are other keys, or something else is in the module's memory.
    #[track_caller]
    pub fn is_as_before(&mut self) {
        assert_eq!(state(&mut self.client), self.before);
    }

    /// From here on, changes are compared with the present state.
    pub fn begin_again(&mut self) {
        (self.before, _) = (state(&mut self.client), self.tap.drain());
    }
}

/// All keys, and what is in the module's memory.
fn state(client: &mut Client) -> (String, [i64; 4]) {
    (client.digest(), kept(client))
}

fn all_refused(calls: &[(&[&str], &str, &str)]) {
    Refusals::prepare().all(calls);
}

/// Words that are valid for the argument, whatever the command replies.
fn good(argument: Argument) -> &'static [&'static str] {
    match argument {
        Argument::Key => &["plain"],
        Argument::Keys => &["2", "plain", "k"],
        Argument::Holder => &["h"],
        Argument::Session => &["a-session-of-nobody"],
        Argument::Ticket => &["t"],
        Argument::Tickets => &[],
        Argument::Seq => &["0"],
        Argument::Value => &["value"],
        Argument::Lease | Argument::Keep | Argument::Ttl => &["1000"],
        Argument::Wait | Argument::Max | Argument::Limit | Argument::Count | Argument::Id => &["1"],
    }
}

/// Words that are invalid for the argument.
fn wrong(argument: Argument) -> Vec<String> {
    let mut words: Vec<_> = match argument.form() {
        Form::Key | Form::Value => return Vec::new(),
        Form::Text(least, most) => [least - 1, most + 1].map(|length| "x".repeat(length)).into(),
        Form::Number(least, most) => {
            let beyond = [i128::from(least) - 1, i128::from(most) + 1].map(|number| number.to_string());
            [&beyond[..], &["", "1.5", "1e3", "abc", "+5", " 5", "05"].map(str::to_owned)].concat()
        }
    };
    if argument == Argument::Holder {
        words.extend(["mode", ":write", "h:write", "mode:write"].map(str::to_owned));
    }
    words
}

/// For each command: too few words, wrong ones, options that are cut off, wrong, doubled, unknown or without what they need.
#[test]
fn each_wrong_word_is_named_and_changes_nothing() {
    let mut refused = Refusals::prepare();
    let mut is_refused = |words: &[&str], error: Error| refused.all(&[(words, error.code(), error.text())]);
    for command in COMMANDS {
        let needed: Vec<_> = command.options.iter().filter(|option| option.is_required()).flat_map(whole).collect();
        let alone = [&[command.name], &behind(command.arguments)[..]].concat();
        let start = [&alone[..], &needed].concat();
        // Where no option may be left out or added, the server itself counts the words.
        let or_arity = |error| if command.arity().1 { error } else { Error::Arity };
        (1..start.len()).for_each(|length| is_refused(&start[..length], Error::Arity));
        for (place, argument) in command.arguments.iter().enumerate() {
            let before = [&[command.name], &behind(&command.arguments[..place])[..]].concat();
            let after = [behind(&command.arguments[place + 1..]), needed.clone()].concat();
            for word in wrong(*argument) {
                is_refused(&[&before[..], &[&word], &after].concat(), argument.wrong());
            }
        }
        if !command.arguments.contains(&Argument::Tickets) {
            is_refused(&[&start[..], &["NOW"]].concat(), or_arity(command.unknown_option));
        }
        for option in command.options {
            let start = if option.is_required() { &alone } else { &start };
            let given = [&start[..], &whole(option)].concat();
            let mut again = whole(option);
            let small = again[0].to_lowercase();
            again[0] = &small;
            is_refused(&[&given[..], &again].concat(), or_arity(option.given_twice));
            if let Rule::Needs(_, error) = option.rule {
                is_refused(&given, error);
            }
            for (place, argument) in option.arguments().iter().enumerate() {
                let cut = &given[..=start.len() + place];
                // If the option is required, the server finds too few words.
                if !option.is_required() {
                    is_refused(cut, argument.wrong());
                }
                for word in wrong(*argument) {
                    let words = [cut, &[&word], &behind(&option.arguments()[place + 1..])].concat();
                    is_refused(&words, argument.wrong());
                }
            }
        }
    }
}

fn whole(option: &OptionWord) -> Vec<&'static str> {
    [&[option.words[0]], &behind(option.arguments())[..]].concat()
}

fn behind(arguments: &[Argument]) -> Vec<&'static str> {
    arguments.iter().flat_map(|argument| good(*argument)).copied().collect()
}

/// Errors that no single word shows.
#[test]
fn words_that_do_not_go_together_are_refused() {
    Refusals::prepare().all(&[
        (&["RLOCK.RELEASE", "both", "h", "READ", "WRITE"], "ERR", "READ or WRITE given twice"),
        (&["RLOCK.SESSIONS", "COUNT", "1", "END", "1"], "ERR", "option unknown"),
        (&["RLOCK.RENEW", "plain", "h", "1", "1"], "ERR", "wrong number of arguments"),
        (&["RLOCK.RENEW", "plain", "h", "9223372036854775807"], "ERR", "lease must be"),
        (&["RLOCK.RELEASE", "plain", "h", "LEASE", "9223372036854775807"], "ERR", "lease must be"),
        (&["RLOCK.ACQUIRE", "k", "h", "9223372036854775807"], "ERR", "lease must be"),
    ]);
}

#[test]
fn the_longest_lease_that_fits_is_taken() {
    let (_server, mut client) = Server::with_client();
    // Far enough from the edge that the clock does not reach it while the test runs.
    let longest = (i64::MAX - client.time_ms() - 60_000).to_string();
    assert_eq!(client.run(&["RLOCK.ACQUIRE", "k", "h", &longest]), Reply::Nil);
    assert!(client.expiry("k") > i64::MAX - 120_000);
    assert_eq!(client.run(&["RLOCK.WACQUIRE", "w", "h", &longest]), Reply::Nil);
    let reply = client.run(&["RLOCK.WACQUIRE", "w", "h", &longest]);
    assert!(reply.as_error().starts_with("ERR lease must be"), "a lease that grows is checked too: {reply:?}");
    assert_eq!(client.fields("w"), "{h:write:1,mode:write}");
}

#[test]
fn a_holder_is_up_to_512_bytes_that_fit_the_layout() {
    let (_server, mut client) = Server::with_client();
    let longest = "h".repeat(512);
    for (number, holder) in ["h", "Mode", "h:Write", ":write:", " ", &longest].into_iter().enumerate() {
        let key = format!("k{number}");
        assert_eq!(client.run(&["RLOCK.ACQUIRE", &key, holder, "600000"]), Reply::Nil, "{holder}");
        assert_eq!(client.fields(&key), format!("{{{holder}:1}}"));
    }
}

/// One request waits for the lock already.
#[test]
fn a_refused_request_has_changed_nothing() {
    let mut refused = Refusals::prepare();
    for options in ["WAIT 0 MAX 1", "max 1 FENCED wait 5", "WAIT 0 MAX 1 SESSION the-session-of-ann t"] {
        for name in ["RLOCK.RACQUIRE", "RLOCK.WACQUIRE"] {
            refused.one(&format!("{name} queued h 1000 {options}"), "QUEUEFULL", "as MAX allows, or more: 1");
        }
        // What is wrong with the request itself comes first.
        refused.one(&format!("RLOCK.ACQUIRE queued h 1000 {options}"), "WRONGKIND", "key");
        refused.one(&format!("RLOCK.WACQUIRE read h 1000 {options}"), "DEADLOCK", "holder");
    }
}

#[test]
fn option_words_come_in_any_case_and_order() {
    let (_server, mut client) = Server::with_client();
    assert!(client.say("rlock.acquire k h 600000 fEnCeD").token() > 0);
    assert_eq!(client.say("RLOCK.ACQUIRE k h 600000"), Reply::Nil);
    assert_eq!(client.say("Rlock.Release k h aLL lEASE 600000"), Reply::Int(1));
    assert_eq!(client.say("RLOCK.WACQUIRE w h 600000"), Reply::Nil);
    assert_eq!(client.say("RLOCK.RELEASE w h LEASE 600000 all Write"), Reply::Int(1));
}

#[test]
fn a_reader_that_would_wait_for_itself_gets_an_error() {
    all_refused(&[
        (&["RLOCK.WACQUIRE", "read", "h", "1000", "WAIT", "0"], "DEADLOCK", "holder"),
        (&["RLOCK.WACQUIRE", "read", "h", "1000", "FENCED", "WAIT", "5"], "DEADLOCK", "holder"),
    ]);
}

#[test]
fn a_key_that_is_no_lock_is_the_wrong_type() {
    let mut refused = Refusals::prepare();
    for key in ["text", "items"] {
        refused.all(&[
            (&["RLOCK.ACQUIRE", key, "h", "1000"], "WRONGTYPE", "key"),
            (&["RLOCK.RACQUIRE", key, "h", "1000"], "WRONGTYPE", "key"),
            (&["RLOCK.WACQUIRE", key, "h", "1000"], "WRONGTYPE", "key"),
            (&["RLOCK.RELEASE", key, "h"], "WRONGTYPE", "key"),
            (&["RLOCK.RENEW", key, "h", "1000"], "WRONGTYPE", "key"),
            (&["RLOCK.INSPECT", key], "WRONGTYPE", "key"),
            (&["RLOCK.BREAK", key], "WRONGTYPE", "key"),
        ]);
    }
}

#[test]
fn a_hash_without_a_positive_count_is_foreign() {
    let mut refused = Refusals::prepare();
    for holder in ["h", "g", "i", "j", "k"] {
        refused.all(&[
            (&["RLOCK.ACQUIRE", "foreign", holder, "1000"], "WRONGTYPE", "key"),
            (&["RLOCK.RACQUIRE", "foreign", holder, "1000"], "WRONGTYPE", "key"),
            (&["RLOCK.RELEASE", "foreign", holder], "WRONGTYPE", "key"),
            (&["RLOCK.RENEW", "foreign", holder, "1000"], "WRONGTYPE", "key"),
        ]);
    }
    refused.all(&[
        (&["RLOCK.RACQUIRE", "odd-mode", "h", "1000"], "WRONGTYPE", "key"),
        (&["RLOCK.WACQUIRE", "odd-mode", "h", "1000"], "WRONGTYPE", "key"),
        (&["RLOCK.RELEASE", "odd-mode", "h"], "WRONGTYPE", "key"),
        (&["RLOCK.RENEW", "odd-mode", "h", "1000"], "WRONGTYPE", "key"),
        (&["RLOCK.INSPECT", "odd-mode"], "WRONGTYPE", "key"),
        (&["RLOCK.BREAK", "odd-mode"], "WRONGTYPE", "key"),
        (&["RLOCK.INSPECT", "foreign"], "WRONGTYPE", "key"),
        (&["RLOCK.BREAK", "foreign"], "WRONGTYPE", "key"),
    ]);
}

#[test]
fn a_release_that_cannot_be_meant_is_refused() {
    all_refused(&[
        (&["RLOCK.RELEASE", "both", "h"], "ERR", "READ, WRITE or ALL"),
        (&["RLOCK.RELEASE", "both", "h", "LEASE", "1000"], "ERR", "READ, WRITE or ALL"),
        (&["RLOCK.RELEASE", "both", "h", "READ", "LEASE", "1000"], "ERR", "LEASE"),
        (&["RLOCK.RELEASE", "read", "h", "LEASE", "1000"], "ERR", "LEASE"),
        (&["RLOCK.RELEASE", "read", "h", "READ", "LEASE", "1000"], "ERR", "LEASE"),
        (&["RLOCK.RELEASE", "gone", "h", "READ", "LEASE", "1000"], "ERR", "LEASE"),
    ]);
}

/// Redisson counts a read hold into a plain lock's hash, and the other way round.
#[test]
fn mixing_kinds_on_one_key_is_refused() {
    all_refused(&[
        (&["RLOCK.ACQUIRE", "read", "h", "1000"], "WRONGKIND", "read-write"),
        (&["RLOCK.ACQUIRE", "both", "other", "1000"], "WRONGKIND", "read-write"),
        (&["RLOCK.RACQUIRE", "plain", "h", "1000"], "WRONGKIND", "plain"),
        (&["RLOCK.RACQUIRE", "plain", "other", "1000"], "WRONGKIND", "plain"),
        (&["RLOCK.WACQUIRE", "plain", "h", "1000"], "WRONGKIND", "plain"),
        (&["RLOCK.RELEASE", "plain", "h", "READ"], "WRONGKIND", "plain"),
        (&["RLOCK.RELEASE", "plain", "h", "WRITE"], "WRONGKIND", "plain"),
    ]);
}

#[test]
fn counts_end_at_their_limits() {
    all_refused(&[
        (&["RLOCK.ACQUIRE", "full", "h", "1000"], "ERR", "holder has too many holds"),
        (&["RLOCK.WACQUIRE", "full-write", "h", "1000"], "ERR", "holder has too many holds"),
        (&["RLOCK.RACQUIRE", "full-read", "h", "1000"], "ERR", "holder has too many holds"),
        (&["RLOCK.RACQUIRE", "crowded", "h", "1000"], "ERR", "holder has too many holds"),
        (&["RLOCK.RENEW", "crowded", "h", "1000"], "ERR", "holder has too many holds"),
    ]);
}

/// Numbers of ms and tokens are written as `<n>`.
const CONVERSATION: [(&str, &str); 38] = [
    ("RLOCK.ACQUIRE k h 600000", "nil"),
    ("RLOCK.ACQUIRE k h 600000 FENCED", "[nil, <n>]"),
    ("RLOCK.ACQUIRE k other 1000", "<n>"),
    ("RLOCK.ACQUIRE k other 1000 FENCED", "[<n>, nil]"),
    ("RLOCK.ACQUIRE k other 1000 WAIT 1", "<n>"),
    ("RLOCK.RENEW k h 600000", "1"),
    ("RLOCK.RENEW k other 600000", "0"),
    ("RLOCK.RELEASE k h", "0"),
    ("RLOCK.RELEASE k h", "1"),
    ("RLOCK.RELEASE k h", "nil"),
    ("RLOCK.RACQUIRE r h 600000 FENCED", "[nil, <n>]"),
    ("RLOCK.WACQUIRE r other 1000", "<n>"),
    ("RLOCK.RELEASE r h", "1"),
    ("RLOCK.WACQUIRE r h 600000", "nil"),
    ("RLOCK.PACQUIRE p h 600000 LIMIT 1", "nil"),
    ("RLOCK.PACQUIRE p other 1000 LIMIT 1 FENCED", "[<n>, nil]"),
    ("RLOCK.PACQUIRE p h 600000 LIMIT 1 FENCED", "[nil, <n>]"),
    ("RLOCK.MACQUIRE 2 a b h 600000", "nil"),
    ("RLOCK.MACQUIRE 2 a b h 600000 FENCED", "[nil, [<n>, <n>]]"),
    ("RLOCK.MACQUIRE 2 a b other 1000 FENCED", "[<n>, nil]"),
    ("RLOCK.ONCE o h 600000", "nil"),
    ("RLOCK.ONCE o other 600000", "<n>"),
    ("RLOCK.ANSWER o other 42 KEEP 600000", "nil"),
    ("RLOCK.ANSWER o h 42 KEEP 600000", "1"),
    ("RLOCK.ONCE o other 600000", "\"42\""),
    ("RLOCK.EVENTS the-session-of-ann", "[]"),
    ("RLOCK.ACQUIRE a ann 600000 WAIT 0 SESSION the-session-of-ann t", "+WAITING"),
    ("RLOCK.CANCEL the-session-of-ann t none", "[1, 0]"),
    ("RLOCK.CANCEL the-session-of-ann", "0"),
    ("RLOCK.QUEUES", "[]"),
    ("RLOCK.SESSIONS", "[]"),
    ("RLOCK.BREAK a", "1"),
    ("RLOCK.BREAK a", "0"),
    ("RLOCK.ACQUIRE k", "-ERR wrong number of arguments for "),
    ("RLOCK.ACQUIRE r h 600000", "-WRONGKIND"),
    ("RLOCK.RACQUIRE r h 0", "-ERR lease must be"),
    ("RLOCK.EVENTS the-session-of-ann ACK 1", "-NOSESSION"),
    ("PING", "+PONG"),
];

#[test]
fn replies_are_the_same_in_both_protocols() {
    for (hello, protocol) in [("HELLO 2", Protocol::Resp2), ("HELLO 3", Protocol::Resp3)] {
        let (_server, mut client) = Server::with_client();
        client.say(hello);
        for (command, expected) in CONVERSATION {
            client.send(&command.split(' ').collect::<Vec<_>>());
            let reply = client.receive_in(protocol);
            let digits = |word: &str| word.len() >= 3 && word.bytes().all(|byte| byte.is_ascii_digit());
            let words = reply.split_inclusive([' ', '[', ']', ',']).map(|piece| {
                let word = piece.trim_end_matches([' ', '[', ']', ',']);
                if digits(word) { piece.replace(word, "<n>") } else { piece.to_owned() }
            });
            let reply: String = words.collect();
            assert!(
                reply == expected || expected.starts_with('-') && reply.starts_with(expected),
                "{hello}, {command}: {reply}"
            );
        }
    }
}
