//! Request, response, log, and errors with numbers.

use partita_engine::{ScriptRole, WriteKind};
use partita_model::ErrorKind;

use crate::host::{MemoryHost, answer, failure, quick_js, run, run_role, value};

fn procedure(body: &str) -> String {
    answer(
        &mut MemoryHost::default(),
        &format!("function () {{ const response = getContext().getResponse(); {body} }}"),
    )
}

#[test]
fn a_procedure_that_sets_nothing_answers_nothing() {
    let end = run(&mut MemoryHost::default(), "function () {}", "[]");
    assert_eq!(end.result, Ok(None));
    assert_eq!(procedure("return 5;"), "");
}

#[test]
fn the_body_is_what_was_set_last() {
    assert_eq!(
        procedure(
            "for (var i = 0; i < 1000; i++) { var item = response.getBody();
            if (i > 0 && item != i - 1) throw 'body mismatch'; response.setBody(i); }"
        ),
        "999"
    );
    assert_eq!(
        procedure("response.setBody({ a: [1, 'x', null, true] });"),
        r#"{"a":[1,"x",null,true]}"#
    );
    assert_eq!(procedure("response.setBody('');"), "\"\"");
    assert_eq!(procedure("response.setBody(undefined);"), "");
    assert_eq!(procedure("const o = {}; response.setBody(o); o.late = 1;"), r#"{"late":1}"#);
}

#[test]
fn appending_joins_texts_and_adds_numbers() {
    assert_eq!(
        procedure("for (var i = 0; i < 10; i++) response.appendValue('Body', i);"),
        "\"0123456789\""
    );
    assert_eq!(procedure("response.setBody(40); response.appendBody(2);"), "42");
    assert_eq!(procedure("response.setBody(null); response.appendBody({ a: 1 });"), r#"{"a":1}"#);
    assert_eq!(
        procedure("response.appendBody('a'); response.appendBody({}); "),
        "\"a[object Object]\""
    );
}

#[test]
fn values_have_names_and_only_some_can_be_written() {
    assert_eq!(
        procedure("response.setValue('Body', 1); response.setBody([response.getValue('Body')]);"),
        "[1]"
    );
    let told = procedure(
        "const told = [];
         for (const call of [() => response.setValue('Other', 1), () => __.request.setBody(1),
                             () => response.getValue('Other'), () => response.setValue(5, 1)])
             try { call(); told.push('nothing'); } catch (e) { told.push(e.number, e.message); }
         response.setBody(told);",
    );
    assert_eq!(
        told,
        r#"[400,"Cannot set new values: Other",403,"Not a writable property: Body",400,"There is no such value: Other",400,"The name of a value must be a string."]"#
    );
}

#[test]
fn the_arguments_are_the_functions_and_the_requests_body() {
    let source = "function (a, b, c) { __.response.setBody([a.temp, b, c === undefined, __.request.getBody().length]); }";
    let end = run(&mut MemoryHost::default(), source, r#"[{"temp":"so"},null]"#);
    assert_eq!(end.result.unwrap().unwrap(), r#"["so",null,true,2]"#);
}

#[test]
fn the_response_is_limited_in_size() {
    let grow = "function () { for (;;) __.response.appendBody('x'.repeat(1 << 20)); }";
    let (kind, message) = failure(&mut MemoryHost::default(), grow);
    assert_eq!(kind, ErrorKind::TooLarge, "{message}");
    assert!(
        message.contains("Resulting message would be too large because of \"Body\""),
        "{message}"
    );
    let caught = "function () { try { __.response.setBody('x'.repeat(5 << 20)); } catch (e) { __.response.setBody(e.number); } }";
    assert_eq!(answer(&mut MemoryHost::default(), caught), "413");
    let late =
        "function () { const o = { a: '' }; __.response.setBody(o); o.a = 'x'.repeat(5 << 20); }";
    assert_eq!(failure(&mut MemoryHost::default(), late).0, ErrorKind::TooLarge);
}

#[test]
fn a_pre_trigger_changes_the_document() {
    let source = r#"function () {
        const request = getContext().getRequest();
        const doc = request.getBody();
        doc.by = request.getOperationType() + request.getValue('OperationType');
        if (getContext().getResponse || __.response) throw new Error('there is a response');
        request.setBody(doc);
    }"#;
    let role =
        ScriptRole::PreTrigger { operation: WriteKind::Upsert, document: Some(r#"{"id":"a"}"#) };
    let end = run_role(&quick_js(), &mut MemoryHost::default(), source, role);
    assert_eq!(end.result.unwrap().unwrap(), r#"{"id":"a","by":"UpsertUpsert"}"#);
}

#[test]
fn a_pre_trigger_that_sets_nothing_leaves_the_document_alone() {
    let role =
        ScriptRole::PreTrigger { operation: WriteKind::Create, document: Some(r#"{"id":"a"}"#) };
    let source = "function () { __.request.getBody().x = 1; }";
    let end = run_role(&quick_js(), &mut MemoryHost::default(), source, role);
    assert_eq!(end.result, Ok(None));
}

#[test]
fn a_trigger_of_a_delete_has_no_document() {
    let role = ScriptRole::PreTrigger { operation: WriteKind::Delete, document: None };
    let source = "function () { if (__.request.getBody() !== undefined) throw new Error('there is one'); __.request.setBody({}); }";
    let end = run_role(&quick_js(), &mut MemoryHost::default(), source, role);
    assert!(end.result.unwrap_err().message.contains("Number: 403"));
}

#[test]
fn a_post_trigger_sees_both_and_changes_the_answer() {
    let source = r#"function () {
        const answer = __.response.getBody();
        answer.seen = [__.request.getBody().id, __.request.getOperationType()];
        __.createDocument(__.getSelfLink(), { id: 'audit' });
        __.response.setBody(answer);
    }"#;
    let role = ScriptRole::PostTrigger {
        operation: WriteKind::Replace,
        document: Some(r#"{"id":"a"}"#),
        answer: Some(r#"{"id":"a","_ts":1}"#),
    };
    let mut host = MemoryHost::default();
    let end = run_role(&quick_js(), &mut host, source, role);
    assert_eq!(end.result.unwrap().unwrap(), r#"{"id":"a","_ts":1,"seen":["a","Replace"]}"#);
    assert_eq!(host.items.len(), 1);
}

fn logged(body: &str) -> String {
    run(&mut MemoryHost::default(), &format!("function () {{ {body} }}"), "[]").log
}

#[test]
fn the_log_takes_one_value_or_a_format() {
    assert_eq!(logged("console.log('The value of %s is %s.', 'x', 1);"), "The value of x is 1.");
    assert_eq!(
        logged("console.log('a'); console.log(5); console.log({}); console.log('%s');"),
        "a5[object Object]%s"
    );
    assert_eq!(logged("console.log('%s%% of %d %s', 5, 'all');"), "5% of %d all");
    assert_eq!(logged("console.log('kept'); throw new Error('x');"), "kept");
    for wrong in ["console.log()", "console.log(5, 'x')"] {
        assert!(
            logged(&format!("try {{ {wrong}; }} catch (e) {{ console.log(e.number); }}")) == "400"
        );
    }
}

#[test]
fn errors_can_have_numbers() {
    let cases = [
        ("new Error(404, 'gone').number", "404"),
        ("new Error(404, 'gone').message", "\"gone\""),
        ("new Error('plain').message", "\"plain\""),
        ("new Error('plain').number === undefined", "true"),
        ("new Error(5).message", "\"5\""),
        ("Error(404, 'called').number", "404"),
        ("new Error('x', { cause: 7 }).cause", "7"),
        ("new Error(ErrorCodes.Conflict, 'x') instanceof Error", "true"),
        ("new TypeError('x') instanceof Error", "true"),
        (
            "new (class Mine extends Error { get kind() { return 'mine'; } })(409, 'x').kind",
            "\"mine\"",
        ),
        ("(class Mine extends Error {}).prototype instanceof Error", "true"),
        ("Error.prototype.constructor === Error", "true"),
        ("Object.isFrozen(ErrorCodes) && ErrorCodes.RetryWith", "449"),
        ("String(new Error(1, 'x'))", "\"Error: x\""),
    ];
    for (expression, expected) in cases {
        assert_eq!(value(expression), expected, "{expression}");
    }
}

#[test]
fn the_length_of_what_stands_for_arguments_is_taken_as_apply_takes_it() {
    let source =
        "function () { __.response.setBody([arguments.length].concat([].slice.call(arguments))); }";
    for (body, expected) in [
        (r#"{"length":"2","0":"a","1":"b"}"#, r#"[2,"a","b"]"#),
        (r#"{"length":true,"0":"a","1":"b"}"#, r#"[1,"a"]"#),
        (r#"{"length":" 1.9 ","0":"a"}"#, r#"[1,"a"]"#),
        (r#"{"length":[1],"0":"a"}"#, r#"[1,"a"]"#),
        (r#"{"length":"x","0":"a"}"#, "[0]"),
        (r#"{"length":"-1","0":"a"}"#, "[0]"),
        (r#"{"length":null,"0":"a"}"#, "[0]"),
        (r#"{"length":{},"0":"a"}"#, "[0]"),
        (r#"{"0":"a"}"#, "[0]"),
    ] {
        let end = run(&mut MemoryHost::default(), source, body);
        assert_eq!(end.result.unwrap().as_deref(), Some(expected), "{body}");
    }
    let end = run(&mut MemoryHost::default(), source, r#"{"length":"Infinity"}"#);
    assert!(end.result.unwrap_err().message.contains("65535 arguments at most"));
}
