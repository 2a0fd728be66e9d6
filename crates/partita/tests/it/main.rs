//! The program as its users meet it: a real process, its output, its exit codes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod access;
mod alerting;
mod benching;
mod checking;
mod declaring;
mod growing;
mod https;
mod issuers;
mod leaving;
mod process;
mod requests;
mod scraping;
mod scripting;
mod secrets;
mod settings;
mod starting;
mod stopping;
mod waiting;
mod watching;
