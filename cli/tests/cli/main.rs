//! Tests of the command line, each against one or more real servers. Each file shows one part of docs/command-line.md.
#![allow(clippy::unwrap_used)]

mod adopt;
mod advice;
mod bad_input;
mod dev;
mod doctor;
mod drill;
mod help;
mod hold;
mod lock;
mod many;
mod misread;
mod names;
mod once;
mod operators;
mod pages;
mod rights;
mod run;
mod run_lost;
mod run_signals;
mod sessions;
mod several;
mod slots;
mod support;
mod terminal;
mod terminal_settings;
mod tls;
mod top;
mod waiting;
mod walks;
