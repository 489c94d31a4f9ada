//! Where the instructions of a step go: what callgrind has written down, summed up by what the module asks the server for.
//!
//! A function of the server's module API counts with all that it calls, so the list says what would be saved without it.

use std::collections::HashMap;

/// The parts of a step of ours, the dearest first.
pub struct Profile {
    pub title: &'static str,
    pub parts: Vec<(String, f64)>,
}

impl Profile {
    /// Of so many steps, that callgrind has written down.
    pub fn of(title: &'static str, written: &str, steps: usize) -> Self {
        let mut parts = by_part(written);
        parts.iter_mut().for_each(|(_, cost)| *cost /= steps as f64);
        parts.sort_by(|one, other| other.1.total_cmp(&one.1));
        Self { title, parts }
    }
}

/// What the module itself executes, its library's and the system's functions left out.
const OURS: &str = "the module itself";

/// Before and after the module's part.
const SERVER: &str = "the server: reading commands, writing replies, all else";

fn by_part(written: &str) -> Vec<(String, f64)> {
    let mut names = Names::default();
    let (mut costs, mut total, mut in_module) = (HashMap::<String, f64>::new(), 0.0, false);
    // Who is called by the line that comes next, if it is a call.
    let (mut called, mut is_call) = (None, false);
    for line in written.lines() {
        if let Some(object) = line.strip_prefix("ob=") {
            in_module = names.objects.full(object).contains("rlock");
        } else if let Some(function) = line.strip_prefix("fn=") {
            names.functions.full(function);
        } else if let Some(object) = line.strip_prefix("cob=") {
            names.objects.full(object);
        } else if let Some(function) = line.strip_prefix("cfn=") {
            called = Some(names.functions.full(function).to_owned());
        } else if line.starts_with("calls=") {
            is_call = true;
        } else if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
            let cost: f64 = line.split(' ').nth(1).and_then(|cost| cost.parse().ok()).unwrap_or_default();
            let part = match (std::mem::take(&mut is_call), called.take().filter(|_| in_module)) {
                (true, Some(called)) => is_of_the_api(&called).then_some(called),
                (true, None) => None,
                (false, _) => {
                    total += cost;
                    in_module.then(|| OURS.to_owned())
                }
            };
            part.into_iter().for_each(|part| *costs.entry(part).or_default() += cost);
        }
    }
    let rest = total - costs.values().sum::<f64>();
    costs.into_iter().chain([(SERVER.to_owned(), rest)]).collect()
}

/// Redis' functions, and Valkey's.
fn is_of_the_api(function: &str) -> bool {
    ["RM_", "VM_"].iter().any(|prefix| function.starts_with(prefix))
}

/// "(12) name" tells a name, and "(12)" means it from then on.
#[derive(Default)]
struct Names {
    objects: Told,
    functions: Told,
}

#[derive(Default)]
struct Told(HashMap<String, String>);

impl Told {
    fn full(&mut self, text: &str) -> &str {
        let (id, name) = text.split_once(' ').unwrap_or((text, ""));
        let known = self.0.entry(id.to_owned()).or_default();
        if !name.is_empty() {
            name.clone_into(known);
        }
        known
    }
}
