//! User-defined functions of queries.

use std::sync::Arc;
use std::thread;

use partita_engine::{Script, ScriptRuntime};
use partita_model::{ErrorKind, Value};
use partita_query::Functions;
use partita_script::Limits;

use crate::host::{quick_js, quick_js_with};

fn functions(sources: &[(&str, &str)]) -> Arc<dyn Functions> {
    quick_js().functions(scripts(sources))
}

fn scripts(sources: &[(&str, &str)]) -> Vec<Script> {
    let script = |(name, source): &(&str, &str)| Script {
        name: (*name).to_owned(),
        source: (*source).into(),
        version: 1,
    };
    sources.iter().map(script).collect()
}

fn json(text: &str) -> Option<Value> {
    Some(Value::parse(text.as_bytes()).unwrap())
}

#[test]
fn a_function_takes_and_gives_values_of_every_type() {
    let same = functions(&[("same", "function (x) { return x; }")]);
    for text in
        ["null", "true", "1", "-2.5", "\"text\"", "[1,[2,{\"a\":null}]]", "{\"a\":{\"b\":[]}}"]
    {
        assert_eq!(same.call("same", &[json(text)]).unwrap(), json(text), "{text}");
    }
    assert_eq!(same.call("same", &[None]).unwrap(), None);
    assert_eq!(same.call("same", &[]).unwrap(), None);
}

#[test]
fn what_the_query_language_has_no_value_for_is_undefined() {
    for result in ["undefined", "NaN", "Infinity", "Symbol()", "(() => 1)"] {
        let source = format!("function () {{ return {result}; }}");
        assert_eq!(functions(&[("f", &source)]).call("f", &[]).unwrap(), None, "{result}");
    }
}

#[test]
fn arguments_come_in_order_and_undefined_ones_keep_their_place() {
    let list =
        functions(&[("list", "function (a, b, c) { return [arguments.length, a, typeof b, c]; }")]);
    let result = list.call("list", &[json("1"), None, json("\"x\"")]).unwrap();
    assert_eq!(result, json("[3,1,\"undefined\",\"x\"]"));
}

#[test]
fn a_function_sees_no_context() {
    let see = functions(&[(
        "see",
        "function () { return [typeof getContext, typeof __, typeof console, typeof ErrorCodes]; }",
    )]);
    assert_eq!(
        see.call("see", &[]).unwrap(),
        json(r#"["undefined","undefined","undefined","object"]"#)
    );
}

#[test]
fn an_exception_is_a_400_that_names_the_function() {
    let bad =
        functions(&[("bad", "function (x) { if (x > 1) throw new Error('too much'); return x; }")]);
    let error = bad.call("bad", &[json("2")]).unwrap_err();
    assert_eq!(error.kind, ErrorKind::ScriptFailed { number: 32_766 });
    assert!(
        error.message.starts_with("udf.bad: ") && error.message.contains("too much"),
        "{}",
        error.message
    );
    assert_eq!(bad.call("bad", &[json("1")]).unwrap(), json("1"));
}

#[test]
fn an_unknown_function_and_one_that_does_not_compile_are_400s() {
    let some = functions(&[("broken", "function () {")]);
    let thrown = ErrorKind::ScriptFailed { number: 32_766 };
    for (name, kind) in [("missing", ErrorKind::BadRequest), ("broken", thrown)] {
        let error = some.call(name, &[]).unwrap_err();
        assert_eq!(error.kind, kind);
        assert!(error.message.contains(&format!("udf.{name}")), "{}", error.message);
    }
}

#[test]
fn functions_of_one_query_are_called_on_several_threads() {
    let double =
        functions(&[("double", "function (x) { return 2 * x; }"), ("half", "(x) => x / 2")]);
    let threads: Vec<_> = (0..4)
        .map(|at| {
            let double = Arc::clone(&double);
            thread::Builder::new().spawn(move || {
                for n in 0..200 {
                    let n = i64::from(n * 4 + at);
                    assert_eq!(
                        double.call("double", &[Some(Value::from(n))]).unwrap(),
                        Some(Value::from(2 * n))
                    );
                    assert_eq!(
                        double.call("half", &[Some(Value::from(2 * n))]).unwrap(),
                        Some(Value::from(n))
                    );
                }
            })
        })
        .collect();
    for thread in threads {
        thread.unwrap().join().unwrap();
    }
}

#[test]
fn more_queries_than_a_thread_keeps_machines_for_work_side_by_side() {
    let all: Vec<_> = (0..9).map(|n| functions(&[("f", &format!("(x) => x + {n}"))])).collect();
    for _ in 0..3 {
        for (n, one) in all.iter().enumerate() {
            assert_eq!(
                one.call("f", &[Some(Value::from(1))]).unwrap(),
                Some(Value::from(1 + n as i64))
            );
        }
    }
}

#[test]
fn one_query_leaves_nothing_to_the_next() {
    let source = "function () { Array.prototype.left = 1; globalThis.left = (globalThis.left || 0) + 1; return left; }";
    for _ in 0..3 {
        assert_eq!(functions(&[("f", source)]).call("f", &[]).unwrap(), json("1"));
    }
}

#[test]
fn all_calls_of_a_query_share_one_budget_of_time() {
    let limits = Limits { functions_millis_max: 200, ..Limits::default() };
    let slow = quick_js_with(limits).functions(scripts(&[
        (
            "slow",
            "function () { const end = Date.now() + 30; while (Date.now() < end); return 1; }",
        ),
        ("stuck", "function () { for (;;); }"),
    ]));
    let error = slow.call("stuck", &[]).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Timeout);
    assert!(error.message.contains("stuck"), "{}", error.message);
    assert_eq!(slow.call("slow", &[]).unwrap_err().kind, ErrorKind::Timeout);
}
