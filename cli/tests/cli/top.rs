//! `rlock top`, driven and looked at in a terminal.

use crate::support::{Running, given_back, rlock, run, start, taken};
use crate::terminal::Terminal;
use rlock_testing::{Client, Reply, Server};
use std::collections::VecDeque;

const TOP: &str = "rlock top --interval 100ms; echo code $?";
const HELP: &str = "q quit";

fn waits(server: &Server, client: &mut Client, key: &str, count: i64, others: i64) -> Vec<Running> {
    let wait = |place| {
        let waits = start(rlock(server, &["run", key, "--", "true"]));
        client.until_waiting(others + place);
        waits
    };
    (1..=count).map(wait).collect()
}

/// Two who wait for `orders:42`, three for `web:mails`.
fn busy(server: &Server, client: &mut Client) -> Vec<Running> {
    for key in ["orders:42", "web:mails"] {
        taken(client, key);
    }
    let mut all = waits(server, client, "orders:42", 2, 0);
    all.extend(waits(server, client, "web:mails", 3, 2));
    all
}

/// The names in the table, from above.
fn keys(screen: &str) -> Vec<&str> {
    let table = screen.lines().skip_while(|line| !line.starts_with("KEY"));
    let rows = table.skip(1).take_while(|line| !line.starts_with(HELP));
    rows.map_while(|line| line.split_whitespace().next()).collect()
}

#[test]
fn the_busiest_locks_are_on_the_screen() {
    let server = Server::start();
    let mut client = server.client();
    let terminal = Terminal::open(&server, &[]);
    terminal.enter(TOP);
    terminal.wait_for("nobody waits for a lock");
    let _waits = busy(&server, &mut client);
    terminal.wait_until("both locks", |screen| keys(screen) == ["web:mails", "orders:42"]);
    terminal.wait_for("5 waiting for 2 locks");
    terminal.wait_until("the holder and how many wait", |screen| {
        let line = screen.lines().find(|line| line.starts_with("web:mails")).unwrap_or_default();
        line.split_whitespace().skip(1).take(2).eq(["somebody", "3"])
    });
    let screen = terminal.screen();
    assert!(screen.contains("every 100ms") && screen.contains(&server.socket().display().to_string()), "{screen}");
    assert!(screen.lines().last().unwrap().starts_with(HELP), "{screen}");
    given_back(&mut client, "web:mails");
    terminal.wait_until("the one that is left", |screen| keys(screen) == ["orders:42"]);
    terminal.press("q");
    terminal.wait_for("code 0");
    assert!(!terminal.screen().contains("GRANTS/S"), "the screen is as it was");
}

#[test]
fn grants_per_second() {
    let server = Server::start();
    let terminal = Terminal::open(&server, &[]);
    terminal.enter(TOP);
    let mut round = Round::begin(&server);
    let line = |screen: &str, start: &str| screen.lines().find(|line| line.starts_with(start)).unwrap_or("").to_owned();
    terminal.wait_until("no grants yet", |screen| line(screen, "key").ends_with(" 0.0"));
    terminal.wait_until("grants", |screen| {
        round.go_on();
        let (lock, all) = (line(screen, "key"), line(screen, "per second"));
        !lock.ends_with(" 0.0") && lock.ends_with(|it: char| it.is_ascii_digit()) && !all.contains(" 0.0 hand-offs")
    });
    terminal.wait_until("no grants any more", |screen| line(screen, "key").ends_with(" 0.0"));
}

/// Three who take turns: one has the lock, and two wait for it.
struct Round(VecDeque<(Client, String)>);

impl Round {
    fn begin(server: &Server) -> Self {
        let mut round = Self((0..3).map(|number| (server.client(), format!("holder-{number}"))).collect());
        for (client, holder) in &mut round.0 {
            client.send(&["RLOCK.ACQUIRE", "key", holder, "600000", "WAIT", "0"]);
        }
        server.client().until_waiting(2);
        assert_eq!(round.0[0].0.receive(), Reply::Nil);
        round
    }

    /// The next one has it, and who had it waits again. The queue is never empty.
    fn go_on(&mut self) {
        let (mut client, holder) = self.0.pop_front().unwrap();
        assert_eq!(client.run(&["RLOCK.RELEASE", "key", &holder]).as_int(), 1);
        client.send(&["RLOCK.ACQUIRE", "key", &holder, "600000", "WAIT", "0"]);
        self.0.push_back((client, holder));
        assert_eq!(self.0[0].0.receive(), Reply::Nil);
    }
}

#[test]
fn keys_sort_filter_and_inspect() {
    let server = Server::start();
    let mut client = server.client();
    let _waits = busy(&server, &mut client);
    let terminal = Terminal::open(&server, &[]);
    terminal.enter(TOP);
    for (order, first) in
        [("waiters", "web:mails"), ("oldest wait", "orders:42"), ("grants/s", ""), ("key", "orders:42")]
    {
        terminal.wait_until(order, |screen| screen.contains(&format!("by {order}")) && keys(screen).len() == 2);
        assert!(first.is_empty() || keys(&terminal.screen())[0] == first, "{}", terminal.screen());
        terminal.press("s");
    }
    terminal.press("/");
    terminal.type_in("ordq");
    terminal.wait_for("filter: ordq_");
    terminal.wait_for("no lock has this in its name");
    terminal.press("BSpace");
    terminal.wait_until("what matches", |screen| keys(screen) == ["orders:42"]);
    terminal.press("Enter");
    terminal.wait_until("the filter is kept", |screen| screen.contains("filter: ord") && screen.contains(HELP));
    terminal.press("Enter");
    terminal.wait_for("orders:42: plain, lease ends in 9m");
    terminal.wait_for("somebody  exclusive");
    terminal.wait_for("GIVES UP IN");
    terminal.press("q");
    terminal.wait_until("back", |screen| keys(screen) == ["orders:42"]);
    terminal.press("Escape");
    terminal.wait_until("all of them", |screen| keys(screen).len() == 2);
    terminal.press("Down");
    terminal.press("Enter");
    terminal.wait_for("orders:42: plain");
}

#[test]
fn the_window_changes_its_size() {
    let server = Server::start();
    let mut client = server.client();
    let _waits = busy(&server, &mut client);
    let terminal = Terminal::open(&server, &[]);
    terminal.enter(TOP);
    terminal.wait_until("both locks", |screen| keys(screen).len() == 2);
    for (columns, rows) in [(60, 12), (140, 40), (20, 4), (3, 1), (100, 30)] {
        terminal.resize(columns, rows);
        terminal.wait_until("a screen of that size", |screen| match rows {
            1 => screen.lines().count() <= 1,
            4 => screen.lines().nth(3).is_some_and(|line| line.starts_with(HELP)),
            _ => {
                keys(screen).len() == 2 && screen.lines().nth(rows as usize - 1).is_some_and(|it| it.starts_with(HELP))
            }
        });
    }
    terminal.press("q");
    terminal.wait_for("code 0");
}

#[test]
fn tickets_and_sessions_that_nobody_attends_to_are_on_the_screen() {
    let server = Server::start();
    let mut client = server.client();
    taken(&mut client, "orders:42");
    let terminal = Terminal::open(&server, &[]);
    terminal.enter(TOP);
    terminal.wait_for("0 waiting for 0 locks");
    let mut session = server.client();
    session.send(&["RLOCK.EVENTS", "a-session-of-a-service", "WAIT", "0", "TTL", "600000"]);
    terminal.wait_until("it is no trouble", |screen| client.figure("sessions") == 1 && !screen.contains("unattended"));
    for ticket in ["1", "2"] {
        let session = ["SESSION", "a-session-of-a-service", ticket];
        client.run(&[&["RLOCK.ACQUIRE", "orders:42", ticket, "600000", "WAIT", "0"][..], &session].concat());
    }
    let mut blocked = server.client();
    blocked.send(&["RLOCK.ACQUIRE", "orders:42", "waiter", "600000", "WAIT", "0"]);
    terminal.wait_for("3 waiting for 1 locks, 2 by ticket");
    drop(session);
    terminal.wait_for("1 of 1 sessions unattended: their tickets are passed over");
    terminal.press("Enter");
    terminal.wait_for("unattended: session a-sessio, ticket 1, no connection");
}

/// `orders:01` to `orders:31`, each held, and waited for by one.
fn many(server: &Server) -> Vec<Client> {
    let mut client = server.client();
    let waits = |key: &str| {
        taken(&mut client, key);
        let mut waiter = server.client();
        waiter.send(&["RLOCK.ACQUIRE", key, "waiter", "600000", "WAIT", "0"]);
        waiter
    };
    let waiting = names().iter().map(String::as_str).map(waits).collect();
    server.client().until_waiting(31);
    waiting
}

fn names() -> Vec<String> {
    (1..=31).map(|number| format!("orders:{number:02}")).collect()
}

#[test]
fn no_row_is_hidden_that_has_room() {
    let server = Server::start();
    let _waiting = many(&server);
    let terminal = Terminal::open(&server, &[]);
    terminal.resize(80, 24);
    terminal.enter("rlock top --interval 100ms --sort key; echo code $?");
    terminal.wait_until("as many as fit", |screen| keys(screen) == names()[..19] && screen.contains("KEY 1-19 of 31"));
    terminal.press("End");
    terminal.wait_until("the last ones", |screen| keys(screen) == names()[12..] && screen.contains("KEY 13-31 of 31"));
    terminal.press("/");
    terminal.type_in("2");
    terminal.press("Enter");
    let matching: Vec<_> = names().into_iter().filter(|name| name.contains('2')).collect();
    terminal.wait_until("all that match", |screen| keys(screen) == matching && !screen.contains(" of "));
    terminal.press("Escape");
    terminal.wait_until("all again", |screen| screen.contains(" of 31"));
    for (columns, rows) in [(20, 5), (20, 9)] {
        terminal.resize(columns, rows);
        let last = usize::from(rows) - 1;
        terminal.wait_until("less", |screen| screen.lines().nth(last).is_some_and(|line| line.starts_with(HELP)));
    }
    terminal.resize(120, 40);
    terminal.wait_until("all of them", |screen| keys(screen) == names());
}

/// A number that belongs to nobody knows which lock is of no use.
#[test]
fn the_name_gives_way_last() {
    let server = Server::start();
    let _waiting = many(&server);
    let terminal = Terminal::open(&server, &[]);
    terminal.enter("rlock top --interval 100ms --sort key; echo code $?");
    for (columns, has, has_not) in
        [(100, "HOLDER", "nothing"), (60, "HOLDER", "nothing"), (40, "WAITERS", "HOLDER"), (12, "KEY", "WAITERS")]
    {
        terminal.resize(columns, 30);
        terminal.wait_until("whole names", |screen| {
            keys(screen) == names()[..25] && screen.contains(has) && !screen.contains(has_not)
        });
    }
}

/// What it says is no silence.
#[test]
fn a_server_that_refuses_for_a_while() {
    let server = Server::start();
    let mut client = server.client();
    let _waits = busy(&server, &mut client);
    client.say("CONFIG SET busy-reply-threshold 1");
    let terminal = Terminal::open(&server, &[]);
    terminal.enter(TOP);
    terminal.wait_until("both locks", |screen| keys(screen).len() == 2);
    let mut endless = server.client();
    endless.send(&["EVAL", "while true do end", "0"]);
    terminal.wait_until("what it says", |screen| screen.contains("refused for") && screen.contains("BUSY"));
    client.say("SCRIPT KILL");
    terminal.wait_until("it answers again", |screen| !screen.contains("refused for"));
}

#[test]
fn a_server_that_goes_away_and_comes_back() {
    let server = Server::start();
    let mut client = server.client();
    let _waits = busy(&server, &mut client);
    let terminal = Terminal::open(&server, &[]);
    terminal.enter("rlock top --interval 100ms --connect-timeout 200ms; echo code $?");
    terminal.wait_until("both locks", |screen| keys(screen).len() == 2);
    server.freeze();
    terminal.wait_for("no answer for");
    assert_eq!(keys(&terminal.screen()).len(), 2, "what was seen before stays");
    terminal.press("s");
    terminal.wait_for("by oldest wait");
    server.thaw();
    terminal.wait_until("it answers again", |screen| !screen.contains("no answer for"));
    drop(server);
    terminal.wait_for("no answer for");
    terminal.press("q");
    terminal.wait_for("code 0");
}

#[test]
fn the_terminal_is_as_it_was_after_a_signal() {
    let server = Server::start();
    for (signal, code) in [("TERM", 143), ("INT", 130), ("HUP", 129), ("QUIT", 131)] {
        let terminal = Terminal::open(&server, &[]);
        terminal.enter("sh -c 'echo $$ >id; exec rlock top'; echo code $?");
        terminal.wait_for(HELP);
        crate::support::signal(signal, &terminal.place().lines("id").concat());
        terminal.wait_for(&format!("code {code}"));
        works_again(&terminal);
    }
}

#[cfg(feature = "panic-probe")]
#[test]
fn the_terminal_is_as_it_was_after_a_defect() {
    let server = Server::start();
    let terminal = Terminal::open(&server, &[]);
    terminal.enter("rlock top 2>errors; echo code $?");
    terminal.wait_for(HELP);
    terminal.press("F12");
    terminal.wait_for("code 70");
    let [line] = &terminal.place().lines("errors")[..] else { panic!("not one line") };
    assert!(line.starts_with("rlock: a defect in rlock itself") && line.contains("a probe"), "{line}");
    works_again(&terminal);
}

/// What is typed is shown, and the screen is not the other one.
fn works_again(terminal: &Terminal) {
    assert!(!terminal.screen().contains(HELP), "{}", terminal.screen());
    terminal.enter("echo $((6*7))");
    terminal.wait_for("\n42\n");
    terminal.wait_for("echo $((6*7))");
}

fn has_colours(screen: &str) -> bool {
    let codes = screen.split("\x1b[").skip(1).filter_map(|rest| rest.split_once('m'));
    let mut numbers = codes.flat_map(|(codes, _)| codes.split(';')).filter_map(|code| code.parse::<u8>().ok());
    numbers.any(|code| matches!(code, 30..=38 | 40..=48 | 90..=107))
}

#[test]
fn colours_only_for_whoever_wants_them() {
    let server = Server::start();
    let mut client = server.client();
    let _waits = busy(&server, &mut client);
    for (variables, colours) in [(&[][..], true), (&[("NO_COLOR", "1")], false)] {
        let terminal = Terminal::open(&server, variables);
        terminal.enter(TOP);
        terminal.wait_until("both locks", |screen| keys(screen).len() == 2);
        assert_eq!(has_colours(&terminal.screen_with_colours()), colours);
        terminal.press("q");
        terminal.wait_for("code 0");
        terminal.enter("clear; rlock ls");
        terminal.wait_for("OLDEST WAIT");
        let bold = terminal.screen_with_colours().contains("\x1b[1mKEY");
        assert_eq!(bold, colours);
        terminal.enter("clear; rlock ls | cat -v; rlock --help | cat -v; rlock ls --nonsense 2>&1 | cat -v");
        terminal.wait_for("unexpected argument");
        assert!(!terminal.screen().contains("^["), "{}", terminal.screen());
    }
}

#[test]
fn what_is_wrong_from_the_beginning_is_one_line() {
    let server = Server::start();
    run(rlock(&server, &["top"])).failed(64, &["top needs a terminal", "rlock ls --json"]);
    let terminal = Terminal::open(&server, &[]);
    terminal.enter("rlock -u unix:///no/such/socket top; echo code $?");
    terminal.wait_for("rlock: no server answers at /no/such/socket");
    terminal.wait_for("code 69");
    let without = Server::prepare().without_module().start();
    let terminal = Terminal::open(&without, &[]);
    terminal.enter("rlock top; echo code $?");
    terminal.wait_for("no rlock module");
    terminal.wait_for("code 78");
}
