//! Histories under faults, and what a checker makes of them.
#![allow(dead_code, unused_imports)]

mod faults;
mod history;
mod network;
mod observer;
mod plan;
mod random;
mod worlds;

fn main() {}
