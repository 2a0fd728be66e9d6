//! What a script's text may look like.

use partita_engine::ScriptRuntime;
use partita_model::ErrorKind;

use crate::host::{MemoryHost, failure, quick_js, run, script};

#[track_caller]
fn answers(source: &str, expected: &str) {
    quick_js().check(&script(source)).unwrap();
    let end = run(&mut MemoryHost::default(), source, "[20,22]");
    assert_eq!(end.result.unwrap().unwrap_or_default(), expected, "{source}");
}

#[test]
fn a_function_in_any_form_is_a_script() {
    let set = "__.response.setBody(a + b)";
    for source in [
        format!("function (a, b) {{ {set}; }}"),
        format!("function sum(a, b) {{ {set}; }}"),
        format!("function sum(a, b) {{ {set}; }};\n"),
        format!("(a, b) => {{ {set}; }}"),
        format!("(a, b) => {set}"),
        format!("async function (a, b) {{ {set}; }}"),
        format!("async (a, b) => {set}"),
        format!("(function (a, b) {{ {set}; }})"),
        format!(
            "// what it does\n/* function not() {{}} */ function sum(a, b) {{ {set}; }} // end"
        ),
        format!("\u{FEFF}function (a, b) {{ {set}; }}"),
        format!("'use strict'; function sum(a, b) {{ {set}; }}"),
        format!("function sum(a, b) {{ help(a, b); }} function help(a, b) {{ {set}; }}"),
        format!(
            "var text = 'function no() {{'; var sum = function (a, b) {{ {set}; }}; function help() {{}}"
        ),
        format!("const sum = (a, b) => {{ {set}; }}; const other = () => 0;"),
        format!("let unused = 5;\nfunction sum(a, b) {{ {set}; }}"),
        "class Sum { of(a, b) { return a + b; } }\n\
         function sum(a, b) { __.response.setBody(new Sum().of(a, b)); }"
            .to_owned(),
    ] {
        answers(&source, "42");
    }
}

#[test]
fn scripts_are_not_strict_unless_they_say_so() {
    answers("function () { undeclared = 42; __.response.setBody(undeclared); }", "42");
    let strict = "function () { 'use strict'; undeclared = 42; }";
    assert!(failure(&mut MemoryHost::default(), strict).1.contains("ReferenceError"));
}

#[test]
fn code_can_be_evaluated() {
    answers("function (a, b) { __.response.setBody(eval('a + b')); }", "42");
    answers(
        "function (a, b) { __.response.setBody(new Function('a', 'b', 'return a + b')(a, b)); }",
        "42",
    );
}

#[test]
fn a_text_that_is_no_script_is_refused_with_the_place() {
    for (source, expected) in [
        ("function () {\n  var = 5;\n}", "test.js:2:"),
        ("function f() {\n\n  return (;\n}", "test.js:3:"),
        ("(a) =>", "test.js:"),
        ("var x = 5;", "no function"),
        ("", ""),
        ("function () { \0 }", "NUL"),
    ] {
        let error = quick_js().check(&script(source)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::BadRequest);
        assert!(error.message.contains("cannot be compiled"), "{source}: {}", error.message);
        assert!(error.message.contains(expected), "{source}: {}", error.message);
        assert!(run(&mut MemoryHost::default(), source, "[]").result.is_err(), "{source}");
    }
}

#[test]
fn checking_a_text_runs_nothing_of_it() {
    quick_js().check(&script("for (;;); function f() {}")).unwrap();
    quick_js().check(&script("throw new Error('x'); function f() {}")).unwrap();
    quick_js().check(&script("function f() { nothing.x; }")).unwrap();
}

#[test]
fn what_is_not_a_function_cannot_be_called() {
    assert!(failure(&mut MemoryHost::default(), "5").1.contains("no function"));
    assert!(failure(&mut MemoryHost::default(), "({ a: 1 })").1.contains("no function"));
}
