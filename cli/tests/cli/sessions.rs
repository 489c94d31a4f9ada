//! `rlock sessions`: each user's sessions, and how to end one.

use crate::support::{bare, rlock, run, taken};
use rlock_testing::{Cluster, Server, text, wait_until};
use serde_json::Value;

fn json_of(server: &Server) -> Value {
    serde_json::from_str(run(rlock(server, &["sessions", "--json"])).succeeded()).unwrap()
}

#[test]
fn sessions_are_listed_and_ended() {
    let (server, mut client) = Server::with_client();
    assert_eq!(run(rlock(&server, &["sessions"])).succeeded(), "");
    taken(&mut client, "key");
    let mut polls = server.client();
    polls.send(&["RLOCK.EVENTS", "a-session-of-somebody", "WAIT", "0", "TTL", "600000"]);
    wait_until("it is open", || client.figure("sessions") == 1);
    let wait = ["RLOCK.ACQUIRE", "key", "me", "600000", "WAIT", "0", "SESSION", "a-session-of-somebody", "1"];
    assert_eq!(client.run(&wait), text("WAITING"));
    let listed = json_of(&server);
    let [session] = &listed.as_array().unwrap()[..] else { panic!("{listed}") };
    assert_eq!((&session["session"], &session["user"]), (&"a-sessio".into(), &"default".into()), "{listed}");
    assert_eq!((&session["tickets"], &session["events"]), (&1.into(), &0.into()), "{listed}");
    let id = session["id"].to_string();
    let listed = run(rlock(&server, &["sessions"])).succeeded().to_owned();
    let rows: Vec<_> = listed.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
    assert_eq!(rows[0].join(" "), "ID SESSION USER ADDRESS TICKETS EVENTS ENDS IN", "{listed}");
    assert_eq!((rows.len(), rows[1][..3].join(" ")), (2, format!("{id} a-sessio default")), "{listed}");
    assert_eq!(run(rlock(&server, &["sessions", "--end", &id])).succeeded(), format!("{id}: ended\n"));
    assert_eq!((client.figure("waiters"), json_of(&server)), (0, Value::Array(Vec::new())));
    run(rlock(&server, &["sessions", "--end", &id])).failed(1, &[&id, "no session has this id"]);
    run(rlock(&server, &["sessions", "--end", "one"])).failed(64, &["--end"]);
}

/// Each node has numbers of its own.
#[test]
fn in_a_cluster_the_node_has_to_be_named() {
    let cluster = Cluster::start();
    let hosts: Vec<_> = cluster.masters.iter().map(|it| format!("127.0.0.1:{}", it.port())).collect();
    let mut open: Vec<_> = cluster.masters.iter().map(Server::client).collect();
    for (place, client) in open.iter_mut().enumerate() {
        client.send(&["RLOCK.EVENTS", &format!("the-session-of-node-{place}"), "WAIT", "0", "TTL", "600000"]);
        wait_until("it is open", || cluster.masters[place].client().figure("sessions") == 1);
    }
    let whole = format!("redis+cluster://{}", hosts[0]);
    let listed = run(bare(&["-u", &whole, "sessions"])).succeeded().to_owned();
    assert!(hosts.iter().all(|host| listed.contains(&format!("  at {host}\n"))), "{listed}");
    let id = json_of(&cluster.masters[1])[0]["id"].to_string();
    run(bare(&["-u", &whole, "sessions", "--end", &id])).failed(64, &["node", "--url"]);
    run(bare(&["-u", &hosts[1], "sessions", "--end", &id])).succeeded();
    assert_eq!(cluster.masters[1].client().figure("sessions"), 0);
}
