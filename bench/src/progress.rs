//! What is being measured just now: one line that changes on a terminal, lines elsewhere.

use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::time::Instant;

static STATE: Mutex<Option<State>> = Mutex::new(None);

struct State {
    start: Instant,
    part: String,
    done: usize,
    parts: usize,
}

/// The clock begins; so many parts are to come.
pub fn begin(parts: usize) {
    set(Some(State { start: Instant::now(), part: String::new(), done: 0, parts }));
}

/// The next part begins.
pub fn part(name: &str) {
    if let Some(state) = STATE.lock().expect("no panic in here").as_mut() {
        state.done += 1;
        name.clone_into(&mut state.part);
    }
    step("");
}

/// What the part is at.
pub fn step(what: &str) {
    let state = STATE.lock().expect("no panic in here");
    let Some(state) = state.as_ref() else { return };
    let seconds = state.start.elapsed().as_secs();
    let line = format!(
        "bench {}:{:02}  {}/{} {}{}{what}",
        seconds / 60,
        seconds % 60,
        state.done,
        state.parts,
        state.part,
        if what.is_empty() { "" } else { ": " }
    );
    let mut out = std::io::stderr();
    if out.is_terminal() {
        let _ = write!(out, "\r\x1b[K{line}");
        let _ = out.flush();
    } else if what.is_empty() {
        let _ = writeln!(out, "{line}");
    }
}

pub fn end() -> u64 {
    let state = STATE.lock().expect("no panic in here").take();
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K");
    }
    state.map_or(0, |state| state.start.elapsed().as_secs())
}

fn set(state: Option<State>) {
    *STATE.lock().expect("no panic in here") = state;
}
