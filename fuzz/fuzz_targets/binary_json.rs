//! Any bytes as binary JSON, and as JSON to make it of: it becomes JSON that means the same when it
//! goes there and back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use partita_model::{Value, binary_json};

fuzz_target!(|input: &[u8]| {
    if let Ok(text) = binary_json::to_text(input) {
        assert!(binary_json::is_binary(input));
        there_and_back(text.as_bytes());
    }
    there_and_back(input);
});

fn there_and_back(text: &[u8]) {
    let Ok(binary) = binary_json::from_text(text) else { return };
    assert!(binary_json::is_binary(&binary));
    let back = binary_json::to_text(&binary).expect("what was written can be read");
    // A number may come back in another form, as 2.5e3 does; from there on nothing changes.
    let again = binary_json::from_text(back.as_bytes()).expect("what was read is JSON");
    assert_eq!(binary_json::to_text(&again).as_ref(), Ok(&back));
    match (Value::parse(text), Value::parse(back.as_bytes())) {
        (Ok(before), Ok(after)) => assert_eq!(before, after),
        // Names that repeat are refused by the one, and gone after the other.
        (before, after) => assert!(after.is_ok() || before.is_err(), "{before:?} {after:?}"),
    }
}
