//! Any bytes as what a client sends: the answers do not depend on how they arrive.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| partita_gateway::fuzzing::http1(input));
