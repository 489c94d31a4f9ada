//! Waits that are given up leave nothing behind: no waiter, and no hold.

use crate::load::wait_within;
use crate::world::*;
use serde_json::json;
use std::hint::spin_loop;
use std::time::{Duration, Instant};

const ROUNDS: u32 = 100;

pub fn it_leaves_the_queue(world: &World) {
    let (_server, mut eye, client) = world.with_taken("a");
    let waits: Vec<_> = (0..50).map(|number| client.wants(&number.to_string(), plain("a"))).collect();
    eye.until_waiting(50);
    for id in &waits {
        ok(client.asks(json!({"do": "cancel", "of": id})));
    }
    for id in waits {
        fails_as("cancelled", &client.answer(id));
    }
    wait_within(SOON, "no waiters are left", || eye.figure("waiters") == 0);
    assert_eq!(eye.figure("grants"), 1, "another holder had it all the time");
    release_by_hand(&mut eye, "a");
    until_nothing_is_left(&mut eye, "a");
}

/// A wait is given up in the very moment of its grant: the client reports the hold, or releases it at once. A forgotten hold
/// would stay for the whole lease of a wait's grant, which is longer than this scenario waits.
pub fn in_the_moment_of_the_grant(world: &World) {
    let (_server, mut eye, client) = world.with_client();
    let mut granted = 0;
    for round in 0..ROUNDS {
        take(&mut eye, "a");
        let held = round.to_string();
        let waits = client.wants(&held, with(plain("a"), json!({"lease": 30_000})));
        eye.until_waiting(1);
        // One of the two comes first, by up to a ms.
        let apart = Duration::from_micros(u64::from(round / 2) * 20);
        let mut release = || release_by_hand(&mut eye, "a");
        let mut cancel = || _ = client.ask(json!({"do": "cancel", "of": waits}));
        let both: [&mut dyn FnMut(); 2] =
            if round % 2 == 0 { [&mut release, &mut cancel] } else { [&mut cancel, &mut release] };
        for does in both {
            does();
            let then = Instant::now() + apart;
            while Instant::now() < then {
                spin_loop();
            }
        }
        match client.answer(waits) {
            Ok(_) => {
                granted += 1;
                // Other scenarios test the outcome of a release.
                _ = client.release(&held);
            }
            cancelled => fails_as("cancelled", &cancelled),
        }
        until_nothing_is_left(&mut eye, "a");
    }
    eprintln!("{}: of {ROUNDS} that were given up {granted} were granted before", world.tried.name);
}
