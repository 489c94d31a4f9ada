//! `rlock status`: the short form of `rlock doctor`.

use crate::support::{bare, rlock, run, taken};
use rlock_testing::{Server, Watched, free_port};
use serde_json::Value;

/// A server of which the doctor finds nothing wrong.
fn fine() -> Server {
    let server = Server::start();
    server.client().say("CONFIG SET appendonly yes");
    server
}

#[test]
fn it_shows_what_is_there_in_words() {
    let server = fine();
    let mut client = server.client();
    taken(&mut client, "key");
    taken(&mut client, "other");
    let mut waits = server.client();
    waits.send(&["RLOCK.ACQUIRE", "key", "waiter", "600000", "WAIT", "0"]);
    client.until_waiting(1);
    let text = run(rlock(&server, &["status"])).succeeded().to_owned();
    for words in ["1 master, 1 waiting for 1 lock, 2 held", "  master ", "  0.1.0\n", "\nnothing is wrong\n"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let told: Value = serde_json::from_str(run(rlock(&server, &["status", "--json"])).succeeded()).unwrap();
    assert_eq!((&told["fine"], &told["waiters"], &told["held"]), (&true.into(), &1.into(), &2.into()), "{told}");
    assert_eq!((&told["locks_with_waiters"], &told["held_is_all"]), (&1.into(), &true.into()), "{told}");
    assert_eq!(told["servers"][0]["module"], "0.1.0", "{told}");
}

#[test]
fn what_is_wrong_is_told_without_the_line_that_mends_it() {
    let server = Server::start();
    server.client().say("CONFIG SET appendonly no");
    let [status, doctor] = ["status", "doctor"].map(|command| run(rlock(&server, &[command])));
    assert_eq!((status.code(), doctor.code()), (1, 1), "{status:?}");
    assert!(status.output.contains("\nwrong: ") && status.output.ends_with("\nrlock doctor says how to mend it\n"));
    assert!(doctor.output.contains("mend it: ") && !status.output.contains("mend it: "), "{status:?}");
}

#[test]
fn a_server_without_the_module() {
    let server = Server::prepare().without_module().start();
    let status = run(rlock(&server, &["status"]));
    assert_eq!(status.code(), 1, "{status:?}");
    for words in ["  none\n", "wrong: ", "has no rlock module", "how many wait is not known"] {
        assert!(status.output.contains(words), "{words}: {status:?}");
    }
}

#[test]
fn a_replica_does_not_know_who_waits() {
    let (master, replica) = (fine(), fine());
    replica.follow(&master);
    let address = format!("redis://127.0.0.1:{}", replica.port());
    let status = run(bare(&["-u", &address, "status"]));
    assert_eq!(status.code(), 1, "{status:?}");
    assert!(status.output.contains("how many wait is not known"), "{status:?}");
    assert!(status.output.contains("  replica ") && status.output.contains("wrong: "), "{status:?}");
    let told = run(bare(&["-u", &address, "status", "--json"]));
    let told: Value = serde_json::from_str(&told.output).unwrap();
    assert_eq!((&told["waiters"], &told["fine"]), (&Value::Null, &false.into()), "{told}");
}

#[test]
fn each_server_of_a_set_up_has_its_line() {
    let watched = Watched::start(1);
    let hosts: Vec<_> = watched.sentinels.iter().map(|it| format!("127.0.0.1:{}", it.port())).collect();
    let status = run(bare(&["-u", &format!("redis+sentinel://{}/locks", hosts.join(",")), "status"]));
    let roles = |role: &str| status.output.lines().filter(|line| line.contains(&format!("  {role} "))).count();
    assert_eq!((roles("master"), roles("replica")), (1, 1), "{status:?}");
    assert!(status.output.contains("1 master, 1 replica, 3 sentinels, 0 waiting for 0 locks, 0 held"), "{status:?}");
}

#[test]
fn nobody_answers() {
    let nobody = format!("redis://127.0.0.1:{}", free_port());
    for arguments in [&["status"][..], &["status", "--json"]] {
        run(bare(&[&["-u", &nobody], arguments].concat())).failed(69, &["no server answers"]);
    }
}
