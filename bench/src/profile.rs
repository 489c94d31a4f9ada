//! Where the instructions go: what callgrind has written down, summed up by function.

use std::collections::HashMap;

/// Functions with the instructions that each executed itself, without those it called; the most first.
pub fn by_function(profile: &str) -> Vec<(String, f64)> {
    let mut names: HashMap<&str, &str> = HashMap::new();
    let mut costs: HashMap<&str, f64> = HashMap::new();
    let mut function = "";
    let mut is_of_a_call = false;
    for line in profile.lines() {
        if let Some(name) = line.strip_prefix("fn=") {
            function = id(name, &mut names);
        } else if let Some(name) = line.strip_prefix("cfn=") {
            id(name, &mut names);
        } else if line.starts_with("calls=") {
            // The next line is what the called function cost, which is counted there.
            is_of_a_call = true;
        } else if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
            let cost = line.split(' ').nth(1).and_then(|cost| cost.parse::<f64>().ok());
            if !std::mem::take(&mut is_of_a_call) {
                *costs.entry(function).or_default() += cost.unwrap_or_default();
            }
        }
    }
    let name = |id: &str| names.get(id).copied().unwrap_or("?").to_owned();
    let mut all: Vec<_> = costs.into_iter().map(|(id, cost)| (name(id), cost)).collect();
    all.sort_by(|one, other| other.1.total_cmp(&one.1));
    all
}

/// "(12) name" tells a name, and "(12)" means it from then on.
fn id<'a>(text: &'a str, names: &mut HashMap<&'a str, &'a str>) -> &'a str {
    let (id, name) = text.split_once(' ').unwrap_or((text, ""));
    if !name.is_empty() {
        names.insert(id, name);
    }
    id
}
