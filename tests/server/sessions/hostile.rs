//! Input that means harm to sessions: the server answers, lives, and keeps what it had.

use rlock_testing::{Random, Reply, Server, text, wait_until};

const ROUNDS: usize = 3_000;

const SESSIONS: [&str; 3] = ["the-session-of-ann", "the-session-of-bob", "the-session-of-nobody"];

/// Half in good form with odd values in it, half nonsense.
fn hostile_command(random: &mut Random) -> Vec<Vec<u8>> {
    let mut pick = |words: &[&str]| random.one_of(words).as_bytes().to_vec();
    let commands =
        ["RLOCK.ACQUIRE", "RLOCK.RACQUIRE", "RLOCK.WACQUIRE", "RLOCK.RELEASE", "RLOCK.EVENTS", "RLOCK.CANCEL"];
    let name = pick(&commands);
    let (keys, holders, tickets) = (["k", "l", "r", "text"], ["ann", "bob", "mode", ""], ["1", "2", "3", ""]);
    // No short lease among them: its end would be a change of its own.
    let numbers = ["0", "600000", "900000", "-1", "9223372036854775807", "9223372036854775808", "x", ""];
    let options = ["WAIT", "FENCED", "SESSION", "ACK", "TTL", "ALL", "READ", "%n%s", "\0"];
    let is_good_form = pick(&["yes", "no"]) == b"yes";
    if !is_good_form {
        let count = pick(&["0", "1", "2", "3", "4", "5", "6", "7"])[0] - b'0';
        let pieces = [&keys[..], &holders, &tickets, &numbers, &options, &SESSIONS].concat();
        return [name].into_iter().chain((0..count).map(|_| pick(&pieces))).collect();
    }
    match name.as_slice() {
        b"RLOCK.EVENTS" => {
            let mut command = vec![name, pick(&SESSIONS[..2])];
            for option in ["ACK", "WAIT", "TTL"] {
                if pick(&["yes", "no"]) == b"yes" {
                    // No call waits for longer than a third of the shortest time to live.
                    let value = match option {
                        "TTL" => pick(&["1000", "1000", "999"]),
                        "WAIT" => pick(&["1", "1", "1", "1", "2", "3", "9223372036854775807", "-1"]),
                        _ => pick(&numbers),
                    };
                    command.extend([option.as_bytes().to_vec(), value]);
                }
            }
            command
        }
        b"RLOCK.CANCEL" => vec![name, pick(&SESSIONS), pick(&tickets), pick(&tickets)],
        b"RLOCK.RELEASE" => vec![name, pick(&keys), pick(&holders), pick(&["ALL", "READ", "WRITE"])],
        _ => {
            let mut command = vec![name, pick(&keys), pick(&holders), pick(&["600000", "900000"])];
            command.extend([
                b"WAIT".to_vec(),
                pick(&["0", "1", "50"]),
                b"SESSION".to_vec(),
                pick(&SESSIONS),
                pick(&tickets),
            ]);
            command
        }
    }
}

/// An error leaves all keys and everything in memory alone; whatever happens, the next command is answered.
#[test]
fn random_commands_break_nothing() {
    let (_server, mut client) = Server::with_client();
    client.say("CONFIG SET rlock.max-waiters 0");
    client.say("CONFIG SET rlock.max-tickets 50");
    client.say("SET text 1");
    let mut random = Random::from(7);
    let (digest, info): (&[&[u8]], &[&[u8]]) = (&[b"DEBUG", b"DIGEST"], &[b"INFO", b"rlock"]);
    let sessions = |reply: &Reply| {
        let lines = reply
            .as_text()
            .lines()
            .filter(|line| line.starts_with("rlock_sessions:") || line.starts_with("rlock_tickets:"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let mut errors = 0;
    for _ in 0..ROUNDS {
        let command = hostile_command(&mut random);
        let shown: Vec<_> = command.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        let command: Vec<_> = command.iter().map(Vec::as_slice).collect();
        // In one piece: nothing that time does comes in between.
        client.send_together(&[digest, info, &command, digest, info]);
        let before = (client.receive(), sessions(&client.receive()));
        let reply = client.receive();
        let after = (client.receive(), sessions(&client.receive()));
        if let Reply::Error(line) = reply {
            errors += 1;
            let codes = ["ERR ", "WRONGTYPE ", "WRONGKIND ", "DEADLOCK ", "QUEUEFULL ", "NOSESSION "];
            assert!(codes.iter().any(|code| line.starts_with(code)) && !line.contains("internal"), "{shown:?}: {line}");
            assert_eq!(after, before, "{shown:?}: {line}");
        }
    }
    assert!((ROUNDS / 10..ROUNDS * 9 / 10).contains(&errors), "{errors} errors: neither should be rare");
    for session in SESSIONS {
        client.say(&format!("RLOCK.EVENTS {session} TTL 1000"));
        assert!(matches!(client.say(&format!("RLOCK.CANCEL {session}")), Reply::Int(_)));
    }
    let left = ["sessions", "tickets", "events_unacknowledged", "waiters"];
    wait_until("nothing is left of them", || left.iter().all(|name| client.figure(name) == 0));
    assert_eq!(client.say("PING"), text("PONG"));
}

/// Some of it in a transaction or a script, where nothing can be blocked and connections are others'.
#[test]
fn sessions_come_and_go_within_a_transaction() {
    let (_server, mut client) = Server::with_client();
    let name = SESSIONS[0];
    client.say("RLOCK.ACQUIRE k holder 600000");
    for _ in 0..100 {
        client.say("MULTI");
        for command in [
            format!("RLOCK.EVENTS {name} WAIT 0"),
            format!("RLOCK.ACQUIRE k ann 600000 WAIT 0 SESSION {name} 1"),
            format!("RLOCK.CANCEL {name}"),
            format!("RLOCK.EVENTS {name} ACK 1"),
            format!("RLOCK.EVENTS {name}"),
            format!("RLOCK.ACQUIRE k ann 600000 WAIT 0 SESSION {name} 1"),
            "RLOCK.RELEASE k holder".to_owned(),
            format!("RLOCK.CANCEL {name}"),
            "RLOCK.ACQUIRE k holder 600000".to_owned(),
        ] {
            client.say(&command);
        }
        let replies = client.say("EXEC");
        let [opened, asked, closed, unknown, again, waits, released, given_back, taken] = replies.as_list() else {
            panic!("{replies:?}")
        };
        assert_eq!((opened, asked, closed), (&Reply::List(vec![]), &text("WAITING"), &Reply::Int(1)));
        assert!(unknown.as_error().starts_with("NOSESSION "));
        assert_eq!((again, waits, released), (&Reply::List(vec![]), &text("WAITING"), &Reply::Int(1)));
        assert_eq!((given_back, taken), (&Reply::Int(1), &Reply::Nil));
    }
    assert_eq!(client.figure("sessions"), 0);
    let script = "redis.call('RLOCK.EVENTS', ARGV[1])
                  redis.call('RLOCK.ACQUIRE', KEYS[1], 'ann', '600000', 'WAIT', '0', 'SESSION', ARGV[1], '1')
                  return redis.call('RLOCK.CANCEL', ARGV[1])";
    assert_eq!(client.run(&["EVAL", script, "1", "k", name]), Reply::Int(1));
    assert_eq!((client.figure("sessions"), client.figure("waiters")), (0, 0));
}
