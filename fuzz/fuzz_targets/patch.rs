//! Any patch of any item, which may follow it after a zero byte: the result is JSON, the operations
//! work one after the other or not at all, and nothing beside their targets changes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use partita_model::{Patch, PatchAction, PatchOperation, Value, compact_object};

const ITEM: &str = r#"{"id":"1","n":1.50,"t":[1,"y",null,{"a":2.5e3}],"o":{"a":true,"b/c~":[]}}"#;

fuzz_target!(|input: &str| {
    let (patch, item) = input.split_once('\0').unwrap_or((input, ITEM));
    let Ok(patch) = Patch::parse(patch.as_bytes()) else { return };
    let Ok(text) = compact_object(item.as_bytes()).or_else(|_| compact_object(ITEM.as_bytes()))
    else {
        return;
    };
    let mut stepwise = Ok(text.clone());
    for operation in &patch.operations {
        stepwise = stepwise.and_then(|before| step(&before, operation));
    }
    match (patch.apply(&text), stepwise) {
        (Ok(whole), Ok(stepwise)) => assert_eq!(whole, stepwise),
        (Err(_), Err(())) => {}
        (whole, stepwise) => panic!("{whole:?}, but step by step {stepwise:?}"),
    }
});

fn step(before: &str, operation: &PatchOperation) -> Result<String, ()> {
    let one = Patch { operations: vec![operation.clone()], condition: None };
    let after = one.apply(before).map_err(|_| ())?;
    let compact = compact_object(after.as_bytes()).expect("a patched item is an object");
    assert_eq!(compact, after, "it stays compact");
    let targets = [Some(&operation.path), match &operation.action {
        PatchAction::Move(from) => Some(from),
        _ => None,
    }];
    let targets = targets.into_iter().flatten().filter_map(|path| path.tokens().first());
    let targets: Vec<&str> = targets.map(String::as_str).collect();
    assert_eq!(others(before, &targets), others(&after, &targets), "beside {targets:?}");
    Ok(after)
}

/// The members of an object but for some, each as its text.
fn others(text: &str, but: &[&str]) -> Vec<(String, String)> {
    let Ok(Value::Object(object)) = Value::parse(text.as_bytes()) else { panic!("{text}") };
    let members = object.iter().filter(|(name, _)| !but.contains(name));
    members.map(|(name, value)| (name.to_owned(), value.to_json())).collect()
}
