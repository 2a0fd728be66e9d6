//! Documents and values on their way between the database and a script.

use crate::host::{MemoryHost, answer, run, value};

/// A document after a script has read it and written it back under another id.
#[track_caller]
fn copied(text: &str) -> String {
    let mut host = MemoryHost::with_items(&[&format!(r#"{{"id":"a","v":{text}}}"#)]);
    let source = r#"function () {
        __.readDocument(__.getAltLink() + '/docs/a', (err, doc) => __.response.setBody(doc.v));
    }"#;
    answer(&mut host, source)
}

#[test]
fn values_keep_their_text() {
    for text in [
        "null",
        "true",
        "0",
        "-1.5",
        "1e+300",
        "9007199254740991",
        "\"\"",
        "\"\u{e9}\u{1F600}\\n\\\"\"",
        "\"\u{2028}\u{2029}\u{85}\"",
        "[]",
        "{}",
        "[[1,[2]],{\"a\":{\"b\":[null]}}]",
        "{\"__proto__\":{\"x\":1},\"constructor\":2,\"toString\":3}",
        "{\"b\":1,\"a\":2}",
    ] {
        assert_eq!(copied(text), text);
    }
}

#[test]
fn integers_beyond_the_precision_of_doubles_are_rounded() {
    assert_eq!(copied("9007199254740993"), "9007199254740992");
    assert_eq!(copied("-0"), "0");
}

#[test]
fn a_member_that_is_called_proto_is_a_member_like_others() {
    let end = run(
        &mut MemoryHost::default(),
        "function (doc) { __.response.setBody([doc.x === undefined, Object.keys(doc), ({}).x === undefined]); }",
        r#"[{"__proto__":{"x":1}}]"#,
    );
    assert_eq!(end.result.unwrap().unwrap(), r#"[true,["__proto__"],true]"#);
}

#[test]
fn half_characters_are_kept_as_escapes() {
    let end = run(
        &mut MemoryHost::default(),
        "function (s) { __.response.setBody([s, s.length, s.charCodeAt(0), s.charCodeAt(1)]); }",
        r#"["\ud800\udc01\udfff"]"#,
    );
    assert_eq!(end.result.unwrap().unwrap(), "[\"\u{10001}\\udfff\",3,55296,56321]");
    assert_eq!(value("'\\ud800'"), "\"\\ud800\"");
}

#[test]
fn members_come_in_the_order_that_the_language_gives_them() {
    assert_eq!(copied(r#"{"b":1,"10":2,"9":3}"#), r#"{"9":3,"10":2,"b":1}"#);
}

#[test]
fn what_json_has_no_word_for_is_left_out() {
    assert_eq!(
        value("{ a: undefined, b() {}, c: Symbol(), d: NaN, e: [undefined], f: new Date(0) }"),
        r#"{"d":null,"e":[null],"f":"1970-01-01T00:00:00.000Z"}"#
    );
}

#[test]
fn deep_documents_can_be_read_and_deeper_ones_end_with_an_error() {
    let deep = format!("{}1{}", "[".repeat(120), "]".repeat(120));
    assert_eq!(copied(&deep), deep);
    let mut host = MemoryHost::default();
    let source = "function () { let x = []; for (let i = 0; i < 1e5; i++) x = [x]; __.response.setBody(x); }";
    let error = run(&mut host, source, "[]").result.unwrap_err();
    assert!(error.message.contains("RangeError"), "{}", error.message);
    let circle = "function () { const x = {}; x.x = x; __.response.setBody(x); }";
    assert!(run(&mut host, circle, "[]").result.unwrap_err().message.contains("TypeError"));
}
