//! The page's part on a process of many tasks.

use super::{fine, grouped, row};
use crate::figures::Figures;
use crate::many_tasks::{SCENES, Scene, Way};
use crate::plan::Plan;
use std::fmt::Write;

pub fn section(figures: &Figures, plan: &Plan) -> String {
    let mut text = format!(
        "\n### A process of many tasks\n\nOne process, over loopback, on all processors: each task wants one of the \
         locks, has it while the others have their turn, gives it back and asks again; {} turns of {} s. \
         rlock-client keeps leases alive, which none of the others does. *pub/sub*: one connection for commands, one \
         that is subscribed to all locks, and a message wakes the task that has waited longest. *Polling*: one \
         connection, and each task asks again after 10 to 50 ms. *To another*: of the cycles, those of another task \
         than the one before: where nobody has a place, a task that asks again at once may have the lock before all \
         that wait. *Client*, *server*: the processor's time of the process, and of the server, for each cycle, in \
         µs. *Connections*: the most at any time. *Memory*: what `used_memory` grows by at most since before the \
         process connected, in MB. *Wait*: from asking until the task has its lock, in ms; *longest* is any task's, \
         and none is longer than a turn by much.\n\n| | tasks × locks | cycles/s | against rlock-client | spread | \
         to another | client | server | connections | memory | wait: half | 99 of 100 | longest \
         |\n|---|--:|--:|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|\n",
        plan.task_turns,
        plan.task_turn.as_secs(),
    );
    for (scene, way) in SCENES.into_iter().flat_map(|scene| scene.ways.iter().map(move |&way| (scene, way))) {
        let figure = |what: &str| scene.figure(what, way.id());
        let Scene { tasks, locks, .. } = scene;
        let name = format!("{} | {} × {}", name(way), grouped(tasks as f64), grouped(locks as f64));
        let rates = row(figures, &name, &figure("cycles"), &scene.figure("cycles", Way::Rlock.id()));
        let shown = |what: &str, scale: f64| {
            figures.median(&figure(what)).map_or("–".to_owned(), |median| fine(median / scale))
        };
        let costs = ["changes", "client_cpu", "server_cpu", "connections"].map(|what| shown(what, 1.0));
        let waits = ["wait.half", "wait.99", "wait.longest"].map(|what| shown(what, 1.0));
        let (costs, waits, memory) = (costs.join(" | "), waits.join(" | "), shown("memory", 1e6));
        let _ = writeln!(text, "{} {costs} | {memory} | {waits} |", rates.trim_end());
    }
    text
}

fn name(way: Way) -> &'static str {
    match way {
        Way::Rlock => "**rlock-client**",
        Way::PubSub => "pub/sub, and SET NX PX again",
        Way::Polling => "polling by SET NX PX",
        Way::Rslock => "rslock",
    }
}
