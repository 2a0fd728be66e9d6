//! Indexing policies: completion, the words of refusals, vectors, texts and shapes.

use partita_model::{
    ContainerDefinition, Error, ErrorKind, IndexEnd, IndexPath, IndexingMode, IndexingPolicy,
    Object, Step, Value,
};
use proptest::prelude::*;

fn parse(text: &str) -> Result<IndexingPolicy, Error> {
    IndexingPolicy::parse(&Value::parse(text.as_bytes()).unwrap())
}

/// A container with these members beside its id and key.
fn container(members: &str) -> Result<ContainerDefinition, Error> {
    ContainerDefinition::create(&body(members), true)
}

fn body(members: &str) -> Value {
    let text = format!(r#"{{"id":"c","partitionKey":{{"paths":["/id"],"version":2}},{members}}}"#);
    Value::parse(text.as_bytes()).unwrap()
}

#[track_caller]
fn says<T: std::fmt::Debug>(result: Result<T, Error>, words: &str) {
    let error = result.expect_err(words);
    assert_eq!(error.kind, ErrorKind::BadRequest, "{error}");
    assert!(error.message.contains(words), "{error}");
}

fn texts(paths: &[IndexPath]) -> Vec<&str> {
    paths.iter().map(|path| path.text()).collect()
}

#[test]
fn partial_policies_are_completed_in_the_same_way() {
    for text in [
        "{}",
        r#"{"indexingMode":"consistent"}"#,
        r#"{"indexingMode":"Consistent","automatic":true}"#,
        r#"{"includedPaths":[{"path":"/*"}]}"#,
        r#"{"includedPaths":[{"path":"/"}]}"#,
        r#"{"includedPaths":[{"path":"/*","indexes":[{"kind":"Hash","dataType":"String"},
            {"kind":"Range","dataType":"Number","precision":-1}]}]}"#,
        r#"{"includedPaths":[],"excludedPaths":[]}"#,
        r#"{"excludedPaths":[{"path":"/\"_etag\"/?"}]}"#,
        r#"{"compositeIndexes":[],"spatialIndexes":[],"vectorIndexes":[],"fullTextIndexes":[]}"#,
    ] {
        let policy = parse(text).unwrap();
        assert_eq!(policy, IndexingPolicy::default(), "{text}");
        assert_eq!(texts(policy.included()), ["/*"]);
        assert_eq!(texts(policy.excluded()), ["/\"_etag\"/?"]);
    }
}

#[test]
fn the_etag_is_excluded_exactly_once() {
    let excluded = |text: &str| -> Vec<String> {
        texts(parse(text).unwrap().excluded()).into_iter().map(str::to_owned).collect()
    };
    assert_eq!(
        excluded(
            r#"{"includedPaths":[{"path":"/"}],"excludedPaths":[{"path":"/\"systemMetadata\"/*"}]}"#
        ),
        ["/\"systemMetadata\"/*", "/\"_etag\"/?"]
    );
    assert_eq!(
        excluded(r#"{"excludedPaths":[{"path":"/*"},{"path":"/\"_etag\"/?"}]}"#),
        ["/*", "/\"_etag\"/?"]
    );
    assert_eq!(excluded(r#"{"excludedPaths":[{"path":"/_etag/*"}]}"#), ["/_etag/*"]);
    let wanted = parse(r#"{"includedPaths":[{"path":"/*"},{"path":"/_etag/?"}]}"#).unwrap();
    assert!(wanted.excluded().is_empty(), "who includes it gets it");
    assert!(wanted.indexes(&[Step::Member("_etag".into())]));
}

#[test]
fn one_list_has_to_name_the_root() {
    says(parse(r#"{"includedPaths":[{"path":"/a/?"}]}"#), "\"/*\" is not provided in any");
    let policy = parse(r#"{"includedPaths":[{"path":"/a/?"}],"excludedPaths":[{"path":"/*"}]}"#);
    assert_eq!(texts(policy.unwrap().included()), ["/a/?"]);
    let policy = parse(r#"{"excludedPaths":[{"path":"/a/*"}]}"#).unwrap();
    assert_eq!(texts(policy.included()), ["/*"], "only exclusions: the rest is included");
}

#[test]
fn bad_paths_and_lists_are_refused_by_name() {
    let included = |paths: &str| parse(&format!(r#"{{"includedPaths":[{paths}]}}"#));
    says(included(r#"{"path":"/*"},{"path":"/a"}"#), "'/a'");
    says(included(r#"{"path":"*"}"#), "'*'");
    says(included(r#"{"path":"/*/a/?"}"#), "'/*/a/?'");
    says(included(r#"{"path":"/*"},{"path":"/a/?"},{"path":"/\"a\"/?"}"#), "twice");
    says(included(r#"{"path":5}"#), "'path' must be a string, not a number");
    says(included(r#""/*""#), "'includedPaths' must be an object, not a string");
    says(included(r#"{"indexes":[]}"#), "needs the member 'path'");
    says(
        parse(r#"{"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/*"}]}"#),
        "The indexing policy names the path /* twice",
    );
    says(parse(r#"{"indexingMode":"eager"}"#), "'eager'");
    says(parse(r#"{"indexingMode":1}"#), "'indexingMode' must be a string");
    says(parse(r#"{"automatic":"yes"}"#), "'indexingPolicy.automatic' must be true or false");
    says(parse("[]"), "'indexingPolicy' must be an object, not an array");
    let many: Vec<String> = (0..1500).map(|i| format!(r#"{{"path":"/p{i}/?"}}"#)).collect();
    let many = many.join(",");
    says(included(&format!(r#"{many},{{"path":"/*"}}"#)), "1501 paths; the limit is 1500");
    let tuple = included(r#"{"path":"/*"},{"path":"/a/[]/{b, c}/?"}"#).unwrap_err();
    assert_eq!(tuple.kind, ErrorKind::Unsupported);
}

#[test]
fn mode_none_indexes_nothing_and_turns_automatic_off() {
    for text in [r#"{"indexingMode":"none"}"#, r#"{"indexingMode":"None","automatic":true}"#] {
        let policy = parse(text).unwrap();
        assert_eq!((policy.mode(), policy.automatic()), (IndexingMode::None, false));
        assert!(!policy.indexes(&[Step::Member("a".into())]));
        assert!(!policy.indexes(&[Step::Member("id".into())]));
        assert_eq!(
            policy.to_value().to_json(),
            r#"{"indexingMode":"none","automatic":false,"includedPaths":[],"excludedPaths":[]}"#
        );
    }
}

#[test]
fn id_and_timestamp_are_always_indexed() {
    let policy = parse(r#"{"excludedPaths":[{"path":"/*"}]}"#).unwrap();
    for (name, indexed) in [("id", true), ("_ts", true), ("_etag", false), ("a", false)] {
        assert_eq!(policy.indexes(&[Step::Member(name.into())]), indexed, "{name}");
    }
    assert!(!policy.indexes(&[Step::Member("a".into()), Step::Member("id".into())]));
}

#[test]
fn a_composite_index_through_an_array_is_not_supported() {
    let wild = parse(r#"{"compositeIndexes":[[{"path":"/a/[]/b"},{"path":"/c"}]]}"#).unwrap_err();
    assert_eq!(wild.kind, ErrorKind::Unsupported);
    assert!(wild.message.contains("/a/[]/b"), "{wild}");
}

#[test]
fn composite_and_spatial_indexes_are_shown_as_sent() {
    let text = concat!(
        r#"{"indexingMode":"consistent","automatic":true,"includedPaths":[{"path":"/*"}],"#,
        r#""excludedPaths":[{"path":"/\"_etag\"/?"}],"compositeIndexes":["#,
        r#"[{"path":"/path1","order":"ascending"},{"path":"/path2","order":"descending"}],"#,
        r#"[{"path":"/a/b","order":"ascending"},{"path":"/\"c d\"/?","order":"ascending"}]],"#,
        r#""spatialIndexes":[{"path":"/path0/*","types":["Point","LineString","Polygon","#,
        r#""MultiPolygon"]}]}"#
    );
    assert_eq!(parse(text).unwrap().to_value().to_json(), text);
    let shuffled = parse(
        r#"{"spatialIndexes":[{"path":"/l/*","types":["MultiPolygon","polygon","Point",
            "Point"]}]}"#,
    );
    let shown = shuffled.unwrap().to_value();
    let shown = shown.get("spatialIndexes").unwrap().to_json();
    let all = r#"[{"path":"/l/*","types":["Point","LineString","Polygon","MultiPolygon"]}]"#;
    assert_eq!(shown, all, "the types are completed");
}

#[test]
fn legacy_indexes_are_shown_again_but_for_the_whole_item() {
    let old = r#""indexes":[{"kind":"Range","dataType":"Number","precision":-1}]"#;
    let policy = |path: &str| {
        parse(&format!(
            r#"{{"includedPaths":[{{"path":"{path}",{old}}}],"excludedPaths":[{{"path":"/x/?"}}]}}"#
        ))
    };
    let shown =
        |path: &str| policy(path).unwrap().to_value().get("includedPaths").unwrap().to_json();
    assert_eq!(shown("/*"), r#"[{"path":"/*"}]"#);
    assert_eq!(shown("/"), r#"[{"path":"/*"}]"#);
    let both = format!(
        r#"{{"includedPaths":[{{"path":"/*",{old}}},{{"path":"/a/?",{old}}},{{"path":"/b/?",
        "indexes":[]}}]}}"#
    );
    let read = parse(&both).unwrap();
    let shown = read.to_value().get("includedPaths").unwrap().to_json();
    assert_eq!(shown, format!(r#"[{{"path":"/*"}},{{"path":"/a/?",{old}}},{{"path":"/b/?"}}]"#));
    assert_eq!(parse(&read.to_value().to_json()), Ok(read), "after a restart, too");
    says(parse(r#"{"includedPaths":[{"path":"/*","indexes":5}]}"#), "must be an array");
}

#[test]
fn lazy_and_manual_indexes_are_shown_as_what_they_are() {
    for text in [
        r#"{"indexingMode":"lazy"}"#,
        r#"{"indexingMode":"Lazy","automatic":false}"#,
        r#"{"indexingMode":"consistent","automatic":false}"#,
    ] {
        let policy = container(&format!(r#""indexingPolicy":{text}"#)).unwrap().indexing;
        assert_eq!(policy, IndexingPolicy::default(), "{text}");
        let shown = policy.to_value().to_json();
        assert!(shown.contains(r#""indexingMode":"consistent","automatic":true"#), "{shown}");
    }
    let stored = parse(r#"{"automatic":false}"#).unwrap();
    assert!(!stored.automatic(), "items were written under it");
}

#[test]
fn bad_composite_indexes_are_refused() {
    let composite = |columns: &str| parse(&format!(r#"{{"compositeIndexes":[[{columns}]]}}"#));
    says(composite(r#"{"path":"/a"}"#), "1 paths; it needs 2 to 8");
    let nine: Vec<String> = (0..9).map(|i| format!(r#"{{"path":"/p{i}"}}"#)).collect();
    says(composite(&nine.join(",")), "9 paths");
    assert!(composite(&nine[..8].join(",")).is_ok());
    says(composite(r#"{"path":"/a"},{"path":"/a"}"#), "twice");
    says(composite(r#"{"path":"/a"},{"path":"/b/*"}"#), "/b/*");
    says(composite(r#"{"path":"/a"},{"path":"b"}"#), "b");
    says(composite(r#"{"path":"/a"},{"path":"/b","order":"up"}"#), "'up'");
    says(parse(r#"{"compositeIndexes":[{"path":"/a"}]}"#), "'compositeIndexes' must be an array");
    let pair = |i: usize| format!(r#"[{{"path":"/a{i}"}},{{"path":"/b"}}]"#);
    let pairs = |n: usize| (0..n).map(pair).collect::<Vec<String>>().join(",");
    assert!(parse(&format!(r#"{{"compositeIndexes":[{}]}}"#, pairs(100))).is_ok());
    says(parse(&format!(r#"{{"compositeIndexes":[{}]}}"#, pairs(101))), "101 entries");
    says(parse(&format!(r#"{{"compositeIndexes":[{},{}]}}"#, pair(1), pair(1))), "twice");
}

#[test]
fn a_bounding_box_belongs_to_geometry() {
    let spatial = |config: &str, bounds: &str| {
        container(&format!(
            r#"{config}"indexingPolicy":{{"spatialIndexes":[{{"path":"/r/?",
                "types":["Polygon"]{bounds}}}]}}"#
        ))
    };
    let geometry = r#""geospatialConfig":{"type":"Geometry"},"#;
    let square = r#","boundingBox":{"xmin":0,"ymin":0,"xmax":10,"ymax":10}"#;
    assert!(spatial(geometry, square).is_ok());
    assert!(spatial("", "").is_ok());
    says(spatial(geometry, ""), "boundingBox");
    says(spatial(geometry, ""), "Geometry");
    says(spatial("", square), "boundingBox");
    says(spatial("", square), "Geography");
    says(spatial(geometry, &square.replace("10", "0")), "xmin must be less than xmax");
    says(spatial(geometry, r#","boundingBox":{"xmin":0}"#), "'ymin'");
    says(container(r#""geospatialConfig":{"type":"Flat"}"#), "'Flat'");
    says(
        spatial("", "").and_then(|_| {
            container(r#""indexingPolicy":{"spatialIndexes":[{"path":"/r/?","types":[]}]}"#)
        }),
        "The spatial data types array cannot be empty. Assign at least one spatial type for the \
         'types' array for the path",
    );
    says(
        container(r#""indexingPolicy":{"spatialIndexes":[{"path":"/r/?","types":["Circle"]}]}"#),
        "'Circle'",
    );
}

const EMBEDDINGS: &str = r#""vectorEmbeddingPolicy":{"vectorEmbeddings":[
    {"path":"/vector1","dataType":"float32","dimensions":256,"distanceFunction":"euclidean"},
    {"path":"/vector2","dataType":"int8","dimensions":200,"distanceFunction":"dotproduct"}]}"#;

fn vector_index(index: &str) -> Result<ContainerDefinition, Error> {
    container(&format!(r#"{EMBEDDINGS},"indexingPolicy":{{"vectorIndexes":[{index}]}}"#))
}

#[test]
fn vector_indexes_are_shown_as_sent() {
    let indexes = concat!(
        r#"[{"path":"/vector1","type":"flat"},"#,
        r#"{"path":"/vector2","type":"diskANN","quantizerType":"spherical","#,
        r#""quantizationByteSize":8,"indexingSearchListSize":50,"#,
        r#""vectorIndexShardKey":["/country/city"]}]"#
    );
    let definition = vector_index(&indexes[1..indexes.len() - 1]).unwrap();
    let shown = definition.to_value();
    let policy = shown.get("indexingPolicy").unwrap();
    assert_eq!(policy.get("vectorIndexes").unwrap().to_json(), indexes);
    let sent = body(EMBEDDINGS);
    assert_eq!(shown.get("vectorEmbeddingPolicy"), sent.get("vectorEmbeddingPolicy"));
}

#[test]
fn vector_indexes_are_refused_in_the_words_of_the_service() {
    says(
        container(r#""indexingPolicy":{"vectorIndexes":[{"path":"/vector1","type":"flat"}]}"#),
        "The Vector Indexing Policy's path::/vector1 not matching in Embedding's path.",
    );
    says(
        vector_index(r#"{"path":"/vector3","type":"flat"}"#),
        "vector3 not matching in Embedding's path",
    );
    says(vector_index(r#"{"path":"/vector1","type":"notFlat"}"#), "Index Type::notFlat is invalid");
    says(
        vector_index(r#"{"path":"/vector1","type":"quantizedFlat","quantizationByteSize":0}"#),
        "The Vector Indexing Policy parameter QuantizationByteSize value :: 0 is out of range. \
         The allowed range is between 1 and 256.",
    );
    says(
        vector_index(r#"{"path":"/vector1","type":"diskANN","indexingSearchListSize":5}"#),
        "IndexingSearchListSize value :: 5 is out of range. The allowed range is \
         between 25 and 500.",
    );
    says(
        vector_index(r#"{"path":"/vector2","type":"diskANN","vectorIndexShardKey":["country"]}"#),
        "The Vector Indexing Policy has an invalid Shard Path: country.",
    );
    says(
        vector_index(
            r#"{"path":"/vector2","type":"diskANN","vectorIndexShardKey":["/a","/b","/c"]}"#,
        ),
        "The number of shard paths defined in the Vector Indexing Policy: 3 exceeds the \
         maximum: 1.",
    );
    says(
        vector_index(r#"{"path":"/vector2","type":"diskANN","vectorIndexShardKey":"/country"}"#),
        "One of the specified inputs is invalid",
    );
    says(
        vector_index(r#"{"path":"/vector2","type":"diskANN","quantizerType":"x"}"#),
        "::x is invalid",
    );
    says(
        vector_index(r#"{"path":"/vector1","type":"flat"},{"path":"/vector1","type":"diskANN"}"#),
        "twice",
    );
    let wide = |index: &str| {
        container(&format!(
            r#""vectorEmbeddingPolicy":{{"vectorEmbeddings":[{{"path":"/v","dimensions":550}}]}},
                "indexingPolicy":{{"vectorIndexes":[{index}]}}"#
        ))
    };
    says(
        wide(r#"{"path":"/v","type":"quantizedFlat","quantizationByteSize":513}"#),
        "The Vector Indexing Policy parameter QuantizationByteSize value :: 513 is out of range. \
         The allowed range is between 1 and 512.",
    );
    says(wide(r#"{"path":"/v","type":"flat"}"#), "at most 505 dimensions");
}

#[test]
fn embeddings_are_refused_in_the_words_of_the_service() {
    let embedding = |members: &str| {
        container(&format!(
            r#""vectorEmbeddingPolicy":{{"vectorEmbeddings":[{{"path":"/v",{members}}}]}}"#
        ))
    };
    for kind in ["float32", "float16", "int8", "uint8"] {
        let definition = embedding(&format!(r#""dataType":"{kind}""#)).unwrap();
        assert!(definition.to_value().to_json().contains(&format!(r#""dataType":"{kind}""#)));
    }
    says(embedding(r#""dataType":"float33""#), "Vector Embedding Policy has an invalid DataType");
    says(
        embedding(r#""dimensions":8000"#),
        "Vector Embedding Policy has Dimensions:8000 which is more than the maximum supported \
         value",
    );
    says(embedding(r#""dimensions":-1"#), "The Vector Embedding Policy has Dimensions:-1");
    says(embedding(r#""dimensions":0"#), "Dimensions:0");
    assert!(embedding(r#""dimensions":4096"#).is_ok());
    says(
        embedding(r#""distanceFunction":"handMeasured""#),
        "The Vector Embedding Policy has an invalid DistanceFunction:handMeasured",
    );
    says(
        container(r#""vectorEmbeddingPolicy":{"vectorEmbeddings":[{"path":"v"}]}"#),
        "The Vector Embedding Policy has an invalid Path:v",
    );
    says(
        container(r#""vectorEmbeddingPolicy":{"vectorEmbeddings":[{"path":"/v/*"}]}"#),
        "The Vector Embedding Policy has an invalid Path:/v/*",
    );
    let source = |auth: &str, paths: &str| {
        embedding(&format!(
            r#""embeddingSource":{{"sourcePaths":{paths},"deploymentName":"d","modelName":"m",
                "endpoint":"https://e","authType":"{auth}"}}"#
        ))
    };
    says(
        source("NotAnAuthType", r#"["/a"]"#),
        "The auth type provided in the embedding source of vector policy is invalid.",
    );
    says(source("ApiKey", "[]"), "'sourcePaths'");
    let sound = source("ApiKey", r#"["/a"]"#).unwrap_err();
    assert_eq!(sound.kind, ErrorKind::Unsupported);
}

#[test]
fn a_replace_may_add_and_remove_vectors_but_not_change_them() {
    let with = |embeddings: &str, indexes: &str| {
        body(&format!(
            r#""vectorEmbeddingPolicy":{{"vectorEmbeddings":[{embeddings}]}},
                "indexingPolicy":{{"vectorIndexes":[{indexes}]}}"#
        ))
    };
    let a = r#"{"path":"/a","dimensions":256}"#;
    let b = r#"{"path":"/b","dimensions":256}"#;
    let flat = r#"{"path":"/a","type":"flat"}"#;
    let old = ContainerDefinition::create(&with(a, flat), true).unwrap();
    says(
        old.replace(&body(&format!(r#""indexingPolicy":{{"vectorIndexes":[{flat}]}}"#))),
        "The Vector Indexing Policy's path::/a not matching in Embedding's path.",
    );
    says(
        old.replace(&with(a, r#"{"path":"/a","type":"quantizedFlat"}"#)),
        "Paths in existing vector indexing policy cannot be modified in Collection Replace",
    );
    says(
        old.replace(&with(r#"{"path":"/a","dimensions":384}"#, flat)),
        "Paths in existing embedding policy cannot be modified in Collection Replace",
    );
    let both = r#"{"path":"/b","type":"diskANN"},{"path":"/a","type":"flat"}"#;
    let grown = old.replace(&with(&format!("{b},{a}"), both)).unwrap();
    assert_eq!(grown.indexing.vector().len(), 2);
    let shrunk = grown.replace(&with(a, "")).unwrap();
    assert!(shrunk.indexing.vector().is_empty());
}

#[test]
fn full_text_policies_are_refused_in_the_words_of_the_service() {
    let policy = |text: &str| container(&format!(r#""fullTextPolicy":{text}"#));
    says(
        policy(r#"{"defaultLanguage":"en-US","fullTextPaths":[{"path":"abstract"}]}"#),
        "The Full Text Policy contains an invalid Path: abstract",
    );
    for bad in [
        r#"{"defaultLanguage":"spa-SPA"}"#,
        r#"{"defaultLanguage":"EN-us"}"#,
        r#"{"fullTextPaths":[{"path":"/a","language":"spa-SPA"}]}"#,
    ] {
        says(policy(bad), "The Full Text Policy contains an unsupported language");
    }
    says(policy(r#"{"fullTextPaths":[{"path":"/a"},{"path":"/a"}]}"#), "twice");
    for code in ["en-US", "de-DE", "es-ES", "fr-FR", "it-IT", "pt-BR", "pt-PT"] {
        let path = format!(r#"{{"path":"/a","language":"{code}"}}"#);
        let text = format!(r#"{{"defaultLanguage":"{code}","fullTextPaths":[{path}]}}"#);
        let shown = policy(&text).unwrap().to_value();
        assert_eq!(shown.get("fullTextPolicy").unwrap().to_json(), text);
    }
}

#[test]
fn a_language_may_be_the_number_of_a_locale() {
    for written in ["1033", r#""1033""#, "1031", r#""3082""#, "1036", "1040", "1046", "2070"] {
        let text = format!(
            r#"{{"defaultLanguage":{written},"fullTextPaths":[{{"path":"/a","language":{written}}}]}}"#
        );
        let shown = container(&format!(r#""fullTextPolicy":{text}"#)).unwrap().to_value();
        assert_eq!(shown.get("fullTextPolicy").unwrap().to_json(), text, "as it was sent");
    }
    let other = r#""fullTextPolicy":{"defaultLanguage":1041}"#;
    says(container(other), "unsupported language 1041");
    says(container(r#""fullTextPolicy":{"defaultLanguage":true}"#), "must be a string");
}

#[test]
fn languages_are_looked_at_before_duplicates() {
    let twice = r#"[{"path":"/a"},{"path":"/a"}]"#;
    let indexes = format!(r#""indexingPolicy":{{"fullTextIndexes":{twice}}}"#);
    let odd = r#"[{"path":"/a"},{"path":"/a"},{"path":"/b","language":"tlh"}]"#;
    for policy in [
        format!(r#"{{"defaultLanguage":"tlh","fullTextPaths":{twice}}}"#),
        format!(r#"{{"fullTextPaths":{odd}}}"#),
    ] {
        let members = format!(r#"{indexes},"fullTextPolicy":{policy}"#);
        says(container(&members), "unsupported language tlh");
        // A replace looks in the same order.
        let old = container(r#""defaultTtl":1"#).unwrap();
        says(old.replace(&body(&members)), "unsupported language tlh");
    }
    says(container(&format!(r#"{indexes},"fullTextPolicy":{{"fullTextPaths":{twice}}}"#)), "twice");
}

#[test]
fn full_text_indexes_need_the_path_in_the_policy() {
    let indexed = |policy: &str, index: &str| {
        container(&format!(r#"{policy}"indexingPolicy":{{"fullTextIndexes":[{index}]}}"#))
    };
    let policy = r#""fullTextPolicy":{"fullTextPaths":[{"path":"/abstract"}]},"#;
    let shown = indexed(policy, r#"{"path":"/abstract"}"#).unwrap().to_value();
    let shown = shown.get("indexingPolicy").unwrap().get("fullTextIndexes").unwrap().to_json();
    assert_eq!(shown, r#"[{"path":"/abstract"}]"#);
    says(indexed(policy, r#"{"path":"/path"}"#), "/path not matching");
    says(indexed("", r#"{"path":"/abstract"}"#), "/abstract not matching");
    says(indexed(policy, r#"{"path":"abstract"}"#), "invalid Path: abstract");
    says(indexed(policy, r#"{"not_path":"abstract"}"#), "'path'");
    says(indexed(policy, r#"{"path":"/abstract"},{"path":"/abstract"}"#), "twice");
}

/// The rule as the documentation words it: of all paths that cover a place the longest decides, and
/// of two equally long ones that with `/?`.
fn by_the_book(policy: &IndexingPolicy, place: &[Step<'_>]) -> bool {
    let precision = |path: &IndexPath| (path.steps().len(), path.end() == IndexEnd::Value);
    let best =
        |paths: &[IndexPath]| paths.iter().filter(|path| path.covers(place)).map(precision).max();
    best(policy.included()) > best(policy.excluded())
}

fn step_text() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["a", "b", "[]"])
}

fn paths() -> impl Strategy<Value = Vec<(String, bool)>> {
    let path = (prop::collection::vec(step_text(), 1..4), prop::bool::ANY, prop::bool::ANY)
        .prop_map(|(steps, value, included)| {
            (format!("/{}/{}", steps.join("/"), if value { "?" } else { "*" }), included)
        });
    prop::collection::vec(path, 0..12)
}

proptest! {
    #[test]
    fn the_most_precise_path_wins(
        mut paths in paths(),
        root_included in prop::bool::ANY,
        place in prop::collection::vec(step_text(), 1..5),
    ) {
        paths.sort();
        paths.dedup_by(|a, b| a.0 == b.0);
        paths.push(("/*".to_owned(), root_included));
        let list = |wanted: bool| -> Value {
            let chosen = paths.iter().filter(|(_, included)| *included == wanted);
            chosen.map(|(path, _)| Object::new().with("path", path.as_str()).into())
                .collect::<Vec<Value>>().into()
        };
        let policy = Object::new()
            .with("includedPaths", list(true))
            .with("excludedPaths", list(false));
        let policy = IndexingPolicy::parse(&policy.into()).unwrap();
        let place: Vec<Step<'_>> = place
            .into_iter()
            .map(|step| if step == "[]" { Step::Element } else { Step::Member(step.into()) })
            .collect();
        prop_assert_eq!(policy.indexes(&place), by_the_book(&policy, &place));
    }
}
