//! Any text: parsing and checking it ends, and what is printed of it is the same query again.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| partita_query::fuzzing::parse(text));
