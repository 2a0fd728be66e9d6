//! Any bytes as continuations of queries: only what was signed is accepted, and says what went in.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| partita_engine::fuzzing::continuation(input));
