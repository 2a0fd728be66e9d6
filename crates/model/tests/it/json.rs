//! The JSON scanner: what it accepts, what it keeps, what it refuses and where.

use partita_model::{
    Document, JsonError, Number, Object, Value, check_names, compact_array, compact_object, json,
};
use proptest::prelude::*;

use crate::generate;

fn refused(text: impl AsRef<[u8]>) -> JsonError {
    let parsed = json::parse(text.as_ref());
    parsed.expect_err(&String::from_utf8_lossy(text.as_ref()))
}

#[test]
fn literals_become_their_values() {
    for (text, value) in [
        ("null", Value::Null),
        (" true ", Value::Bool(true)),
        ("false", Value::Bool(false)),
        ("0", Value::from(0_i64)),
        ("-12", Value::from(-12_i64)),
        ("9223372036854775807", Value::from(i64::MAX)),
        ("9223372036854775808", Value::from(9_223_372_036_854_775_808.0)),
        ("1.5e3", Value::from(1500.0)),
        ("1E-2", Value::from(0.01)),
        ("\"\"", Value::from("")),
        (r#""a\"\\\/\b\f\n\r\tz""#, Value::from("a\"\\/\u{8}\u{c}\n\r\tz")),
        (r#""\u0041\u00e9\uD83D\uDE00""#, Value::from("Aé😀")),
        ("\"\u{2028}\u{2029}\u{85}\"", Value::from("\u{2028}\u{2029}\u{85}")),
        ("[]", Value::Array(Vec::new())),
        ("{}", Value::Object(Object::new())),
    ] {
        assert_eq!(json::parse(text.as_bytes()), Ok(value), "{text}");
    }
}

#[test]
fn minus_zero_keeps_its_sign_and_equals_zero() {
    let Ok(Value::Number(zero)) = json::parse(b"-0") else { panic!("-0 is a number") };
    assert!(zero.as_f64().is_sign_negative());
    assert_eq!(zero, Number::Int(0));
    assert_eq!(zero.to_string(), "-0");
}

#[test]
fn lone_surrogates_stay_in_texts_and_are_replaced_in_strings() {
    for text in [r#""\ud800""#, r#""\udc00""#, r#""\ud800\u0041""#, r#""\ud800\ud800\udc00""#] {
        let parsed = json::parse(text.as_bytes()).unwrap();
        assert!(parsed.as_str().unwrap().starts_with('\u{FFFD}'), "{text}");
        let object = format!("{{\"a\":{text}}}");
        assert_eq!(compact_object(object.as_bytes()), Ok(object));
    }
    assert_eq!(json::parse(br#""\ud800\ud83d\ude00""#), Ok(Value::from("\u{FFFD}😀")));
}

#[test]
fn what_is_not_json_is_refused() {
    for text in [
        "",
        " ",
        "nul",
        "True",
        "NaN",
        "Infinity",
        "-",
        "+1",
        "01",
        "-01",
        "1.",
        ".5",
        "1e",
        "1e+",
        "0x1",
        "1 2",
        "\"",
        "\"\\\"",
        "\"\\x\"",
        "\"\\u12g4\"",
        "\"\\u123",
        "\"\t\"",
        "\"\u{0}\"",
        "'a'",
        "[",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1",
        "{\"a\":1,",
        "{\"a\":1,}",
        "{,}",
        "{a:1}",
        "{1:1}",
        "{\"a\" 1}",
        "{\"a\":1]",
        "[1}",
        "}",
        "// c\n1",
        "1e309",
        "-1e309",
        "[1]x",
        "\u{a0}1",
    ] {
        refused(text);
    }
    refused([b"1".repeat(400).as_slice(), b".0"].concat());
}

#[test]
fn large_numbers_that_still_fit_are_accepted() {
    let long = format!("{}e-300", "1".repeat(500));
    assert!(json::parse(long.as_bytes()).is_ok());
    assert!(json::parse(b"1e308").is_ok());
    assert_eq!(json::parse(b"1e-999"), Ok(Value::from(0.0)));
}

#[test]
fn errors_tell_line_column_and_byte() {
    let error = refused("{\n  \"é\": tru\n}");
    assert_eq!((error.line, error.column, error.byte), (2, 8, 10));
    assert_eq!(error.to_string(), "expected a value ('true'?) at line 2, column 8 (byte 10)");
    let error = refused("[1, 2, 03]");
    assert_eq!(error.to_string(), "a number has a leading zero at line 1, column 8 (byte 7)");
    let error = refused(b"[\"ab\xFF\"]");
    assert_eq!(error.to_string(), "invalid UTF-8 at line 1, column 5 (byte 4)");
    let error = refused(b"\xEF\xBB\xBF{}");
    assert!(error.message.contains("byte order mark"), "{error}");
    let error = Value::parse(b"[1").unwrap_err();
    assert_eq!(error.kind, partita_model::ErrorKind::BadRequest);
    assert!(error.message.contains("line 1, column 3"), "{error}");
}

#[test]
fn the_last_of_duplicate_names_wins_at_every_depth() {
    for (text, kept) in [
        (r#"{"a":1,"a":2}"#, r#"{"a":2}"#),
        (r#"{ "a" : 1.0 , "b":"\u0041", "\u0061" : 2.00 }"#, r#"{"b":"\u0041","\u0061":2.00}"#),
        (
            r#"{"b":{"x":1,"y":[true,null],"x":{"z":1,"z":false}}}"#,
            r#"{"b":{"y":[true,null],"x":{"z":false}}}"#,
        ),
        (r#"{"a":{"d":1,"d":2},"a":[{"e":1,"e":[]}]}"#, r#"{"a":[{"e":[]}]}"#),
        (r#"{"":1,"":2,"":{}}"#, r#"{"":{}}"#),
        (r#"{"a":{"a":1},"b":[{"a":1},{"a":2}]}"#, r#"{"a":{"a":1},"b":[{"a":1},{"a":2}]}"#),
    ] {
        assert_eq!(compact_object(text.as_bytes()).as_deref(), Ok(kept));
        assert_eq!(json::parse(text.as_bytes()), json::parse(kept.as_bytes()));
        let carried = format!("[{text}]");
        assert_eq!(compact_array(carried.as_bytes(), 1), Ok(format!("[{kept}]")));
        assert_eq!(check_names(kept.as_bytes()), Ok(()));
    }
    // What is no JSON is none, whatever came before.
    refused(r#"{"a":1,"a":2"#);
    assert!(compact_object(br#"{"a":1,"a":2}}"#).is_err());
}

#[test]
fn duplicate_names_are_found_by_those_who_ask() {
    for text in [r#"{"a":1,"a":2}"#, r#"{"a":1,"\u0061":2}"#, r#"[{"b":{"x":1,"y":2,"x":3}}]"#] {
        let error = check_names(text.as_bytes()).unwrap_err();
        assert!(error.message.contains("duplicate name"), "{text}");
    }
    assert_eq!(check_names(br#"{"a":1,"\u0061":2}"#).unwrap_err().byte, 7);
    assert_eq!(check_names(br#"{"a":1,"a":2"#), Ok(()), "others will say that it is no JSON");
}

#[test]
fn duplicates_among_very_many_names_are_found() {
    let members: Vec<String> = (0..50_000).map(|n| format!("\"name{n}\":{n}")).collect();
    let distinct = format!("{{{}}}", members.join(","));
    assert_eq!(compact_object(distinct.as_bytes()).as_deref(), Ok(distinct.as_str()));
    let doubled = distinct.replace("\"name40000\"", "\"\\u006eame7\"");
    let kept = doubled.replace("\"name7\":7,", "");
    assert_eq!(compact_object(doubled.as_bytes()).as_deref(), Ok(kept.as_str()));
    let error = check_names(doubled.as_bytes()).unwrap_err();
    assert!(error.message.contains("'name7'"), "{error}");
    assert_eq!(Some(error.byte), doubled.find("\"\\u006eame7\""));
}

#[test]
fn an_array_that_carries_documents_has_levels_of_its_own() {
    let carrier = |n: usize| format!(" [ {{\"d\": {}1.0{} }} ]", "[".repeat(n), "]".repeat(n));
    let compact = compact_array(carrier(128).as_bytes(), 2).unwrap();
    assert_eq!(compact, carrier(128).replace(' ', ""));
    assert!(compact_array(carrier(129).as_bytes(), 2).unwrap_err().message.contains("130"));
    let error = compact_array(b" {}", 2).unwrap_err();
    assert_eq!((error.message.as_str(), error.byte), ("expected an array ('[')", 1));
    let texts: Vec<&str> =
        Document::new("[1,{\"a\":[2]},\"]\"]").elements().map(|raw| raw.text()).collect();
    assert_eq!(texts, ["1", "{\"a\":[2]}", "\"]\""]);
    assert_eq!(Document::new("{\"a\":1}").elements().count(), 0);
}

#[test]
fn nesting_is_accepted_up_to_the_limit_and_refused_beyond() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let nested = |n: usize| format!("{}1{}", open.repeat(n), close.repeat(n));
        assert!(json::parse(nested(128).as_bytes()).is_ok());
        let error = refused(nested(129));
        assert_eq!(error.byte, 128 * open.len());
        assert!(error.message.contains("128"), "{error}");
        refused(open.repeat(100_000));
    }
    // Levels count how deep, not how many.
    assert!(json::parse(format!("[{}[]]", "[],".repeat(1000)).as_bytes()).is_ok());
}

#[test]
fn compaction_drops_space_and_keeps_literals() {
    let text = " {\t\"a b\" :\r\n[ 1.00 , -0.0e+1, \"\\u0041\\/ \u{e9} \" ] , \"\": { } } ";
    let compact = r#"{"a b":[1.00,-0.0e+1,"\u0041\/ é "],"":{}}"#;
    assert_eq!(compact_object(text.as_bytes()).as_deref(), Ok(compact));
    assert_eq!(compact_object(compact.as_bytes()).as_deref(), Ok(compact));
}

#[test]
fn compaction_takes_objects_only() {
    for text in ["[]", "1", "\"a\"", "null", ""] {
        let error = compact_object(text.as_bytes()).unwrap_err();
        assert!(error.message.contains("expected an object"), "{error}");
    }
}

#[test]
fn doubles_are_written_short_and_integers_as_integers() {
    for (double, text) in [
        (0.1, "0.1"),
        (5.0, "5"),
        (-3.0, "-3"),
        (1e300, "1e300"),
        (1e15, "1000000000000000"),
        (1e19, "1e19"),
        (5e-324, "5e-324"),
        (1.7976931348623157e308, "1.7976931348623157e308"),
    ] {
        assert_eq!(Number::Double(double).to_string(), text);
    }
}

#[test]
fn numbers_compare_as_one() {
    assert_eq!(Number::Int(1), Number::Double(1.0));
    assert_ne!(Number::Int(i64::MAX), Number::Double(9_223_372_036_854_775_808.0));
    assert!(Number::Int(i64::MAX) < Number::Double(9_223_372_036_854_775_808.0));
    assert!(Number::Double(1e300) > Number::Int(i64::MAX));
    assert!(Number::Int((1 << 53) + 1) > Number::Double(9_007_199_254_740_992.0));
    assert_eq!(Number::Double(0.5).as_i64(), None);
    assert_eq!(Number::Double(-9_223_372_036_854_775_808.0).as_i64(), Some(i64::MIN));
}

#[test]
fn objects_are_equal_in_any_order() {
    let parse = |text: &str| json::parse(text.as_bytes()).unwrap();
    assert_eq!(parse(r#"{"a":1,"b":2}"#), parse(r#"{"b":2,"a":1.0}"#));
    assert_ne!(parse(r#"{"a":1,"b":2}"#), parse(r#"{"b":1,"a":2}"#));
    assert_ne!(parse(r#"{"a":1}"#), parse(r#"{"a":1,"b":2}"#));
}

proptest! {
    #[test]
    fn a_value_reads_back_from_its_text(value in generate::value()) {
        prop_assert_eq!(json::parse(value.to_json().as_bytes()), Ok(value));
    }

    #[test]
    fn a_value_reads_back_from_any_of_its_texts(value in generate::value(), seed: u64) {
        let text = generate::messy_text(&value, seed);
        prop_assert_eq!(json::parse(text.as_bytes()), Ok(value));
    }

    #[test]
    fn compaction_keeps_the_value(object in generate::object(), seed: u64) {
        let value = Value::Object(object);
        let compact = compact_object(generate::messy_text(&value, seed).as_bytes()).unwrap();
        prop_assert_eq!(json::parse(compact.as_bytes()), Ok(value));
        prop_assert_eq!(compact_object(compact.as_bytes()), Ok(compact.clone()));
    }

    #[test]
    fn any_string_reads_back(text: String) {
        let mut literal = String::new();
        partita_model::write_string(&mut literal, &text);
        prop_assert_eq!(json::parse(literal.as_bytes()), Ok(Value::from(text)));
    }

    #[test]
    fn any_finite_double_reads_back(bits: u64) {
        let double = f64::from_bits(bits);
        prop_assume!(double.is_finite());
        let Ok(Value::Number(read)) = json::parse(Number::Double(double).to_string().as_bytes())
        else { panic!("a number") };
        prop_assert_eq!(read.as_f64().to_bits(), bits);
    }
}
