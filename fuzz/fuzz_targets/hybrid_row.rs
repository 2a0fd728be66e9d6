//! Any bytes: reading them as a batch in HybridRow ends with operations or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &[u8]| partita_nosql::fuzzing::hybrid_row(body));
