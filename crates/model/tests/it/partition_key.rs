//! Partition key definitions and headers: what is accepted, what is refused, and in which words.

use partita_model::{
    Document, ErrorKind, HashVersion, KEY_MISMATCH, KeyKind, KeyPart, PartitionKey,
    PartitionKeyDefinition, PartitionKeyHeader, Value, limits,
};

fn parse(text: &str) -> Result<PartitionKeyDefinition, partita_model::Error> {
    PartitionKeyDefinition::parse(&Value::parse(text.as_bytes()).unwrap())
}

fn single() -> PartitionKeyDefinition {
    parse(r#"{"paths":["/pk"],"kind":"Hash","version":2}"#).unwrap()
}

fn three() -> PartitionKeyDefinition {
    parse(r#"{"paths":["/a","/b/c","/d"],"kind":"MultiHash","version":2}"#).unwrap()
}

fn header(text: &str) -> PartitionKeyHeader {
    PartitionKeyHeader::parse(text).unwrap()
}

#[track_caller]
fn refused(text: &str, words: &str) {
    let error = parse(text).expect_err(text);
    assert_eq!(error.kind, ErrorKind::BadRequest, "{text}");
    assert!(error.message.contains(words), "{text}: {error}");
}

#[test]
fn what_is_left_out_of_a_definition_has_the_defaults_of_the_service() {
    let definition = parse(r#"{"paths":["/pk"]}"#).unwrap();
    assert_eq!((definition.kind, definition.version), (KeyKind::Hash, HashVersion::V1));
    let shown = r#"{"paths":["/pk"],"kind":"Hash"}"#;
    assert_eq!(definition.to_value().to_json(), shown, "no version is not made one");
    let multi = parse(r#"{"paths":["/a","/b"],"kind":"multihash"}"#).unwrap();
    assert_eq!((multi.kind, multi.version), (KeyKind::MultiHash, HashVersion::V2));
    assert_eq!(
        parse(r#"{"paths":["/a"],"kind":null,"version":null}"#).unwrap().kind,
        KeyKind::Hash
    );
}

#[test]
fn a_version_may_be_the_name_of_the_java_clients_constant() {
    for (name, version) in [("V1", HashVersion::V1), ("V2", HashVersion::V2)] {
        let text = format!(r#"{{"paths":["/pk"],"version":"{name}"}}"#);
        assert_eq!(parse(&text).unwrap().version, version);
    }
}

#[test]
fn a_definition_is_shown_as_it_was_sent() {
    for text in [
        r#"{"paths":["/pk"],"kind":"Hash","version":2}"#,
        r#"{"paths":["/id"],"kind":"Hash","version":1}"#,
        r#"{"paths":["/id"],"kind":"Hash"}"#,
        r#"{"paths":["/id"],"kind":"Hash","version":2,"systemKey":true}"#,
        r#"{"paths":["/pk"],"kind":"Hash","systemKey":true}"#,
        r#"{"paths":["/a","/b"],"kind":"MultiHash","version":2,"systemKey":true}"#,
        r#"{"paths":["/a b"],"kind":"Hash","version":2}"#,
        r#"{"paths":["/_partitionKey"],"kind":"Hash","version":2}"#,
        r#"{"paths":["/_partitionKey"],"kind":"Hash","systemKey":true}"#,
        r#"{"paths":["/a/b","/\"x y\"/z","/'q'"],"kind":"MultiHash","version":2}"#,
        r#"{"paths":["/\"level' 1*()\"/\"le/vel2\""],"kind":"Hash","version":2}"#,
        r#"{"paths":["/'level\" 1*()'/'le/vel2'"],"kind":"Hash","version":2}"#,
        r#"{"paths":["/a"],"kind":"Range","version":1}"#,
    ] {
        let definition = parse(text).unwrap();
        assert_eq!(definition.to_value().to_json(), text);
        assert_eq!(PartitionKeyDefinition::parse(&definition.to_value()), Ok(definition));
    }
}

#[test]
fn none_is_a_key_wherever_the_key_is_called_the_systems() {
    let definition = parse(r#"{"paths":["/pk"],"version":2,"systemKey":true}"#).unwrap();
    assert!(definition.system_key && !definition.is_keyless(), "it spreads items");
    let undefined = PartitionKey(vec![KeyPart::Undefined]);
    assert_eq!(definition.resolve(&header("[]")), Ok(undefined));
    assert!(definition.resolve(&header(r#"["a"]"#)).is_ok());
    let several = r#"{"paths":["/a","/b"],"kind":"MultiHash","version":2,"systemKey":true}"#;
    assert!(parse(several).unwrap().resolve(&header("[]")).is_err(), "all but a system's key");
}

#[test]
fn the_system_key_is_shown_without_a_version() {
    let system = PartitionKeyDefinition::system();
    let shown = r#"{"paths":["/_partitionKey"],"kind":"Hash","systemKey":true}"#;
    assert_eq!(system.to_value().to_json(), shown);
    assert_eq!(parse(shown).unwrap(), system);
}

#[test]
fn bad_paths_are_refused_in_the_words_of_the_service() {
    for path in ["", "/", "pk", "/pk/", "/pk/*", "/*", "/pk/?", "/a/[]/b", "//a", "/\\\"a"] {
        let text = format!(r#"{{"paths":["{path}"],"kind":"Hash","version":2}}"#);
        refused(
            &text,
            "Partition key paths must contain only valid characters and not contain a trailing \
             slash or wildcard character",
        );
    }
    refused(
        r#"{"paths":["/a","id"],"kind":"MultiHash","version":2}"#,
        "The partition key component definition path 'id' could not be accepted",
    );
}

#[test]
fn definitions_that_make_no_sense_are_refused_by_name() {
    refused(r#""/pk""#, "'partitionKey' must be an object, not a string");
    refused("{}", "'partitionKey' needs the member 'paths'");
    refused(r#"{"paths":"/id"}"#, "'partitionKey.paths' must be an array, not a string");
    refused(r#"{"paths":[5]}"#, "'partitionKey.paths' must be a string, not a number");
    refused(r#"{"paths":[]}"#, "exactly one path");
    refused(r#"{"paths":["/a","/b"]}"#, "exactly one path");
    refused(r#"{"paths":["/a","/b"],"kind":"Range"}"#, "exactly one path");
    refused(r#"{"paths":[],"kind":"MultiHash"}"#, "one to three paths");
    refused(
        r#"{"paths":["/a","/b","/c","/d"],"kind":"MultiHash"}"#,
        "Too many partition key paths (4) specified. A maximum of 3 is allowed.",
    );
    refused(r#"{"paths":["/a","/\"a\""],"kind":"MultiHash"}"#, "twice");
    refused(r#"{"paths":["/a"],"kind":"Hush"}"#, "'Hush'");
    refused(r#"{"paths":["/a"],"kind":2}"#, "'partitionKey.kind' must be a string");
    refused(r#"{"paths":["/a"],"version":3}"#, "must be 1 or 2, it is 3");
    refused(r#"{"paths":["/a"],"version":"2"}"#, "'partitionKey.version' must be an integer");
    refused(r#"{"paths":["/a","/b"],"kind":"MultiHash","version":1}"#, "must be 2");
    refused(r#"{"paths":["/_partitionKey"],"systemKey":1}"#, "must be true or false");
    for name in ["_rid", "_self", "_etag", "_ts", "_attachments"] {
        refused(&format!(r#"{{"paths":["/{name}"]}}"#), "names a system property");
    }
    parse(r#"{"paths":["/a/_ts"]}"#).expect("only the top level is the system's");
}

#[test]
fn headers_are_json_arrays_of_scalars() {
    let text = |text: &str| KeyPart::String(text.to_owned());
    for (sent, parts) in [
        (r#"["a"]"#, vec![text("a")]),
        (r#"[ "a" , 5 ]"#, vec![text("a"), KeyPart::Number(5.0)]),
        ("[5.5]", vec![KeyPart::Number(5.5)]),
        ("[true]", vec![KeyPart::Bool(true)]),
        ("[null]", vec![KeyPart::Null]),
        ("[{}]", vec![KeyPart::Undefined]),
        ("[]", vec![]),
        (r#"["\u041f\ud83d\ude00"]"#, vec![text("П😀")]),
        (r#"["П😀"]"#, vec![text("П😀")]),
        (r#"[""]"#, vec![text("")]),
        (r#"["a","b"]"#, vec![text("a"), text("b")]),
        (r#"["a\"b\\"]"#, vec![text("a\"b\\")]),
    ] {
        assert_eq!(header(sent).0, parts, "{sent}");
    }
    for bad in [
        "",
        "a",
        "5",
        "{}",
        "[[1]]",
        r#"[{"x":1}]"#,
        "[NaN]",
        "[1",
        "[1e999]",
        "[] []",
        "[\"]",
        "[\"a\nb\"]",
        "[\"\\\"]",
    ] {
        let error = PartitionKeyHeader::parse(bad).expect_err(bad);
        assert_eq!(error.kind, ErrorKind::BadRequest, "{bad}");
    }
}

#[test]
fn a_key_is_written_as_an_ascii_header_that_reads_back() {
    let key = PartitionKey(vec![
        KeyPart::String("a\"\\\n\u{7f}П😀".to_owned()),
        KeyPart::Number(5.0),
        KeyPart::Number(-0.5),
        KeyPart::Number(1e300),
        KeyPart::Number(9007199254740992.0),
        KeyPart::Bool(false),
        KeyPart::Null,
        KeyPart::Undefined,
    ]);
    let written = key.to_header_json();
    assert!(written.bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{written}");
    assert!(written.ends_with(",5,-0.5,1e300,9007199254740992.0,false,null,{}]"), "{written}");
    assert_eq!(header(&written).0, key.0);
}

#[test]
fn the_key_of_a_document_is_undefined_unless_a_scalar_stands_at_the_path() {
    let definition = three();
    let key = |text: &str| definition.extract(Document::new(text)).to_header_json();
    assert_eq!(key(r#"{"a":"x","b":{"c":1},"d":null}"#), r#"["x",1,null]"#);
    assert_eq!(key(r#"{"a":true,"b":5,"d":{}}"#), "[true,{},{}]", "through a scalar; an object");
    assert_eq!(key(r#"{"a":[1],"b":{"c":[]}}"#), "[{},{},{}]", "arrays; absent");
    assert_eq!(key(r#"{"b":[{"c":1}]}"#), "[{},{},{}]", "paths do not go through arrays");
}

#[test]
fn a_point_operation_needs_every_component() {
    assert_eq!(single().resolve(&header(r#"["x"]"#)).unwrap().to_header_json(), r#"["x"]"#);
    assert_eq!(three().resolve(&header("[1,{},null]")).unwrap().to_header_json(), "[1,{},null]");
    for (definition, sent) in [
        (single(), "[]"),
        (single(), "[1,2]"),
        (three(), "[]"),
        (three(), "[1]"),
        (three(), "[1,2]"),
        (three(), "[1,2,3,4]"),
    ] {
        let error = definition.resolve(&header(sent)).expect_err(sent);
        assert_eq!(error.kind, ErrorKind::PartitionKeyMismatch);
        assert_eq!(error.message, KEY_MISMATCH);
    }
}

#[test]
fn the_empty_header_on_a_system_key_means_undefined() {
    let system = PartitionKeyDefinition::system();
    let undefined = PartitionKey(vec![KeyPart::Undefined]);
    assert_eq!(system.resolve(&header("[]")), Ok(undefined.clone()));
    assert_eq!(system.resolve(&header("[{}]")), Ok(undefined.clone()));
    assert_eq!(system.extract(Document::new(r#"{"id":"1"}"#)), undefined);
    assert!(system.resolve(&header(r#"["x"]"#)).is_ok());
}

#[test]
fn queries_may_name_a_prefix_of_a_hierarchical_key_only() {
    let definition = three();
    let full = definition.range_of(&header("[1,2,3]")).unwrap();
    let two = definition.range_of(&header("[1,2]")).unwrap();
    let one = definition.range_of(&header("[1]")).unwrap();
    let all = definition.range_of(&header("[]")).unwrap();
    let within = |inner: &partita_model::EpkRange, outer: &partita_model::EpkRange| {
        outer.min <= inner.min && inner.max <= outer.max
    };
    assert!(within(&full, &two) && within(&two, &one) && within(&one, &all));
    assert!(!within(&definition.range_of(&header("[2,2]")).unwrap(), &one));
    for (definition, sent) in [(three(), "[1,2,3,4]"), (single(), "[1,2]")] {
        let error = definition.range_of(&header(sent)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::PartitionKeyMismatch);
    }
}

#[test]
fn strings_beyond_the_limit_are_refused() {
    let v1 = parse(r#"{"paths":["/pk"],"version":1}"#).unwrap();
    let longest = "a".repeat(limits::PARTITION_KEY_BYTES_MAX);
    for definition in [single(), v1] {
        let fits = header(&format!(r#"["{longest}"]"#));
        let key = definition.resolve(&fits).unwrap();
        assert_eq!(definition.check_size(&key), Ok(()));
        let long = header(&format!(r#"["{longest}a"]"#));
        for error in
            [definition.resolve(&long).unwrap_err(), definition.range_of(&long).unwrap_err()]
        {
            assert_eq!(error.kind, ErrorKind::BadRequest);
            assert!(error.message.contains("2049") && error.message.contains("2048"), "{error}");
        }
    }
    // Bytes, not characters.
    let umlauts = "ä".repeat(1025);
    single().resolve(&header(&format!(r#"["{umlauts}"]"#))).unwrap_err();
}
