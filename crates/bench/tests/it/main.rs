//! The bench as a program.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should stop there")]

mod instructions;
