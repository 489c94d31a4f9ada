//! Histories under faults, and what a checker makes of them.
#![allow(dead_code, unused_imports)]

mod clients;
mod history;
mod plan;
mod random;

use std::path::Path;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["work", plan, crew] => clients::work(Path::new(plan), crew.parse().expect("the number of a crew")),
        _ => {
            eprintln!("rlock-chaos work PLAN NUMBER");
            std::process::exit(2);
        }
    }
}
