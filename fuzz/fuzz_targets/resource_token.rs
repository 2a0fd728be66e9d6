//! Any bytes as resource tokens: only what was signed is accepted, and opens what it says.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| partita_nosql::fuzzing::resource_token(input));
