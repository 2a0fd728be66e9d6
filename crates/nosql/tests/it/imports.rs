//! `__.sys.commonBulkInsert`, as the bulk executor libraries and .NET's own tests call it.

use partita_engine::{EngineSettings, ThroughputMode};
use partita_model::Value;

use crate::support::{Answer, Ask, PARTITIONS, READONLY, World};

const DOCS: &str = "/dbs/d/colls/c/docs";
const IMPORT: &str = "/dbs/d/colls/c/sprocs/__.sys.commonBulkInsert";
const RANGE: &str = "x-ms-documentdb-partitionkeyrangeid";
const OPTIONS: &str = r#"{"disableAutomaticIdGeneration":true,"softStopOnConflict":true,
    "systemCollectionId":null,"enableBsonSchema":false,"enableUpsert":false}"#;

/// The range of a partition key.
fn range(world: &World, key: &str) -> String {
    let answer = world.get(&format!("{DOCS}/none")).key(&format!(r#"["{key}"]"#)).expect(404);
    answer.header(RANGE).unwrap().to_owned()
}

/// Two keys of one range.
fn neighbours(world: &World) -> (String, String, String) {
    let of_first = range(world, "0");
    let second = (1..).map(|n: u32| n.to_string()).find(|key| range(world, key) == of_first);
    ("0".into(), second.unwrap(), of_first)
}

fn import<'w>(world: &'w World, range: &str, arguments: &str) -> Ask<'w> {
    world.post(IMPORT, arguments).header(RANGE, range)
}

fn told(answer: &Answer) -> (i64, i64, String) {
    let body = answer.json();
    let number = |name: &str| body.get(name).and_then(Value::as_i64).unwrap();
    (number("count"), number("errorCode"), body.get("failedDoc").unwrap().to_json())
}

fn ids(answer: &Answer) -> Vec<String> {
    let id = |row: &Value| row.get("id").and_then(Value::as_str).unwrap().to_owned();
    answer.feed("Documents").iter().map(id).collect()
}

#[test]
fn documents_of_several_keys_of_a_range_are_one_commit() {
    for (throughput, _) in PARTITIONS {
        let world = World::with_container(throughput);
        let (first, second, range) = neighbours(&world);
        let key = |key: &str| format!(r#"["{key}"]"#);
        let old = format!(r#"{{"id":"doc1","pk":"{first}"}}"#);
        world.post(DOCS, &old).key(&key(&first)).expect(201);
        let document = |id: &str, pk: &str| format!(r#"{{"id":"{id}","pk":"{pk}","n":1.50}}"#);
        let documents = [
            document("doc2_1", &second),
            document("doc2_2", &first),
            document("doc2_3", &second),
            document("doc2_4", &second),
        ];
        let arguments = format!("[[{}],{OPTIONS}]", documents.join(","));
        let answer = import(&world, &range, &arguments).expect(200);
        assert_eq!(answer.text(), r#"{"count":4,"errorCode":0,"failedDoc":null}"#);
        assert_eq!(answer.header(RANGE), Some(range.as_str()));
        let charge: f64 = answer.header("x-ms-request-charge").unwrap().parse().unwrap();
        assert!(charge > 20.0, "{charge}");
        let lsn = answer.header("lsn").unwrap();
        let feed = || world.get(DOCS).header("a-im", "Incremental Feed");
        let changes = feed().header(RANGE, &range).expect(200);
        assert_eq!(ids(&changes), ["doc1", "doc2_1", "doc2_2", "doc2_3", "doc2_4"]);
        let of_one = feed().key(&key(&second)).expect(200);
        assert_eq!(ids(&of_one), ["doc2_1", "doc2_3", "doc2_4"]);
        assert_eq!(of_one.text().matches(&format!(r#""_lsn":{lsn}}}"#)).count(), 3);
        let item = world.get(&format!("{DOCS}/doc2_2")).key(&key(&first)).expect(200);
        assert!(item.text().contains(r#""n":1.50"#), "as it was written: {}", item.text());
        let session = answer.header("x-ms-session-token").unwrap();
        world.get(DOCS).key(&key(&first)).header("x-ms-session-token", session).expect(200);
    }
}

#[test]
fn a_conflict_stops_softly_or_fails_all_or_is_replaced() {
    for (throughput, _) in PARTITIONS {
        let world = World::with_container(throughput);
        let range = range(&world, "a");
        world.post(DOCS, r#"{"id":"2","pk":"a"}"#).key(r#"["a"]"#).expect(201);
        let listed = || world.get(DOCS).expect(200).feed("Documents").len();
        // Documents as texts, and a third argument, as the Java library sends them.
        let arguments = |ids: [u8; 3], options: &str| {
            let text = |id: u8| Value::from(format!(r#"{{"id":"{id}","pk":"a","v":1}}"#)).to_json();
            format!("[[{}],{options},null]", ids.map(text).join(","))
        };
        let hard = import(&world, &range, &arguments([1, 2, 3], r#"{"softStopOnConflict":false}"#));
        let refused = hard.refused(400, "409", "Encountered exception while executing function.");
        assert!(refused.text().contains("already exists"), "{}", refused.text());
        assert_eq!(listed(), 1, "nothing was done");
        import(&world, &range, &arguments([1, 2, 3], "null")).refused(400, "409", "(document 1)");
        let soft = import(&world, &range, &arguments([1, 2, 3], OPTIONS)).expect(200);
        assert_eq!(told(&soft), (1, 409, r#"{"id":"2","pk":"a","v":1}"#.into()));
        assert_eq!(listed(), 2);
        let again = import(&world, &range, &arguments([1, 2, 3], OPTIONS)).expect(200);
        assert_eq!(told(&again), (0, 409, r#"{"id":"1","pk":"a","v":1}"#.into()));
        let twice = import(&world, &range, &arguments([8, 8, 9], OPTIONS)).expect(200);
        assert_eq!(told(&twice).0, 1, "it sees its own");
        let upsert = r#"{"softStopOnConflict":true,"enableUpsert":true}"#;
        let upserted = import(&world, &range, &arguments([1, 2, 3], upsert)).expect(200);
        assert_eq!(told(&upserted), (3, 0, "null".into()));
        assert_eq!(listed(), 4);
        let second = world.get(&format!("{DOCS}/2")).key(r#"["a"]"#).expect(200);
        assert!(second.json().get("v").is_some());
    }
}

#[test]
fn ids_are_made_unless_the_client_makes_them() {
    let world = World::with_container("400");
    let documents =
        r#"[[{"pk":"a","n":1},{"id":"","pk":"a"},{"id":null,"pk":"a"},{"id":"x","pk":"a"}]"#;
    let answer = import(&world, "0", &format!("{documents}]")).expect(200);
    assert_eq!(told(&answer).0, 4);
    let mut made = ids(&world.get(DOCS).expect(200));
    made.sort();
    made.dedup();
    assert_eq!(made.len(), 4);
    assert_eq!(made.iter().filter(|id| id.len() == 36 && id.split('-').count() == 5).count(), 3);
    let kept = format!(r#"{documents},{{"disableAutomaticIdGeneration":true}}]"#);
    import(&world, "0", &kept).refused(400, "400", "'id; '");
    import(&world, "0", r#"[[{"id":7,"pk":"a"}]]"#).refused(400, "400", "must be a string");
}

#[test]
fn a_partition_key_may_be_named_in_place_of_a_range() {
    for (throughput, _) in PARTITIONS {
        let world = World::with_container(throughput);
        let by_key = |arguments: &str| world.post(IMPORT, arguments).key(r#"["a"]"#);
        let answer = by_key(r#"[[{"id":"1","pk":"a"},{"id":"2","pk":"a"}],{}]"#).expect(200);
        assert_eq!(told(&answer), (2, 0, "null".into()));
        by_key(r#"[[{"id":"3","pk":"a"},{"id":"4","pk":"b"}],{}]"#).refused(
            400,
            "400",
            "cannot reference partition keys other than",
        );
        assert_eq!(world.get(DOCS).expect(200).feed("Documents").len(), 2);
        world.post(IMPORT, "[[]]").refused(400, "0", "PartitionKey value must be supplied");
        assert_eq!(told(&by_key("[[]]").expect(200)), (0, 0, "null".into()));
    }
}

#[test]
fn what_is_wrong_with_an_import_is_told_and_nothing_is_written() {
    let world = World::with_container("30000");
    let range = range(&world, "a");
    for (arguments, status, substatus, text) in [
        ("[]", 400, "0", "must be an array of documents"),
        ("{}", 400, "0", "expected an array"),
        (r#"[{"id":"1","pk":"a"}]"#, 400, "0", "must be an array of documents"),
        ("[[1]]", 400, "0", "The document 0 of __.sys.commonBulkInsert must be an object"),
        ("[[],7]", 400, "0", "must be an object with options"),
        (r#"[[],{"enableUpsert":1}]"#, 400, "0", "'enableUpsert'"),
        (r#"[[],{"enableBsonSchema":true}]"#, 501, "0", "'enableBsonSchema'"),
        (r#"[[],{"systemCollectionId":"x"}]"#, 501, "0", "'systemCollectionId'"),
        (r#"[[],{"else":{}}]"#, 501, "0", "'else'"),
        (r#"[[],{},{}]"#, 501, "0", "more than two arguments"),
        (r#"[[{"id":"1","pk":"a"},"no JSON"]]"#, 400, "400", "(document 1)"),
        (r#"[["[]"]]"#, 400, "400", "expected an object"),
    ] {
        import(&world, &range, arguments).refused(status, substatus, text);
    }
    let other = (0..).map(|n: u32| n.to_string()).find(|key| self::range(&world, key) != range);
    let other = format!(r#"[[{{"id":"1","pk":"{}"}}]]"#, other.unwrap());
    import(&world, &range, &other).refused(400, "1001", "does not belong to");
    import(&world, "77", "[[]]").refused(410, "1002", "");
    let container = world.get("/dbs/d/colls/c").expect(200).member("_rid");
    import(&world, &format!("{container},{range}"), "[[]]").expect(200);
    let other = r#"{"id":"other","partitionKey":{"paths":["/pk"],"kind":"Hash"}}"#;
    let other = world.post("/dbs/d/colls", other).expect(201).member("_rid");
    import(&world, &format!("{other},{range}"), "[[]]").refused(410, "1000", "");
    assert!(world.get(DOCS).expect(200).feed("Documents").is_empty());
    let gone = IMPORT.replace("colls/c", "colls/gone");
    world.post(&gone, "[[]]").header(RANGE, "0").refused(404, "1003", "");
    let one = r#"[[{"id":"1","pk":"a"}]]"#;
    import(&world, &range, one).signed_by(READONLY).refused(403, "0", "");
    assert!(world.get("/dbs/d/colls/c/sprocs").expect(200).feed("StoredProcedures").is_empty());
}

#[test]
fn an_import_stops_in_time_and_the_client_goes_on() {
    let mut settings = EngineSettings { throughput: ThroughputMode::Off, ..Default::default() };
    settings.scripts.run_millis_max = 0;
    let world = World::with_settings(settings);
    world.make_container("400");
    let mut rest = vec!["1", "2", "3"];
    while !rest.is_empty() {
        let document = |id: &&str| format!(r#"{{"id":"{id}","pk":"a"}}"#);
        let documents: Vec<String> = rest.iter().map(document).collect();
        let answer = import(&world, "0", &format!("[[{}],{OPTIONS}]", documents.join(",")));
        assert_eq!(told(&answer.expect(200)), (1, 0, "null".into()), "one at least");
        rest.remove(0);
    }
    assert_eq!(world.get(DOCS).expect(200).feed("Documents").len(), 3);
}

#[test]
fn imports_need_no_scripts_and_resource_tokens_open_what_they_name() {
    let world = World::without_scripts();
    world.make_container("400");
    import(&world, "0", r#"[[{"id":"1","pk":"a"}]]"#).expect(200);
    world.post("/dbs/d/users", r#"{"id":"u"}"#).expect(201);
    let token = |id: &str, more: &str| {
        let body =
            format!(r#"{{"id":"{id}","permissionMode":"All","resource":"dbs/d/colls/c"{more}}}"#);
        world.post("/dbs/d/users/u/permissions", &body).expect(201).member("_token")
    };
    let (whole, keyed) = (token("w", ""), token("k", r#","resourcePartitionKey":["a"]"#));
    let two = r#"[[{"id":"2","pk":"a"}],{"enableUpsert":true}]"#;
    import(&world, "0", two).token(&whole).expect(200);
    import(&world, "0", two).token(&keyed).refused(403, "0", "");
    world.post(IMPORT, two).key(r#"["a"]"#).token(&keyed).expect(200);
    world.post(IMPORT, two).key(r#"["b"]"#).token(&keyed).refused(403, "0", "");
}
