//! Container definitions: completion, round trips, refusals, and what a replace may change.

use partita_model::{
    ChangeFeedPolicy, ContainerDefinition, Error, ErrorKind, Geospatial, IndexingMode,
    PartitionKeyDefinition, Value,
};

/// A body with an id, a partition key and these members.
fn body(members: &str) -> Value {
    let comma = if members.is_empty() { "" } else { "," };
    let text = format!(
        r#"{{"id":"c","partitionKey":{{"paths":["/pk"],"kind":"Hash",
            "version":2}}{comma}{members}}}"#
    );
    Value::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error} in {text}"))
}

#[track_caller]
fn create(members: &str) -> ContainerDefinition {
    ContainerDefinition::create(&body(members), true)
        .unwrap_or_else(|error| panic!("{members}: {error}"))
}

#[track_caller]
fn refused(members: &str, words: &str) {
    says(ContainerDefinition::create(&body(members), true), members, words);
}

#[track_caller]
fn says(result: Result<ContainerDefinition, Error>, context: &str, words: &str) {
    let error = result.expect_err(context);
    assert_eq!(error.kind, ErrorKind::BadRequest, "{context}: {error}");
    assert!(error.message.contains(words), "{context}: {error}");
}

#[test]
fn a_bare_container_is_completed_with_the_defaults_of_the_service() {
    assert_eq!(
        create("").to_value().to_json(),
        concat!(
            r#"{"id":"c","indexingPolicy":{"indexingMode":"consistent","automatic":true,"#,
            r#""includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/\"_etag\"/?"}]},"#,
            r#""partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},"#,
            r#""uniqueKeyPolicy":{"uniqueKeys":[]},"#,
            r#""conflictResolutionPolicy":{"mode":"LastWriterWins","#,
            r#""conflictResolutionPath":"/_ts","conflictResolutionProcedure":""},"#,
            r#""geospatialConfig":{"type":"Geography"}}"#
        )
    );
}

/// One member of each kind, as clients would send them.
const MEMBERS: &[&str] = &[
    "",
    r#""defaultTtl":-1"#,
    r#""defaultTtl":3600,"analyticalStorageTtl":-1"#,
    r#""analyticalStorageTtl":0"#,
    r#""uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/a","/b/c"]},{"paths":["/\"x y\""]}]}"#,
    r#""conflictResolutionPolicy":{"mode":"LastWriterWins","conflictResolutionPath":"/rank"}"#,
    r#""conflictResolutionPolicy":{"mode":"custom",
        "conflictResolutionProcedure":"dbs/d/colls/c/sprocs/s"}"#,
    r#""conflictResolutionPolicy":{}"#,
    r#""geospatialConfig":{"type":"Geometry"},"indexingPolicy":{"spatialIndexes":[{"path":"/r/?",
        "types":["Polygon"],"boundingBox":{"xmin":0,"ymin":-5.5,"xmax":10,"ymax":10}}]}"#,
    r#""clientEncryptionPolicy":{"includedPaths":[{"path":"/ssn","clientEncryptionKeyId":"k",
        "encryptionType":"Deterministic","encryptionAlgorithm":"AEAD_AES_256_CBC_HMAC_SHA256"}],
        "policyFormatVersion":1}"#,
    r#""clientEncryptionPolicy":{"includedPaths":[{"path":"/id","clientEncryptionKeyId":"k",
        "encryptionType":"Deterministic","encryptionAlgorithm":"AEAD_AES_256_CBC_HMAC_SHA256"}],
        "policyFormatVersion":2}"#,
    r#""changeFeedPolicy":{"retentionDuration":10}"#,
    r#""changeFeedPolicy":{}"#,
    r#""computedProperties":[{"name":"low","query":"SELECT VALUE LOWER(c.x) FROM c"}]"#,
    r#""computedProperties":[]"#,
    r#""vectorEmbeddingPolicy":{"vectorEmbeddings":[{"path":"/v"}]}"#,
    r#""vectorEmbeddingPolicy":{"vectorEmbeddings":[{"path":"/v","dataType":"int8",
        "dimensions":64,"distanceFunction":"dotproduct"}]},
        "indexingPolicy":{"vectorIndexes":[{"path":"/v","type":"diskANN",
        "quantizerType":"product","quantizationByteSize":8,"indexingSearchListSize":50,
        "vectorIndexShardKey":["/city"]}]}"#,
    r#""fullTextPolicy":{"defaultLanguage":"de-DE"}"#,
    r#""fullTextPolicy":{"fullTextPaths":[{"path":"/t"},{"path":"/u","language":"fr-FR"}]},
        "indexingPolicy":{"fullTextIndexes":[{"path":"/t"}]}"#,
    r#""indexingPolicy":{"indexingMode":"none"}"#,
    r#""indexingPolicy":{"indexingMode":"Lazy","automatic":false,
        "includedPaths":[{"path":"/a/?"}],"excludedPaths":[{"path":"/"}]}"#,
    r#""indexingPolicy":{"compositeIndexes":[[{"path":"/a"},{"path":"/b","order":"descending"}]],
        "spatialIndexes":[{"path":"/l/*"}]}"#,
];

#[test]
fn every_definition_reads_back_from_what_it_shows() {
    for members in MEMBERS {
        let definition = create(members);
        let shown = definition.to_value();
        let stored = Value::parse(shown.to_json().as_bytes()).unwrap();
        assert_eq!(ContainerDefinition::from_stored(&stored), Ok(definition.clone()), "{members}");
        assert_eq!(ContainerDefinition::from_stored(&stored).unwrap().to_value(), shown);
        assert_eq!(definition.replace(&stored), Ok(definition), "replaced by itself: {members}");
    }
}

#[test]
fn unknown_members_and_system_properties_are_ignored() {
    let plain = create("");
    let noisy = r#""_rid":"x","_self":5,"_etag":"e","_ts":1,"_docs":"docs/","_new":{"a":[1]},"#;
    assert_eq!(create(&format!("{noisy}\"future\":true")), plain);
    assert_eq!(
        create(r#""defaultTtl":null,"indexingPolicy":null,"computedProperties":null"#),
        plain
    );
}

#[test]
fn the_name_is_required_and_checked() {
    let named = |id: &str| {
        let text = format!(r#"{{"id":{id},"partitionKey":{{"paths":["/pk"]}}}}"#);
        ContainerDefinition::create(&Value::parse(text.as_bytes()).unwrap(), true)
    };
    assert_eq!(named("\"a b\"").unwrap().name, "a b");
    says(named("5"), "5", "'id' must be a string, not a number");
    for bad in [r#""""#, r#""a/b""#, r#""a\\b""#, r#""a?""#, r##""a#""##, r#""a ""#] {
        says(named(bad), bad, "");
    }
    says(named("null"), "null", "'id'");
    says(ContainerDefinition::create(&Value::from("c"), true), "text", "must be an object");
}

#[test]
fn white_space_in_a_new_partition_key_path_must_be_quoted() {
    let text = |path: &str| format!(r#"{{"id":"c","partitionKey":{{"paths":["{path}"]}}}}"#);
    let value = |path: &str| Value::parse(text(path).as_bytes()).unwrap();
    for path in ["/a b", "/a/b c", "/ a", "/a ", r"/a\tb"] {
        let words = "Partition key paths must contain only valid characters and not contain a \
                     trailing slash or wildcard character";
        let value = value(path);
        says(ContainerDefinition::create(&value, true), path, words);
        let stored = ContainerDefinition::from_stored(&value);
        assert!(stored.is_ok(), "containers of former days are read: {stored:?}");
    }
    for path in [r#"/\"a b\"/c"#, "/'a b'", "/$a", "/a-b", "/a.b", "/1", "/ümläut"] {
        ContainerDefinition::create(&value(path), true).expect(path);
    }
}

#[test]
fn a_path_for_times_to_live_needs_times_to_live() {
    let path = r#""ttlPropertyPath":"/created""#;
    refused(path, "'ttlPropertyPath' needs 'defaultTtl'");
    create(&format!(r#"{path},"defaultTtl":10"#));
    create(r#""ttlPropertyPath":null"#);
    let old = create(&format!(r#"{path},"defaultTtl":10"#));
    says(old.replace(&body(path)), path, "'ttlPropertyPath' needs");
}

#[test]
fn without_a_partition_key_old_clients_get_a_system_key() {
    let bare = Value::parse(br#"{"id":"c"}"#).unwrap();
    let definition = ContainerDefinition::create(&bare, false).unwrap();
    assert_eq!(definition.partition_key, PartitionKeyDefinition::system());
    let shown = definition.to_value();
    assert_eq!(ContainerDefinition::from_stored(&shown), Ok(definition.clone()));
    assert_eq!(definition.replace(&shown), Ok(definition));
    says(ContainerDefinition::create(&bare, true), "required", "partitionKey");
}

#[test]
fn times_to_live_are_minus_one_or_positive() {
    assert_eq!(create(r#""defaultTtl":2147483647"#).default_ttl, Some(i32::MAX));
    for bad in ["0", "-10", "2147483648", "1.5"] {
        refused(&format!(r#""defaultTtl":{bad}"#), "'defaultTtl' must be");
    }
    refused(r#""defaultTtl":"60""#, "'defaultTtl' must be an integer, not a string");
    refused(r#""analyticalStorageTtl":-2"#, "'analyticalStorageTtl'");
    refused(
        r#""defaultTtl":60,"indexingPolicy":{"indexingMode":"none"}"#,
        "'defaultTtl' needs an index",
    );
}

#[test]
fn unique_keys_have_limits() {
    let keys = |n: usize, paths: usize| {
        let key = |k: usize| {
            let paths: Vec<String> = (0..paths).map(|p| format!("\"/k{k}/p{p}\"")).collect();
            format!(r#"{{"paths":[{}]}}"#, paths.join(","))
        };
        let keys: Vec<String> = (0..n).map(key).collect();
        format!(r#""uniqueKeyPolicy":{{"uniqueKeys":[{}]}}"#, keys.join(","))
    };
    assert_eq!(create(&keys(10, 16)).unique_keys.len(), 10);
    refused(&keys(11, 1), "11 unique keys; the limit is 10");
    refused(&keys(1, 17), "17 paths");
    refused(&keys(1, 0), "0 paths");
    let policy = |keys: &str| format!(r#""uniqueKeyPolicy":{{"uniqueKeys":{keys}}}"#);
    refused(&policy(r#"[{"paths":["/a","/a"]}]"#), "twice");
    refused(&policy(r#"[{"paths":["/a"]},{"paths":["/a"]}]"#), "twice");
    refused(&policy(r#"[{"paths":["a"]}]"#), "'a'");
    refused(&policy(r#"[{"path":"/a"}]"#), "'paths'");
    refused(&policy("{}"), "'uniqueKeys' must be an array, not an object");
}

#[test]
fn conflict_resolution_members_belong_to_their_mode() {
    let policy = |members: &str| format!(r#""conflictResolutionPolicy":{{{members}}}"#);
    refused(&policy(r#""mode":"FirstWins""#), "'FirstWins'");
    refused(&policy(r#""mode":"Custom","conflictResolutionPath":"/a""#), "LastWriterWins");
    refused(&policy(r#""conflictResolutionProcedure":"s""#), "Custom");
    refused(&policy(r#""conflictResolutionPath":"a""#), "'a'");
}

#[test]
fn client_encryption_is_checked_so_that_clients_can_follow_it() {
    let policy = |path: &str, kind: &str, version: i64| {
        format!(
            r#""clientEncryptionPolicy":{{"includedPaths":[{{"path":"{path}",
                "clientEncryptionKeyId":"k","encryptionType":"{kind}",
                "encryptionAlgorithm":"AEAD_AES_256_CBC_HMAC_SHA256"}}],
                "policyFormatVersion":{version}}}"#
        )
    };
    create(&policy("/a", "Randomized", 1));
    refused(&policy("/a/b", "Randomized", 1), "top-level");
    refused(&policy("/a", "Rot13", 1), "'Rot13'");
    refused(&policy("/a", "Randomized", 3), "policyFormatVersion");
    refused(&policy("/id", "Deterministic", 1), "/id");
    refused(&policy("/id", "Randomized", 2), "/id");
    refused(&policy("/a", "Randomized", 1).replace("AEAD_AES", "AES"), "'AES_256");
    refused(&policy("/a", "Randomized", 1).replace("KeyId", "Key"), "clientEncryptionKeyId");
}

#[test]
fn computed_properties_are_refused_in_the_words_clients_look_for() {
    let words = "One of the specified inputs is invalid";
    let property = |name: &str, query: &str| {
        format!(r#""computedProperties":[{{"name":"{name}","query":"{query}"}}]"#)
    };
    let query = "SELECT VALUE c.x FROM c";
    refused(r#""computedProperties":{"name":"a","query":"SELECT VALUE 1 FROM c"}"#, words);
    refused(r#""computedProperties":["a"]"#, words);
    refused(r#""computedProperties":[{"name":"a"}]"#, words);
    refused(r#""computedProperties":[{"name":"a","query":5}]"#, words);
    for name in ["", "id", "_ts", "_etag", "ttl", "a/b"] {
        refused(&property(name, query), words);
    }
    refused(&property("a", "SELECT c.x FROM c"), words);
    let many: Vec<String> =
        (0..21).map(|i| format!(r#"{{"name":"p{i}","query":"{query}"}}"#)).collect();
    refused(&format!(r#""computedProperties":[{}]"#, many.join(",")), words);
    create(&format!(r#""computedProperties":[{}]"#, many[..20].join(",")));
    let same = [many[0].as_str(), many[0].as_str()].join(",");
    refused(&format!(r#""computedProperties":[{same}]"#), words);
    refused(
        &format!(r#""computedProperties":[{same}]"#),
        "Computed property name 'p0' cannot be used in multiple definitions.",
    );
}

#[test]
fn preview_features_are_refused_by_name() {
    for name in ["globalSecondaryIndexDefinition", "materializedViewDefinition"] {
        let members = format!(r#""{name}":{{"sourceCollectionId":"x"}}"#);
        let error = ContainerDefinition::create(&body(&members), true).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unsupported);
        assert!(error.message.contains(name));
    }
}

#[test]
fn a_replace_may_change_most_policies() {
    let old = create(
        r#""defaultTtl":60,"computedProperties":[{"name":"a","query":"SELECT VALUE 1 FROM c"}]"#,
    );
    let new = old
        .replace(&body(
            r#""indexingPolicy":{"indexingMode":"none"},"changeFeedPolicy":{"retentionDuration":5},
               "geospatialConfig":{"type":"Geometry"},"fullTextPolicy":{"defaultLanguage":"en-US"},
               "conflictResolutionPolicy":{"conflictResolutionPath":"/rank"},
               "analyticalStorageTtl":-1"#,
        ))
        .unwrap();
    assert_eq!(new.indexing.mode(), IndexingMode::None);
    assert_eq!(new.change_feed, Some(ChangeFeedPolicy { retention_minutes: 5 }));
    assert_eq!(new.geospatial, Geospatial::Geometry);
    assert_eq!(new.default_ttl, None, "absent means off");
    assert!(new.computed_properties.is_empty() && new.full_text.is_some());
    assert!(new.to_value().get("computedProperties").is_none());
}

#[test]
fn a_replace_may_not_change_the_name_the_partition_key_or_the_unique_keys() {
    let unique = r#""uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/a"]}]}"#;
    let old = create(unique);
    let replaced = |text: &str| old.replace(&Value::parse(text.as_bytes()).unwrap());
    let key = r#""partitionKey":{"paths":["/pk"],"kind":"Hash","version":2}"#;

    says(replaced(&format!(r#"{{"id":"d",{key}}}"#)), "id", "id of a container cannot be changed");
    says(replaced(&format!("{{{key}}}")), "no id", "'id'");
    says(replaced(r#"{"id":"c"}"#), "no key", "'partitionKey'");
    for other in [
        r#"{"paths":["/key"]}"#,
        r#"{"paths":["/pk"],"version":1}"#,
        r#"{"paths":["/pk"],"kind":"MultiHash","version":2}"#,
    ] {
        let text = format!(r#"{{"id":"c","partitionKey":{other}}}"#);
        says(replaced(&text), other, "partition key of a container cannot be changed");
    }
    let changed = r#""uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/b"]}]}"#;
    says(old.replace(&body(changed)), changed, "unique keys of a container cannot be changed");
    let emptied = r#""uniqueKeyPolicy":{"uniqueKeys":[]}"#;
    says(old.replace(&body(emptied)), emptied, "unique keys");

    // Not every SDK repeats them.
    assert_eq!(old.replace(&body("")), Ok(old.clone()));
    let same = replaced(r#"{"id":"c","partitionKey":{"paths":["/\"pk\""]}}"#).unwrap();
    assert_eq!(same, old, "quoted differently, kind and version left out");
}

#[test]
fn a_replace_keeps_the_conflict_mode_and_must_repeat_the_encryption() {
    let encryption = r#""clientEncryptionPolicy":{"includedPaths":[{"path":"/ssn",
        "clientEncryptionKeyId":"k","encryptionType":"Randomized",
        "encryptionAlgorithm":"AEAD_AES_256_CBC_HMAC_SHA256"}],"policyFormatVersion":1}"#;
    let old = create(&format!(r#"{encryption},"conflictResolutionPolicy":{{"mode":"Custom"}}"#));
    assert_eq!(old.replace(&body(encryption)), Ok(old.clone()));
    says(old.replace(&body("")), "dropped", "client encryption of a container cannot be changed");
    let emptied = r#""clientEncryptionPolicy":{"includedPaths":[]}"#;
    says(
        old.replace(&body(emptied)),
        emptied,
        "client encryption of a container cannot be changed",
    );
    let mode = format!(r#"{encryption},"conflictResolutionPolicy":{{"mode":"LastWriterWins"}}"#);
    says(old.replace(&body(&mode)), &mode, "mode' cannot be changed");
    let none = create("");
    says(none.replace(&body(encryption)), "added", "client encryption");
}
