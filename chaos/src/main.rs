//! Histories under faults, and what a checker makes of them.
#![allow(dead_code, unused_imports)]

mod checker;
mod history;
mod plan;
mod random;
mod story;

fn main() {}
