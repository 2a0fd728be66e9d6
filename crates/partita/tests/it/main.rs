//! The program as its users meet it: a real process, its output, its exit codes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod alerting;
mod benching;
mod declaring;
mod growing;
mod https;
mod leaving;
mod lifecycle;
mod process;
mod requests;
mod scripting;
mod security;
mod waiting;
mod watching;
