//! A clock that steps.
