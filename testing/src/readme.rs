//! Compiles the examples of the project's page. Here, since a crate that is published has no files but its own.

#[doc = include_str!("../../README.md")]
struct OfTheProject;
