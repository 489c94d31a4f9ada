//! The replies to another module that calls the commands: none of its calls waits, since its client may be gone
//! when the lock is granted.

use rlock_testing::{Reply, Server, debug_module, text, wait_until};

#[test]
fn another_modules_call_is_never_kept_waiting_and_has_no_user() {
    let server = Server::prepare().module(debug_module()).start();
    let mut client = server.client();
    client.say("RLOCK.ACQUIRE k ann 600000");
    assert!(client.say("RLOCK.CALL RLOCK.ACQUIRE k bob 600000 WAIT 0").as_int() > 0, "as if WAIT were absent");
    assert_eq!(client.figure("waiters"), 0);
    for command in ["RLOCK.QUEUES", "RLOCK.EVENTS 0123456789abcdef WAIT 0", "RLOCK.CANCEL 0123456789abcdef"] {
        let reply = client.say(&format!("RLOCK.CALL {command}"));
        assert!(reply.as_error().starts_with("NOPERM this command needs a"), "{command}: {reply:?}");
    }
    assert_eq!(client.say("RLOCK.CALL RLOCK.RELEASE k ann"), Reply::Int(1));
    assert_eq!(client.keys(), [""; 0]);
}

/// Within the event, the command that caused it is half done: the lock is there, but the command is not over.
#[test]
fn a_command_within_the_event_of_another_is_refused_and_what_it_does_to_keys_is_seen() {
    let server = Server::prepare().module(debug_module()).start();
    let mut client = server.client();
    client.say("RLOCK.CALL WITHIN-EVENT RLOCK.RELEASE l ann");
    assert_eq!(client.say("RLOCK.ACQUIRE l ann 600000"), Reply::Nil);
    let error = client.say("RLOCK.CALL ERROR-WITHIN-EVENT");
    assert!(format!("{error:?}").contains("TRYAGAIN another command of rlock is under way"), "{error:?}");
    assert_eq!(client.fields("l"), "{ann:1}");
    // A key that goes within the event of a command of ours frees its lock like any other.
    client.say("RLOCK.ACQUIRE k ann 600000");
    let mut bob = server.client();
    bob.send(&["RLOCK.ACQUIRE", "k", "bob", "600000", "WAIT", "0"]);
    wait_until("bob waits", || client.figure("waiters") == 1);
    client.say("RLOCK.CALL WITHIN-EVENT DEL k");
    assert_eq!(client.say("RLOCK.RELEASE l ann"), Reply::Int(1));
    assert_eq!(client.say("RLOCK.ACQUIRE l ann 600000"), Reply::Nil);
    assert_eq!(client.figure("waiters"), 0, "not when the lock is next looked at anyway");
    assert_eq!(bob.receive(), Reply::Nil);
    // Within an event, INFO has no figures of ours, and is no error.
    client.say("RLOCK.CALL WITHIN-EVENT INFO rlock");
    assert_eq!(client.say("RLOCK.RACQUIRE r ann 600000"), Reply::Nil);
    assert_eq!(client.say("RLOCK.CALL ERROR-WITHIN-EVENT"), text(""));
    assert_eq!((client.figure("waiters"), &*client.fields("k")), (0, "{bob:1}"));
}
