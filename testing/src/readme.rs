//! Compiles the examples of the project's page. It is in this crate because published crates have only their own files.

#[doc = include_str!("../../README.md")]
struct OfTheProject;
