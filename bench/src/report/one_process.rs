//! The page's part on a process that waits for many locks at once.

use super::{fine, grouped, row};
use crate::figures::Figures;
use crate::one_process::{SCENES, Scene};
use std::fmt::Write;

/// In the order in which they are shown.
const WAYS: [(&str, &str); 4] = [
    ("rlock", "**RLOCK … WAIT**, a blocked client for each wait"),
    ("terse", "… which gives back and asks again in one write"),
    ("tickets", "**RLOCK … WAIT … SESSION**, a ticket for each wait"),
    ("token", "BLPOP, a token for each lock"),
];

pub fn section(figures: &Figures) -> String {
    let mut text = "\n### Hand-offs of one process\n\nA process whose every part gives its lock back at once and asks \
                    for it again. By session it has three connections at most, whatever it waits for, and sees to all \
                    events of an answer in one write. *Wake-up*: from the moment before a lock is given back until who \
                    comes next knows that it has it, in µs; where many locks change hands at once, it waits for the \
                    others'. *Server*: the processor's time of the server for each, in µs.\n\n| | locks × waiters | hand-offs/s | against blocked clients | spread | \
                    server | wake-up: half | 99 of 100 |\n|---|--:|--:|--:|---|--:|--:|--:|\n"
        .to_owned();
    for (scene, (id, name)) in SCENES.into_iter().flat_map(|scene| WAYS.map(|way| (scene, way))) {
        let Scene { locks, waiters } = scene;
        let of = |id: &str| format!("{}.{id}", scene.id());
        let name = format!("{name} | {} × {waiters}", grouped(locks as f64));
        let rates = row(figures, &name, &format!("process.{}", of(id)), &format!("process.{}", of("rlock")));
        let more = ["process_cpu", "wake_up.50", "wake_up.99"]
            .map(|what| figures.median(&format!("{what}.{}", of(id))).map_or("–".to_owned(), fine));
        let _ = writeln!(text, "{} {} |", rates.trim_end(), more.join(" | "));
    }
    text
}
