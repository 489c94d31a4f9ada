//! What another module is answered that calls the commands: no call of its own ever waits, since nobody may be there any
//! more when the lock is granted.

use rlock_testing::{Reply, Server, debug_module};

#[test]
fn another_modules_call_is_never_kept_waiting_and_has_no_user() {
    let server = Server::prepare().module(debug_module()).start();
    let mut client = server.client();
    client.say("RLOCK.ACQUIRE k ann 600000");
    assert!(client.say("RLOCK.CALL RLOCK.ACQUIRE k bob 600000 WAIT 0").as_int() > 0, "as if WAIT were absent");
    assert_eq!(client.figure("waiters"), 0);
    for command in ["RLOCK.QUEUES", "RLOCK.EVENTS 0123456789abcdef WAIT 0", "RLOCK.CANCEL 0123456789abcdef"] {
        let reply = client.say(&format!("RLOCK.CALL {command}"));
        assert!(reply.as_error().starts_with("NOPERM there is no user"), "{command}: {reply:?}");
    }
    assert_eq!(client.say("RLOCK.CALL RLOCK.RELEASE k ann"), Reply::Int(1));
    assert_eq!(client.keys(), [""; 0]);
}
