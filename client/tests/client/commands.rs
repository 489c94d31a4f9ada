//! Any command to a server that has locks, and what it answers.

use crate::support::{locks_on, url};
use rlock_client::{ErrorKind, Locks, Reply};
use rlock_testing::{Cluster, Server};

fn text(text: &str) -> Reply {
    Reply::Text(text.into())
}

#[tokio::test]
async fn answers_are_as_they_are() {
    let server = Server::start();
    let locks = locks_on(&server).await;
    let ask = async |command: &[&str]| locks.command("key", command).await.unwrap();
    assert_eq!(ask(&["SET", "key", "value"]).await, Reply::Word(b"OK".to_vec()));
    assert_eq!(ask(&["GET", "key"]).await, text("value"));
    assert_eq!(ask(&["GET", "other"]).await, Reply::Nil);
    assert_eq!(ask(&["DEL", "key"]).await, Reply::Int(1));
    ask(&["HSET", "hash", "field", "value"]).await;
    assert_eq!(ask(&["HGETALL", "hash"]).await, Reply::List(vec![text("field"), text("value")]));
    let mixed = "return {1, 'a', {err = 'ODD one'}, false, {}}";
    let replies = vec![Reply::Int(1), text("a"), Reply::Error("ODD one".to_owned()), Reply::Nil, Reply::List(vec![])];
    assert_eq!(ask(&["EVAL", mixed, "0"]).await, Reply::List(replies));
    let bytes: [&[u8]; 3] = [b"SET", b"\xff\0\r\n", b"\xfe"];
    locks.command(b"\xff\0\r\n", &bytes).await.unwrap();
    assert_eq!(locks.command("key", &[&b"GET"[..], bytes[1]]).await.unwrap(), Reply::Text(vec![0xfe]));
}

#[tokio::test]
async fn an_error_has_its_code_and_is_about_the_name() {
    let server = Server::start();
    let locks = locks_on(&server).await;
    locks.command("key", &["SET", "key", "1"]).await.unwrap();
    let refused = locks.command("key", &["RLOCK.INSPECT", "key"]).await.unwrap_err();
    assert_eq!((refused.kind(), refused.code(), refused.about()), (ErrorKind::Refused, Some("WRONGTYPE"), "key"));
    let master = locks.masters().await.unwrap().remove(0);
    let refused = master.command(&["LPOP", "key"]).await.unwrap_err();
    assert_eq!((refused.code(), refused.about()), (Some("WRONGTYPE"), master.address()));
    assert_eq!(url(&server), format!("redis+unix://{}", master.address()));
    let unknown = locks.command("key", &["RLOCK.NONE"]).await.unwrap_err();
    assert_eq!(unknown.kind(), ErrorKind::ModuleMissing, "{unknown}");
    drop(server);
    let unanswered = locks.command("key", &["GET", "key"]).await.unwrap_err();
    assert_eq!((unanswered.kind(), unanswered.code()), (ErrorKind::Unavailable, None), "{unanswered}");
}

/// Each command goes to its key's node; each master can be asked about anything.
#[tokio::test]
async fn in_a_cluster_they_go_where_the_name_is() {
    let cluster = Cluster::start();
    let address = |node: &Server| format!("127.0.0.1:{}", node.port());
    let locks =
        Locks::options().connect_to_cluster([format!("redis://{}", address(&cluster.masters[0]))]).await.unwrap();
    for (place, node) in cluster.masters.iter().enumerate() {
        let key = cluster.key_on(place);
        locks.command(&key, &["SET", &key, "1"]).await.unwrap();
        assert_eq!(node.client().keys(), [key]);
    }
    let mut masters = locks.masters().await.unwrap();
    masters.sort_by_key(|master| cluster.masters.iter().position(|node| address(node) == master.address()));
    for (place, (master, node)) in masters.iter().zip(&cluster.masters).enumerate() {
        assert_eq!(master.address(), address(node));
        assert_eq!(master.command(&["KEYS", "*"]).await.unwrap(), Reply::List(vec![text(&cluster.key_on(place))]));
    }
    assert_eq!(masters.len(), cluster.masters.len());
}
