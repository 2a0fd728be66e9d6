//! How a failed run is told.

use partita_model::{Error, ErrorKind};

use crate::host::{MemoryHost, failure, run};

#[test]
fn an_exception_is_a_400_with_its_text_number_and_place() {
    let source = "function outer() {\n  function inner() { throw new Error(409, 'not now'); }\n  inner();\n}";
    let (kind, message) = failure(&mut MemoryHost::default(), source);
    assert_eq!(kind, ErrorKind::ScriptFailed { number: 409 });
    assert!(
        message.starts_with(
            "Encountered exception while executing function. Exception = Error: not now\r\nNumber: 409\r\nStack trace: "
        ),
        "{message}"
    );
    assert!(message.contains("at inner (test.js:2:"), "{message}");
    assert!(message.contains("at outer (test.js:3:"), "{message}");
    assert!(!message.contains("bootstrap"), "{message}");
}

#[test]
fn anything_can_be_thrown() {
    let cases = [
        ("throw 'body mismatch'", "Exception = body mismatch\r\n"),
        ("throw { a: 1 }", "Exception = {\"a\":1}\r\n"),
        ("throw 5", "Exception = 5\r\n"),
        ("throw undefined", "Exception = undefined\r\n"),
        ("throw Symbol('x')", "Exception = a value that cannot be shown\r\n"),
        ("throw { toJSON() { throw 1; } }", "Exception = an object that cannot be shown\r\n"),
        ("null.x", "Exception = TypeError: "),
        ("nothing.x", "Exception = ReferenceError: "),
        (
            "throw Object.defineProperty(new Error('x'), 'message', { get() { throw 1; } })",
            "Exception = Error: \r\n",
        ),
        ("throw new Proxy({}, { get() { throw 1; } })", "an object that cannot be shown"),
        (
            "throw Object.assign(new Error(), { message: '\\ud800!' })",
            "Exception = Error: \u{FFFD}!",
        ),
    ];
    for (statement, expected) in cases {
        let (kind, message) =
            failure(&mut MemoryHost::default(), &format!("function () {{ {statement}; }}"));
        assert_eq!(kind, ErrorKind::BadRequest);
        assert!(message.contains(expected), "{statement}: {message}");
    }
}

#[test]
fn only_numbers_that_can_be_a_sub_status_are_one() {
    for (thrown, number) in [
        ("new Error(409, 'x')", Some(409)),
        ("new Error(0, 'x')", Some(0)),
        ("Object.assign(new Error('x'), { number: 7 })", Some(7)),
        ("new Error(-1, 'x')", None),
        ("new Error(1.5, 'x')", None),
        ("new Error(1e20, 'x')", None),
        ("Object.assign(new Error('x'), { number: {} })", None),
        ("{ number: 5 }", None),
        ("new Error('409')", None),
    ] {
        let source = format!("function () {{ throw {thrown}; }}");
        let (kind, _) = failure(&mut MemoryHost::default(), &source);
        let expected = number.map(|number| ErrorKind::ScriptFailed { number });
        assert_eq!(kind, expected.unwrap_or(ErrorKind::BadRequest), "{thrown}");
    }
}

#[test]
fn an_exception_in_a_callback_ends_the_run() {
    let mut host = MemoryHost::default();
    let source = "function () {
        __.createDocument(__.getSelfLink(), { id: 'a' }, () => { throw new Error('in callback'); });
        __.createDocument(__.getSelfLink(), { id: 'b' });
    }";
    assert!(failure(&mut host, source).1.contains("Exception = Error: in callback"));
    assert_eq!(host.asked, ["create"]);
}

#[test]
fn an_abort_ends_the_run_also_where_nothing_else_could() {
    let mut host = MemoryHost::default();
    let caught = "function () { try { getContext().abort(new Error('stop')); } catch (e) {} \
                  __.createDocument(__.getSelfLink(), { id: 'a' }); }";
    assert!(failure(&mut host, caught).1.contains("Exception = Error: stop"));
    assert!(host.asked.is_empty());
    let promised =
        "function () { Promise.resolve().then(() => getContext().abort(new Error('late'))); }";
    assert!(failure(&mut host, promised).1.contains("Exception = Error: late"));
    let looping = "function () { try { getContext().abort('why'); } catch (e) {} for (;;); }";
    assert!(failure(&mut host, looping).1.contains("Exception = why"));
    assert!(
        failure(&mut host, "function () { getContext().abort(); }")
            .1
            .contains("The script was aborted.")
    );
}

#[test]
fn promises_are_settled_and_a_rejected_one_does_not_end_the_run() {
    let source = "async function () {
        const doc = await new Promise((resolve) =>
            __.createDocument(__.getSelfLink(), { id: 'a' }, (err, doc) => resolve(doc)));
        __.response.setBody(doc.id);
        throw new Error('nobody waits for this');
    }";
    let end = run(&mut MemoryHost::default(), source, "[]");
    assert_eq!(end.result.unwrap().unwrap(), "\"a\"");
}

#[test]
fn errors_that_are_not_the_scripts_end_the_run_as_they_are() {
    for kind in [
        ErrorKind::RetryWith,
        ErrorKind::RangeGone,
        ErrorKind::Unavailable,
        ErrorKind::DiskFull,
        ErrorKind::Internal,
    ] {
        let mut host = MemoryHost {
            fails: Some(Error::new(kind.clone(), "as it is")),
            ..MemoryHost::default()
        };
        let source = "function () { __.createDocument(__.getSelfLink(), {}, () => { __.response.setBody(1); }); }";
        assert_eq!(failure(&mut host, source), (kind, "as it is".to_owned()));
    }
}

#[test]
fn long_texts_are_told_shortened() {
    let (_, message) =
        failure(&mut MemoryHost::default(), "function () { throw new Error('x'.repeat(1e6)); }");
    assert!(message.len() < 20_000, "{}", message.len());
}
