//! Patches: their operations, their refusals, and the same on trees.

use partita_model::{
    ErrorKind, Number, Object, PartitionKeyDefinition, Patch, Value, compact_object, json,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::generate;

fn patched(text: &str, operations: &str) -> Result<String, String> {
    let patch = Patch::parse(operations.as_bytes()).map_err(|error| error.message)?;
    patch.apply(text).map_err(|error| {
        assert_eq!(error.kind, ErrorKind::BadRequest);
        error.message
    })
}

/// A document, one operation, what comes out.
const OPERATIONS: &[(&str, &str, &str)] = &[
    // add
    (r#"{}"#, r#"{"op":"add","path":"/a","value":1.50}"#, r#"{"a":1.50}"#),
    (r#"{"a":1}"#, r#"{"op":"add","path":"/b","value":{"c":[]}}"#, r#"{"a":1,"b":{"c":[]}}"#),
    (r#"{"a":1}"#, r#"{"op":"add","path":"/a","value":null}"#, r#"{"a":null}"#),
    (r#"{"a":[1,2]}"#, r#"{"op":"add","path":"/a/0","value":0}"#, r#"{"a":[0,1,2]}"#),
    (r#"{"a":[1,2]}"#, r#"{"op":"add","path":"/a/1","value":0}"#, r#"{"a":[1,0,2]}"#),
    (r#"{"a":[1,2]}"#, r#"{"op":"add","path":"/a/2","value":0}"#, r#"{"a":[1,2,0]}"#),
    (r#"{"a":[1,2]}"#, r#"{"op":"add","path":"/a/-","value":0}"#, r#"{"a":[1,2,0]}"#),
    (r#"{"a":[]}"#, r#"{"op":"add","path":"/a/-","value":[]}"#, r#"{"a":[[]]}"#),
    (r#"{"a":[]}"#, r#"{"op":"add","path":"/a/0","value":0}"#, r#"{"a":[0]}"#),
    // set
    (r#"{"a":[1,2]}"#, r#"{"op":"set","path":"/a/1","value":0}"#, r#"{"a":[1,0]}"#),
    (r#"{"a":[1,2]}"#, r#"{"op":"set","path":"/a/-","value":0}"#, r#"{"a":[1,2,0]}"#),
    (r#"{"a":{"b":1}}"#, r#"{"op":"set","path":"/a/c","value":"x"}"#, r#"{"a":{"b":1,"c":"x"}}"#),
    // replace
    (r#"{"a":[1,2]}"#, r#"{"op":"replace","path":"/a/0","value":0}"#, r#"{"a":[0,2]}"#),
    (r#"{"a":{"b":1},"c":2}"#, r#"{"op":"replace","path":"/a","value":3}"#, r#"{"a":3,"c":2}"#),
    // remove
    (r#"{"a":1}"#, r#"{"op":"remove","path":"/a"}"#, r#"{}"#),
    (r#"{"a":1,"b":2}"#, r#"{"op":"remove","path":"/a"}"#, r#"{"b":2}"#),
    (r#"{"a":1,"b":2}"#, r#"{"op":"remove","path":"/b"}"#, r#"{"a":1}"#),
    (r#"{"a":1,"b":2,"c":3}"#, r#"{"op":"remove","path":"/b"}"#, r#"{"a":1,"c":3}"#),
    (r#"{"a":[1]}"#, r#"{"op":"remove","path":"/a/0"}"#, r#"{"a":[]}"#),
    (r#"{"a":[1,2,3]}"#, r#"{"op":"remove","path":"/a/2"}"#, r#"{"a":[1,2]}"#),
    // incr
    (r#"{"n":1}"#, r#"{"op":"incr","path":"/n","value":-3}"#, r#"{"n":-2}"#),
    (r#"{"n":1}"#, r#"{"op":"incr","path":"/n","value":0.5}"#, r#"{"n":1.5}"#),
    (
        r#"{"n":9007199254740993}"#,
        r#"{"op":"incr","path":"/n","value":2}"#,
        r#"{"n":9007199254740995}"#,
    ),
    (
        r#"{"n":9223372036854775807}"#,
        r#"{"op":"incr","path":"/n","value":1}"#,
        r#"{"n":9.223372036854776e18}"#,
    ),
    (r#"{}"#, r#"{"op":"incr","path":"/n","value":1.0}"#, r#"{"n":1.0}"#),
    (r#"{"n":[1]}"#, r#"{"op":"incr","path":"/n/0","value":1}"#, r#"{"n":[2]}"#),
    // move
    (
        r#"{"a":{"b":"\u0041"}}"#,
        r#"{"op":"move","from":"/a/b","path":"/c"}"#,
        r#"{"a":{},"c":"\u0041"}"#,
    ),
    (r#"{"a":{"b":1},"c":2}"#, r#"{"op":"move","from":"/a/b","path":"/a"}"#, r#"{"a":1,"c":2}"#),
    (r#"{"a":1,"b":2}"#, r#"{"op":"move","from":"/a","path":"/b"}"#, r#"{"b":1}"#),
    (r#"{"a":[1,2,3]}"#, r#"{"op":"move","from":"/a/0","path":"/a/1"}"#, r#"{"a":[2,1,3]}"#),
    (r#"{"a":1}"#, r#"{"op":"move","from":"/a","path":"/a"}"#, r#"{"a":1}"#),
    // pointers
    (
        r#"{"a/b":{"m~n":1}}"#,
        r#"{"op":"set","path":"/a~1b/m~0n","value":2}"#,
        r#"{"a/b":{"m~n":2}}"#,
    ),
    (r#"{"~1":1}"#, r#"{"op":"remove","path":"/~01"}"#, r#"{}"#),
    (r#"{"\u0061":{"0":1}}"#, r#"{"op":"set","path":"/a/0","value":2}"#, r#"{"\u0061":{"0":2}}"#),
    (r#"{"a":1}"#, r#"{"op":"set","path":"/","value":2}"#, r#"{"a":1,"":2}"#),
    (r#"{}"#, r#"{"op":"set","path":"/é\"\n","value":2}"#, r#"{"é\"\n":2}"#),
];

#[test]
fn operations_do_what_the_service_does() {
    for (text, operation, expected) in OPERATIONS {
        assert_eq!(
            patched(text, &format!("[{operation}]")).as_deref(),
            Ok(*expected),
            "{operation}"
        );
    }
}

#[test]
fn impossible_operations_name_themselves_and_the_reason() {
    let text = r#"{"a":[1],"s":"x","o":{},"n":1e308}"#;
    for (operation, reason) in [
        (r#"{"op":"add","path":"/x/y","value":1}"#, "no member 'x'"),
        (r#"{"op":"add","path":"/s/y","value":1}"#, "no object or array"),
        (r#"{"op":"add","path":"/a/2","value":1}"#, "beyond the array's end"),
        (r#"{"op":"add","path":"/a/x","value":1}"#, "no index"),
        (r#"{"op":"add","path":"/a/00","value":1}"#, "no index"),
        (r#"{"op":"add","path":"/a/+0","value":1}"#, "no index"),
        (r#"{"op":"add","path":"/a/-1","value":1}"#, "no index"),
        (r#"{"op":"add","path":"/a/-/b","value":1}"#, "no element"),
        (r#"{"op":"replace","path":"/x","value":1}"#, "no member 'x'"),
        (r#"{"op":"replace","path":"/a/1","value":1}"#, "no element"),
        (r#"{"op":"replace","path":"/a/-","value":1}"#, "no element"),
        (r#"{"op":"remove","path":"/o/x"}"#, "no member 'x'"),
        (r#"{"op":"remove","path":"/a/-"}"#, "no element"),
        (r#"{"op":"incr","path":"/s","value":1}"#, "no number"),
        (r#"{"op":"incr","path":"/a/1","value":1}"#, "no element"),
        (r#"{"op":"incr","path":"/n","value":1e308}"#, "too large"),
        (r#"{"op":"move","from":"/x","path":"/y"}"#, "'from' ('/x'): there is no member 'x'"),
    ] {
        let error =
            patched(text, &format!("[{{\"op\":\"set\",\"path\":\"/z\",\"value\":1}},{operation}]"))
                .expect_err(operation);
        assert!(error.starts_with("patch operation 1 ("), "{error}");
        assert!(error.contains(reason), "{operation}: {error}");
    }
}

#[test]
fn wrong_patches_are_refused() {
    for (body, reason) in [
        ("", "invalid JSON"),
        ("1", "must be an array or an object"),
        ("{}", "'operations'"),
        ("[]", "1 to 10 operations"),
        (r#"{"operations":{}}"#, "must be an array"),
        (r#"{"operations":[],"condition":1}"#, "must be a string"),
        (r#"{"operations":[],"conditions":"x"}"#, "no member 'conditions'"),
        (r#"[1]"#, "operation 0 (? '?'): must have the string 'op'"),
        (r#"[{"op":"set","value":1}]"#, "operation 0 (set '?'): must have the string 'path'"),
        (r#"[{"op":"set","path":1,"value":1}]"#, "must have the string 'path'"),
        (r#"[{"op":"set","path":"/a"}]"#, "operation 0 (set '/a'): must have a 'value'"),
        (r#"[{"op":"incr","path":"/a","value":"1"}]"#, "must be a number"),
        (r#"[{"op":"move","path":"/a"}]"#, "must have the string 'from'"),
        (r#"[{"op":"move","path":"/a/b","from":"/a"}]"#, "lies inside 'from'"),
        (r#"[{"op":"test","path":"/a","value":1}]"#, "no such operation"),
        (r#"[{"op":"Set","path":"/a","value":1}]"#, "no such operation"),
        (r#"[{"op":"set","path":"a","value":1}]"#, "must start with '/'"),
        (r#"[{"op":"set","path":"","value":1}]"#, "must start with '/'"),
        (r#"[{"op":"set","path":"/a~2","value":1}]"#, "must be followed by 0 or 1"),
        (r#"[{"op":"set","path":"/a~","value":1}]"#, "must be followed by 0 or 1"),
    ] {
        let error = Patch::parse(body.as_bytes()).expect_err(body);
        assert_eq!(error.kind, ErrorKind::BadRequest);
        assert!(error.message.contains(reason), "{body}: {error}");
    }
    let operation = r#"{"op":"remove","path":"/a"}"#;
    assert!(Patch::parse(format!("[{}]", [operation; 10].join(",")).as_bytes()).is_ok());
    assert!(Patch::parse(format!("[{}]", [operation; 11].join(",")).as_bytes()).is_err());
}

#[test]
fn a_condition_is_carried() {
    let operations = r#""operations":[{"op":"remove","path":"/a","comment":"kept out"}]"#;
    let body = format!("{{ {operations}, \"condition\": \"from c where c.a = \\u0027x\\u0027\" }}");
    let patch = Patch::parse(body.as_bytes()).unwrap();
    assert_eq!(patch.condition.as_deref(), Some("from c where c.a = 'x'"));
    let without = format!("{{{operations},\"condition\":null}}");
    assert_eq!(Patch::parse(without.as_bytes()).unwrap().condition, None);
}

#[test]
fn what_a_patch_does_not_name_stays_as_it_was_written() {
    let text = r#"{"a":1.0e0,"b":"\u0041\/","c":{"d":-0.0},"e":[12345678901234567890]}"#;
    let patch =
        r#"[{"op":"set","path":"/c/x","value":"\u00e9"},{"op":"add","path":"/e/0","value":1.10}]"#;
    let expected =
        r#"{"a":1.0e0,"b":"\u0041\/","c":{"d":-0.0,"x":"\u00e9"},"e":[1.10,12345678901234567890]}"#;
    assert_eq!(patched(text, patch).as_deref(), Ok(expected));
}

#[test]
fn the_depth_limit_holds_after_a_patch() {
    let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
    let patch =
        |path: &str, n: usize| format!(r#"[{{"op":"add","path":"{path}","value":{}}}]"#, nested(n));
    // The patch itself adds two levels around the value, so the value is brought in two steps.
    let text = patched(r#"{"a":[]}"#, &patch("/a/0", 120)).unwrap();
    let deep = format!("/a{}", "/0".repeat(120));
    let full = patched(&text, &patch(&deep, 7)).unwrap();
    assert!(compact_object(full.as_bytes()).is_ok());
    let error = patched(&text, &patch(&deep, 8)).unwrap_err();
    assert!(error.contains("129 levels"), "{error}");
    let error = patched(
        &full,
        r#"[{"op":"add","path":"/o","value":{}},{"op":"move","from":"/a","path":"/o/a"}]"#,
    );
    assert!(error.unwrap_err().contains("129 levels"));
}

#[test]
fn protected_targets_are_refused() {
    let definition = |paths: &str| {
        let text = format!(r#"{{"paths":{paths},"kind":"MultiHash","version":2}}"#);
        PartitionKeyDefinition::parse(&json::parse(text.as_bytes()).unwrap()).unwrap()
    };
    let key = definition(r#"["/tenant/id","/\"a/b\""]"#);
    let check = |operation: &str| {
        Patch::parse(format!("[{operation}]").as_bytes()).unwrap().check_targets(&key)
    };
    for path in [
        "/id",
        "/_ts",
        "/_etag",
        "/_rid",
        "/_self",
        "/_attachments",
        "/tenant",
        "/tenant/id",
        "/a~1b",
    ] {
        let error = check(&format!(r#"{{"op":"set","path":"{path}","value":1}}"#)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::BadRequest);
        assert!(error.message.contains("cannot be patched"), "{error}");
        check(&format!(r#"{{"op":"move","from":"{path}","path":"/x"}}"#)).unwrap_err();
    }
    for path in ["/tenant/name", "/ids", "/x/id", "/x/_ts", "/_lsn", "/a"] {
        assert_eq!(
            check(&format!(r#"{{"op":"set","path":"{path}","value":1}}"#)),
            Ok(()),
            "{path}"
        );
    }
}

/// An operation for the model below, and for the wire.
#[derive(Clone, Debug)]
struct Change {
    op: &'static str,
    path: Vec<String>,
    from: Vec<String>,
    value: Value,
}

impl Change {
    fn to_value(&self) -> Value {
        let object = Object::new()
            .with("op", self.op)
            .with("path", pointer(&self.path))
            .with("from", pointer(&self.from))
            .with("value", self.value.clone());
        Value::Object(object)
    }
}

fn pointer(tokens: &[String]) -> String {
    tokens.iter().map(|t| format!("/{}", t.replace('~', "~0").replace('/', "~1"))).collect()
}

/// An operation before it is known on which document it will work.
#[derive(Clone, Debug)]
struct Draft {
    op: &'static str,
    path: Aim,
    from: Aim,
    value: Value,
}

/// Some place that a document has, or one beside or below it.
#[derive(Clone, Debug)]
struct Aim {
    pick: prop::sample::Index,
    instead: Option<String>,
    below: Option<String>,
}

fn aim() -> impl Strategy<Value = Aim> {
    let token = || prop_oneof![2 => generate::name(), 2 => "[0-3]", 2 => Just("-".to_owned())];
    (
        any::<prop::sample::Index>(),
        prop::option::weighted(0.3, token()),
        prop::option::weighted(0.2, token()),
    )
        .prop_map(|(pick, instead, below)| Aim { pick, instead, below })
}

fn draft() -> impl Strategy<Value = Draft> {
    const OPS: [&str; 6] = ["add", "set", "replace", "remove", "incr", "move"];
    (prop::sample::select(&OPS[..]), aim(), aim(), generate::value(), generate::number()).prop_map(
        |(op, path, from, value, number)| {
            let value = if op == "incr" { Value::Number(number) } else { value };
            // As the scanner reads it: a double that is an integer may be written as one.
            let value = json::parse(value.to_json().as_bytes()).unwrap();
            Draft { op, path, from, value }
        },
    )
}

impl Draft {
    fn on(&self, tree: &Value) -> Change {
        let (path, mut from) = (self.path.on(tree), self.from.on(tree));
        if path.starts_with(&from) {
            // Refused when the patch is parsed, so it would hide the rest.
            from.clone_from(&path);
        }
        Change { op: self.op, path, from, value: self.value.clone() }
    }
}

impl Aim {
    fn on(&self, tree: &Value) -> Vec<String> {
        let mut places = vec![vec!["a".to_owned()]];
        list_places(tree, &[], &mut places);
        let mut path = self.pick.get(&places).clone();
        if let (Some(instead), Some(last)) = (&self.instead, path.last_mut()) {
            last.clone_from(instead);
        }
        path.extend(self.below.clone());
        path
    }
}

fn list_places(tree: &Value, here: &[String], out: &mut Vec<Vec<String>>) {
    let parts: Vec<(String, &Value)> = match tree {
        Value::Object(object) => object.iter().map(|(n, value)| (n.to_owned(), value)).collect(),
        Value::Array(elements) => (0..).map(|at: usize| at.to_string()).zip(elements).collect(),
        _ => Vec::new(),
    };
    for (token, part) in parts {
        let place = [here, &[token]].concat();
        list_places(part, &place, out);
        out.push(place);
    }
}

/// What an operation does to the parent of its target.
type Edit<'e> = &'e mut dyn FnMut(Value, &str) -> Option<Value>;

/// Rebuilds a tree with one parent edited; None if it is not there or the edit fails.
fn edit(value: Value, path: &[String], with: Edit<'_>) -> Option<Value> {
    match (path, value) {
        ([last], parent) => with(parent, last),
        ([first, rest @ ..], Value::Object(object)) => {
            let member = edit(object.get(first)?.clone(), rest, with)?;
            let mut object = object;
            object.insert(first.as_str(), member);
            Some(Value::Object(object))
        }
        ([first, rest @ ..], Value::Array(mut elements)) => {
            let at = index(first, elements.len())?;
            let element = edit(elements.get(at)?.clone(), rest, with)?;
            elements[at] = element;
            Some(Value::Array(elements))
        }
        _ => None,
    }
}

fn index(token: &str, len: usize) -> Option<usize> {
    (0..=len).find(|at| at.to_string() == token).or((token == "-").then_some(len))
}

fn take(tree: Value, path: &[String]) -> Option<(Value, Value)> {
    let mut taken = None;
    let tree = edit(tree, path, &mut |parent, last| match parent {
        Value::Object(mut object) => {
            taken = Some(object.remove(last)?);
            Some(Value::Object(object))
        }
        Value::Array(mut elements) => {
            let at = index(last, elements.len()).filter(|at| *at < elements.len())?;
            taken = Some(elements.remove(at));
            Some(Value::Array(elements))
        }
        _ => None,
    })?;
    Some((tree, taken?))
}

fn put(tree: Value, path: &[String], value: &Value, replaces: bool) -> Option<Value> {
    edit(tree, path, &mut |parent, last| match parent {
        Value::Object(object) => Some(Value::Object(object.with(last, value.clone()))),
        Value::Array(mut elements) => {
            let at = index(last, elements.len())?;
            if replaces && at < elements.len() {
                elements.remove(at);
            }
            elements.insert(at, value.clone());
            Some(Value::Array(elements))
        }
        _ => None,
    })
}

fn sum(a: &Value, b: &Value) -> Option<Value> {
    let (Value::Number(a), Value::Number(b)) = (a, b) else { return None };
    if let (Number::Int(a), Number::Int(b)) = (a, b)
        && let Some(sum) = a.checked_add(*b)
    {
        return Some(Value::from(sum));
    }
    let sum = a.as_f64() + b.as_f64();
    sum.is_finite().then_some(Value::from(sum))
}

/// The naive patch: on trees, by rebuilding them.
fn naive(tree: Value, change: &Change) -> Option<Value> {
    let (path, value) = (&change.path, &change.value);
    match change.op {
        "add" => put(tree, path, value, false),
        "set" => put(tree, path, value, true),
        "remove" => take(tree, path).map(|(rest, _)| rest),
        "replace" => take(tree.clone(), path).and_then(|_| put(tree, path, value, true)),
        "move" => take(tree, &change.from).and_then(|(rest, taken)| put(rest, path, &taken, false)),
        _ => edit(tree, path, &mut |parent, last| match parent {
            Value::Object(object) => {
                let new = object.get(last).map_or(Some(value.clone()), |old| sum(old, value))?;
                Some(Value::Object(object.with(last, new)))
            }
            Value::Array(mut elements) => {
                let at = index(last, elements.len())?;
                let new = sum(elements.get(at)?, value)?;
                elements[at] = new;
                Some(Value::Array(elements))
            }
            _ => None,
        }),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn patching_the_text_is_patching_the_tree(
        object in generate::object(),
        seed: u64,
        drafts in vec(draft(), 1..5),
    ) {
        let tree = Value::Object(object);
        let text = compact_object(generate::messy_text(&tree, seed).as_bytes()).unwrap();
        let mut tree = json::parse(text.as_bytes()).unwrap();
        let mut changes = Vec::new();
        let mut fails = false;
        for draft in &drafts {
            let change = draft.on(&tree);
            changes.push(change.to_value());
            let Some(changed) = naive(tree.clone(), &change) else {
                fails = true;
                break;
            };
            tree = changed;
        }
        let patch = Patch::parse(Value::Array(changes).to_json().as_bytes()).unwrap();
        match patch.apply(&text) {
            Ok(text) => {
                prop_assert_eq!(compact_object(text.as_bytes()), Ok(text.clone()));
                prop_assert_eq!(json::parse(text.as_bytes()), Ok(tree));
                prop_assert!(!fails);
            }
            Err(error) => prop_assert!(fails, "{}", error),
        }
    }
}
