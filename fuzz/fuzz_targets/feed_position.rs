//! Any splits, merges and pages: a reader of the change feed is told everything once.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| partita_engine::fuzzing::feed_position(input));
