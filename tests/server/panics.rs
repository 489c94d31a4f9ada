//! A panic of ours is an error reply and a line in the log, and the server goes on. Only a build for this test has the command
//! that panics.

use rlock_testing::{Reply, Server, debug_module, text};

#[test]
fn a_panic_is_an_error_reply() {
    for backtrace in ["0", "1", "full"] {
        let mut server = Server::prepare().module(debug_module()).environment("RUST_BACKTRACE", backtrace).start();
        let mut client = server.client();
        for _ in 0..100 {
            let reply = client.run(&["RLOCK.PANIC", "%s%n"]);
            assert!(reply.as_error().starts_with("ERR internal error in rlock"), "{reply:?}");
        }
        assert_eq!(client.transaction(["RLOCK.PANIC k", "RLOCK.ACQUIRE k ann 600000"])[1], Reply::Nil);
        assert_eq!(client.say("PING"), text("PONG"));
        assert!(server.is_running());
        let log = server.log();
        assert!(log.contains("probes.rs") && log.contains("as asked, for %s%n"), "{log}");
    }
}
