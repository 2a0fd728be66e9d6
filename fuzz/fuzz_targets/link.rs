//! Any path: what it addresses has a path of its own that addresses the same.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|path: &str| partita_nosql::fuzzing::link(path));
