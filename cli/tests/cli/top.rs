//! `rlock top`, driven and looked at in a terminal.

use crate::support::{Running, released, rlock, run, start, taken};
use crate::terminal::Terminal;
use rlock_testing::{Client, Reply, Server};

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

/// Two waiters for `orders:42`, three for `web:mails`.
fn busy(server: &Server, client: &mut Client) -> Vec<Running> {
    for key in ["orders:42", "web:mails"] {
        taken(client, key);
    }
    let mut all = waits(server, client, "orders:42", 2, 0);
    all.extend(waits(server, client, "web:mails", 3, 2));
    all
}

/// The names in the table, from top to bottom.
fn keys(screen: &str) -> Vec<&str> {
    let table = screen.lines().skip_while(|line| !line.starts_with("KEY"));
    let rows = table.skip(1).take_while(|line| !line.starts_with(HELP));
    rows.map_while(|line| line.split_whitespace().next()).collect()
}

/// The cells of a lock's row.
fn row<'a>(screen: &'a str, key: &str) -> Vec<&'a str> {
    let line = screen.lines().find(|line| line.split("  ").next() == Some(key));
    line.unwrap_or_default().split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect()
}

#[test]
fn the_busiest_locks_are_on_the_screen() {
    let (server, mut client) = Server::with_client();
    let terminal = Terminal::open(&server, &[]);
    terminal.enter(TOP);
    terminal.wait_for("no lock has waiters");
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
    terminal.resize(200, 30);
    terminal.wait_until("all columns", |screen| {
        let cells = row(screen, "web:mails");
        cells.len() == 9 && cells[1] == "somebody" && cells[8] == "plain" && screen.contains("  NEXT  ")
    });
    terminal.resize(100, 30);
    released(&mut client, "web:mails");
    terminal.wait_until("the one that is left", |screen| keys(screen) == ["orders:42"]);
    terminal.press("q");
    terminal.wait_for("code 0");
    assert!(!terminal.screen().contains("GRANTS/S"), "the screen is as it was");
}

#[test]
fn keys_sort_filter_and_inspect() {
    let (server, mut client) = Server::with_client();
    let _waits = busy(&server, &mut client);
    let terminal = Terminal::open(&server, &[]);
    terminal.enter(TOP);
    for (order, first) in [
        ("waiters", "web:mails"),
        ("oldest wait", "orders:42"),
        ("grants/s", ""),
        ("holder for", ""),
        ("key", "orders:42"),
    ] {
        terminal.wait_until(order, |screen| screen.contains(&format!("sorted by {order} ")) && keys(screen).len() == 2);
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
    terminal.press("r");
    terminal.wait_until("few first", |screen| {
        screen.contains("by waiters ▲") && keys(screen).first() == Some(&"orders:42")
    });
    terminal.press("r");
    terminal
        .wait_until("many first", |screen| screen.contains("WAITERS▼") && keys(screen).first() == Some(&"web:mails"));
    terminal.press("Down");
    terminal.press("Enter");
    terminal.wait_for("orders:42: plain");
}

#[test]
fn unattended_tickets_and_sessions_are_on_the_screen() {
    let (server, mut client) = Server::with_client();
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

/// `orders:01` to `orders:31`, each held, and with one waiter.
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
    for (columns, rows) in [(20, 4), (20, 9), (3, 1)] {
        terminal.resize(columns, rows);
        let last = usize::from(rows) - 1;
        terminal.wait_until("less", |screen| screen.lines().nth(last).is_some_and(|line| line.starts_with("q")));
    }
    terminal.resize(120, 40);
    terminal.wait_until("all of them", |screen| keys(screen) == names());
}

/// A server that refuses is not silent.
#[test]
fn a_server_that_refuses_for_a_while() {
    let (server, mut client) = Server::with_client();
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

/// The silence counts from when the server was asked, and shows before `top` gives up. The keys still work.
#[test]
fn a_server_that_goes_away_and_comes_back() {
    let (server, mut client) = Server::with_client();
    let _waits = busy(&server, &mut client);
    let terminal = Terminal::open(&server, &[]);
    terminal.enter("rlock top --interval 100ms --connect-timeout 4s; echo code $?");
    terminal.wait_until("both locks", |screen| keys(screen).len() == 2);
    server.freeze();
    terminal.wait_for("no answer for ");
    assert!(!terminal.screen().contains("timed out"), "{}", terminal.screen());
    terminal.press("s");
    terminal.wait_for("by oldest wait");
    terminal.wait_for("timed out");
    let screen = terminal.screen();
    assert!(["0", "1", "2", "3"].iter().all(|it| !screen.contains(&format!("no answer for {it}."))), "{screen}");
    assert_eq!(keys(&terminal.screen()).len(), 2, "what was seen before stays");
    server.thaw();
    terminal.wait_until("it answers again", |screen| !screen.contains("no answer for"));
    drop(server);
    terminal.wait_for("no answer for");
    terminal.press("q");
    terminal.wait_for("code 0");
}

#[test]
fn the_help_explains_the_keys() {
    let server = Server::start();
    let terminal = Terminal::open(&server, &[]);
    terminal.resize_at_the_prompt(80, 24);
    terminal.enter(TOP);
    terminal.wait_for("no lock has waiters");
    assert!(terminal.screen().trim_end().ends_with("b break"), "the keys are whole: {}", terminal.screen());
    for close in ["q", "Escape", "?"] {
        terminal.press("?");
        for whole in ["holder for, key\n", "looks like a lock\n", "had the lock\n", "NEXT          the next waiter"] {
            terminal.wait_for(whole);
        }
        terminal.press(close);
        terminal.wait_for("no lock has waiters");
    }
}

fn calls(client: &mut Client, command: &str) -> i64 {
    let statistics = client.info("commandstats");
    let calls = statistics.find(&format!("cmdstat_{command}"));
    calls.map_or(0, |it| it.strip_prefix("calls=").unwrap().split(',').next().unwrap().parse().unwrap())
}

#[test]
fn held_locks_without_waiters_are_shown_on_request() {
    let (server, mut client) = Server::with_client();
    let _waits = busy(&server, &mut client);
    client.say("HSET profile name bob");
    taken(&mut client, "idle");
    let terminal = Terminal::open(&server, &[]);
    terminal.enter(TOP);
    terminal.wait_until("those with waiters", |screen| keys(screen) == ["web:mails", "orders:42"]);
    assert_eq!(calls(&mut client, "scan"), 0, "no look through all keys was requested");
    terminal.press("h");
    terminal.wait_until("all", |screen| keys(screen) == ["web:mails", "orders:42", "idle"]);
    terminal.wait_until("the holder", |screen| row(screen, "idle")[1..5] == ["somebody", "0", "-", "-"]);
    terminal.wait_for("held without a waiter: 1\n");
    taken(&mut client, "later");
    terminal.wait_until("a new one", |screen| keys(screen) == ["web:mails", "orders:42", "idle", "later"]);
    released(&mut client, "idle");
    terminal.wait_until("one less", |screen| keys(screen) == ["web:mails", "orders:42", "later"]);
    terminal.press("h");
    terminal.wait_until("those with waiters", |screen| keys(screen) == ["web:mails", "orders:42"]);
    terminal.press("q");
    terminal.wait_for("code 0");
    client.say("DEL web:mails orders:42 later");
    client.until_waiting(0);
    terminal.enter("clear; rlock top --held --interval 100ms");
    terminal.wait_for("no lock has waiters, and none is held");
    taken(&mut client, "again");
    terminal.wait_until("it is there", |screen| keys(screen) == ["again"]);
}

/// However many keys there are, a look costs the same.
#[test]
fn held_locks_are_found_bit_by_bit() {
    let (server, mut client) = Server::with_client();
    client.run(&["EVAL", "for n = 1, 20000 do redis.call('SET', 'other:' .. n, 1) end", "0"]);
    taken(&mut client, "held");
    client.say("CONFIG RESETSTAT");
    let place = crate::support::Place::new();
    let mut command = rlock_to(&server, "tables");
    command.args(["top", "--held", "--batch", "--interval", "100ms"]).current_dir(place.path());
    let running = start(command);
    let says = |words: &str| place.lines("tables").iter().any(|line| line == words);
    rlock_testing::wait_until("it is found among all keys", || says("held without a waiter: 1"));
    assert!(place.lines("tables").iter().any(|line| line.ends_with(" so far")), "before it has seen all");
    let scans = calls(&mut client, "scan");
    let looks = calls(&mut client, "rlock.queues");
    assert!((15..=looks).contains(&scans), "{scans} steps in {looks} looks");
    // A connection that breaks says nothing about the server.
    client.say("CLIENT KILL TYPE normal SKIPME yes");
    // A lock that was seen to be free must not come back before the next round, which does not find it.
    released(&mut client, "held");
    rlock_testing::wait_until("all keys were looked through again", || calls(&mut client, "rlock.queues") > looks + 40);
    running.signal("TERM");
    assert_eq!(running.end().errors, "");
    let lines = place.lines("tables");
    let tables = lines.split(|line| line.is_empty()).map(|table| table.iter().any(|line| line.starts_with("held  ")));
    let changes: Vec<_> = tables.collect::<Vec<_>>().chunk_by(|one, next| one == next).map(|them| them[0]).collect();
    // The first step may find it already: the server scans in an order of its choice.
    let not_yet = &changes[..changes.len().saturating_sub(2)];
    assert!(changes.ends_with(&[true, false]) && not_yet.len() <= 1, "not found yet, there, and gone: {changes:?}");
}

/// The program, which prints to that file.
fn rlock_to(server: &Server, file: &str) -> std::process::Command {
    let mut command = crate::support::program("sh", &["-c", &format!("exec \"$0\" \"$@\" >{file}")]);
    command.arg(rlock(server, &[]).get_program()).env("RLOCK_URL", crate::support::url(server));
    command
}

#[test]
fn held_locks_need_one_right_more() {
    let (server, mut client) = Server::with_client();
    client.say("ACL SETUSER app on >secret ~app:* +rlock.queues +rlock.inspect +info");
    for key in ["app:key", "other"] {
        taken(&mut client, key);
    }
    let address = format!("redis://app@127.0.0.1:{}", server.port());
    let terminal = Terminal::open(&server, &[("RLOCK_URL", &address), ("RLOCK_PASSWORD", "secret")]);
    terminal.enter("rlock top --held --interval 100ms");
    terminal.wait_until("why not", |screen| screen.contains("cannot be looked for") && screen.contains("NOPERM"));
    client.say("ACL SETUSER app +scan");
    terminal.wait_until("what this user may see", |screen| keys(screen) == ["app:key"]);
    terminal.wait_for("held without a waiter: 1 that this user may look at");
}

fn holder(client: &mut Client, key: &str) -> String {
    client.run(&["HKEYS", key]).words().concat()
}

#[test]
fn a_lock_is_broken_after_a_question() {
    let (server, mut client) = Server::with_client();
    taken(&mut client, "orders:42");
    let mut waiter = server.client();
    waiter.send(&["RLOCK.ACQUIRE", "orders:42", "next", "600000", "WAIT", "0"]);
    client.until_waiting(1);
    let terminal = Terminal::open(&server, &[]);
    terminal.resize_at_the_prompt(80, 24);
    terminal.enter(TOP);
    terminal.wait_until("the lock", |screen| keys(screen) == ["orders:42"]);
    for no in ["n", "Escape", "Enter", "q"] {
        terminal.press("b");
        terminal.wait_for("Break it? y/n  The holder may still be at work");
        terminal.wait_for("somebody  exclusive");
        terminal.press(no);
        terminal.wait_until("the list", |screen| keys(screen) == ["orders:42"] && !screen.contains("Break it?"));
    }
    assert_eq!(holder(&mut client, "orders:42"), "somebody");
    terminal.press("b");
    terminal.wait_for("Break it? y/n");
    terminal.press("y");
    terminal.wait_for("orders:42: broken; 1 waited for it");
    assert_eq!(waiter.receive(), Reply::Nil);
    assert_eq!((holder(&mut client, "orders:42").as_str(), client.figure("breaks")), ("next", 1));
}

/// A yes counts only for the holder that was shown.
#[test]
fn a_question_ends_with_its_holder() {
    let (server, mut client) = Server::with_client();
    taken(&mut client, "orders:42");
    let mut waiters = ["next", "last"].map(|holder| {
        let mut waiter = server.client();
        waiter.send(&["RLOCK.ACQUIRE", "orders:42", holder, "600000", "WAIT", "0"]);
        waiter
    });
    client.until_waiting(2);
    let terminal = Terminal::open(&server, &[]);
    terminal.enter(TOP);
    terminal.wait_until("the lock", |screen| keys(screen) == ["orders:42"]);
    terminal.press("b");
    terminal.wait_for("Break it? y/n");
    client.run(&["RLOCK.RELEASE", "orders:42", "somebody"]);
    let first = waiters.iter_mut().next().unwrap();
    assert_eq!(first.receive(), Reply::Nil);
    terminal.wait_for("orders:42: it has another holder now; b asks again");
    for key in ["y", "r"] {
        terminal.press(key);
    }
    terminal.wait_until("what comes after it", |screen| screen.contains("▲") && !screen.contains("b asks again"));
    assert_eq!((keys(&terminal.screen()), client.figure("breaks")), (vec!["orders:42"], 0));
}

#[test]
fn a_lock_that_may_be_data_is_not_broken_unawares() {
    let (server, mut client) = Server::with_client();
    client.say("HSET user:1 visits 5");
    client.say("ACL SETUSER app on >secret ~* +rlock.queues +rlock.inspect +info +scan");
    let address = format!("redis://app@127.0.0.1:{}", server.port());
    let terminal = Terminal::open(&server, &[("RLOCK_URL", &address), ("RLOCK_PASSWORD", "secret")]);
    terminal.enter("rlock top --held --interval 100ms");
    terminal.wait_until("it", |screen| keys(screen) == ["user:1"]);
    terminal.press("b");
    terminal.wait_for("This may be no lock. Breaking deletes the hash with visits=5.");
    terminal.press("y");
    terminal.wait_until("why not", |screen| screen.contains("user:1: not broken: ") && screen.contains("NOPERM"));
}

/// As clients name themselves: host, process, and an id.
const HOLDER: &str = "web-3:4711:5d0f3f0e-4a2e-4a94-a4f4-5cf9b2a7c5d1:1";

/// The tables of a batch, each with its lines.
fn tables(output: &str) -> Vec<Vec<&str>> {
    output.split("\n\n").map(|table| table.lines().collect()).filter(|lines: &Vec<_>| !lines.is_empty()).collect()
}

#[test]
fn a_batch_needs_no_terminal() {
    let (server, mut client) = Server::with_client();
    client.run(&["RLOCK.ACQUIRE", "orders:42", HOLDER, "600000"]);
    let _waits = waits(&server, &mut client, "orders:42", 2, 0);
    taken(&mut client, "idle");
    let printed = run(rlock(&server, &["top", "-b", "-n", "2", "--interval", "100ms"]));
    let tables_of_two = tables(printed.succeeded());
    assert_eq!(tables_of_two.len(), 2, "{printed:?}");
    for lines in &tables_of_two {
        let [first, rates, heading, lock] = lines[..] else { panic!("{printed:?}") };
        assert!(first.ends_with("every 100ms  2 waiting for 1 locks, 2 by ticket"), "{first}");
        assert!(first.starts_with("20") && first[10..].starts_with('T') && first[19..].starts_with("Z  rlock top"));
        assert_eq!(rates, "per second: 0.0 grants  0.0 hand-offs  0.0 time-outs");
        assert_eq!(
            heading.split_whitespace().collect::<Vec<_>>().join(" "),
            "KEY HOLDER WAITERS OLDEST WAIT GRANTS/S LEASE LEFT HOLDER FOR"
        );
        assert_eq!(row(lock, "orders:42")[1..3], [HOLDER, "2"]);
    }
    let held = run(rlock(&server, &["top", "--batch", "--held", "--sort", "key", "--count", "1", "-i", "100ms"]));
    let lines = tables(held.succeeded()).concat();
    assert_eq!(lines[2], "held without a waiter: 1");
    assert_eq!((row(lines[4], "idle")[1], row(lines[5], "orders:42")[1]), ("somebody", HOLDER));
    run(rlock(&server, &["top", "--count", "1"])).failed(64, &["--batch"]);
    run(rlock(&server, &["top", "--batch", "--count", "0"])).failed(64, &["0"]);
}

/// A waiter gets the lock, and the queue is not empty: one of the tables shows the grant.
#[test]
fn grants_per_second() {
    let (server, mut client) = Server::with_client();
    taken(&mut client, "key");
    let _waits = ["next", "last"].map(|holder| {
        let mut waiter = server.client();
        waiter.send(&["RLOCK.ACQUIRE", "key", holder, "600000", "WAIT", "0"]);
        waiter
    });
    client.until_waiting(2);
    let place = crate::support::Place::new();
    let mut command = rlock_to(&server, "tables");
    command.args(["top", "--batch", "--interval", "100ms"]).current_dir(place.path());
    let running = start(command);
    let shown = |is_none: bool| {
        let lines = place.lines("tables");
        let rates = lines.iter().filter_map(|line| row(line, "key").get(4)?.parse::<f64>().ok());
        let all = lines.iter().filter(|line| line.starts_with("per second: "));
        rates.zip(all).any(|(rate, all)| (rate == 0.0, all.contains(" 0.0 hand-offs")) == (is_none, is_none))
    };
    rlock_testing::wait_until("no grants yet", || shown(true));
    released(&mut client, "key");
    rlock_testing::wait_until("one that was handed over", || shown(false));
    running.signal("TERM");
}

/// A batch never ends by itself, so it must notice that the reader is gone.
#[test]
fn a_batch_ends_with_its_reader() {
    let server = Server::start();
    let mut command = rlock(&server, &[]);
    let program = command.get_program().to_owned();
    command = crate::support::program("sh", &["-c", "\"$0\" top --batch --interval 100ms | head -n 1"]);
    command.arg(program).env("RLOCK_URL", crate::support::url(&server));
    assert!(run(command).succeeded().contains("0 waiting for 0 locks"));
}

#[test]
fn a_batch_says_that_a_server_is_silent_and_goes_on() {
    let server = Server::start();
    let arguments = ["--connect-timeout", "1s", "top", "--batch", "--count", "3", "--interval", "100ms"];
    let place = crate::support::Place::new();
    let mut command = rlock_to(&server, "tables");
    command.args(arguments).current_dir(place.path());
    let running = start(command);
    rlock_testing::wait_until("the first table", || !place.lines("tables").is_empty());
    server.freeze();
    let ended = running.end();
    server.thaw();
    assert_eq!(ended.code(), 69, "{ended:?}");
    assert!(ended.errors.starts_with("rlock: no answer for 1.") && ended.errors.contains("timed out"), "{ended:?}");
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

/// The terminal echoes what is typed, and shows its normal screen.
fn works_again(terminal: &Terminal) {
    assert!(!terminal.screen().contains(HELP), "{}", terminal.screen());
    terminal.wait_until("the prompt", |screen| screen.trim_end().ends_with("prompt>"));
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
fn colours_only_on_a_terminal_that_wants_them() {
    let (server, mut client) = Server::with_client();
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
    run(rlock(&server, &["top"])).failed(64, &["top needs a terminal", "top --batch", "rlock ls --json"]);
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
