//! Any query over any small item: running it ends with results that are JSON, or with an error.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &str| partita_query::fuzzing::evaluate(input));
