//! How the program starts and stops, with which settings, and what a stopped server leaves behind.

mod checking;
mod settings;
mod starting;
mod stopping;
