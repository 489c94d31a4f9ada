//! What it costs to keep an eye on locks that nothing happens to: the processor's time of a server that nobody asks for
//! anything, with a client waiting for each of so many locks, and with as many connections that do not wait. What the
//! server does for each connection, waiting or not, is none of the module's.

use crate::figures::Figures;
use crate::plan::Plan;
use crate::processor::used_by_server;
use crate::progress;
use crate::waiters::Waiters;
use std::thread;
use std::time::Instant;

pub const UNIT: &str = "% of a core";

pub fn measure(plan: &Plan, figures: &mut Figures) {
    for &locks in plan.idle_locks {
        progress::step(&format!("{locks} connections"));
        let mut waiters = match Waiters::connect(locks) {
            Ok(waiters) => waiters,
            Err(reason) => {
                figures.left_out.push(format!("{}: {reason}", name(locks)));
                continue;
            }
        };
        look_on(&mut waiters, plan, figures, &format!("idle.{locks}.connected"));
        if locks > 0 {
            progress::step(&format!("{locks} locks that are waited for"));
            waiters.wait();
            look_on(&mut waiters, plan, figures, &format!("idle.{locks}.waiting"));
        }
    }
}

/// What is said where it could not be measured.
pub fn name(locks: usize) -> String {
    format!("an idle server with {locks} waited-for locks")
}

/// There is no condition to wait for: it is time itself that is measured.
fn look_on(waiters: &mut Waiters, plan: &Plan, figures: &mut Figures, id: &str) {
    thread::sleep(plan.idle_settles);
    for _ in 0..plan.idle_looks {
        let (before, since) = (used_by_server(&mut waiters.client), Instant::now());
        thread::sleep(plan.idle_look);
        let used = used_by_server(&mut waiters.client) - before;
        figures.add(id, UNIT, used / since.elapsed().as_secs_f64() * 100.0);
    }
}
