//! Histories under faults, and what a checker makes of them.
#![allow(dead_code, unused_imports)]

mod history;
mod plan;
mod random;

fn main() {}
