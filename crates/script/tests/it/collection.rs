//! Reading and writing items through the collection object.

use crate::host::{ALT_LINK, MemoryHost, SELF_LINK, answer, failure, run};

#[test]
fn a_document_is_created_and_the_callback_gets_it_with_its_system_properties() {
    let mut host = MemoryHost::default();
    let source = r#"function (prefix) {
        const collection = getContext().getCollection();
        const accepted = collection.createDocument(
            collection.getSelfLink(), { id: 'a', n: 1 }, {}, function (err, doc, info) {
                getContext().getResponse().setBody(
                    [prefix, err === undefined, doc.id, doc._rid, info.statusCode]);
            });
        if (accepted !== true) throw new Error('not accepted');
    }"#;
    let end = run(&mut host, source, r#"["x"]"#);
    assert_eq!(end.result.unwrap().unwrap(), r#"["x",true,"a","rid1",201]"#);
    assert_eq!(host.plain("a"), r#"{"id":"a","n":1}"#);
}

#[test]
fn callbacks_run_after_the_function_has_returned_and_in_order() {
    let mut host = MemoryHost::default();
    let source = r#"function () {
        const seen = [];
        for (const id of ['a', 'b']) {
            __.createDocument(__.getAltLink(), { id }, (err, doc) => {
                seen.push(doc.id);
                __.response.setBody(seen);
                if (id === 'a') __.createDocument(__.getAltLink(), { id: 'c' }, (err, doc) => {
                    seen.push(doc.id);
                });
            });
        }
        seen.push('returned');
    }"#;
    assert_eq!(answer(&mut host, source), r#"["returned","a","b","c"]"#);
}

#[test]
fn the_callback_may_stand_in_the_place_of_the_options_and_may_be_left_out() {
    let mut host = MemoryHost::default();
    let source = r#"function () {
        __.createDocument(__.getSelfLink(), { id: 'a' });
        __.createDocument(__.getSelfLink(), { id: 'b' }, {});
        __.createDocument(__.getSelfLink(), { id: 'c' }, undefined, (err, doc) => {
            __.response.setBody(doc.id);
        });
    }"#;
    assert_eq!(answer(&mut host, source), r#""c""#);
    assert_eq!(host.items.len(), 3);
}

#[test]
fn a_document_may_be_given_as_text() {
    let mut host = MemoryHost::default();
    let source = r#"function () {
        __.createDocument(__.getSelfLink(), '{"id":"a","n":12345678901234567890}');
        __.upsertDocument(__.getSelfLink(), '{"n":1}', (err, doc) => {
            __.response.setBody(/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
                .test(doc.id));
        });
    }"#;
    assert_eq!(answer(&mut host, source), "true");
    assert_eq!(host.asked, ["create", "upsert"]);
}

#[test]
fn a_missing_id_is_made_up_unless_that_is_switched_off() {
    let mut host = MemoryHost::default();
    let source = r#"function () {
        const given = { n: 1 };
        __.createDocument(__.getSelfLink(), given, (err, doc) => {
            __.createDocument(__.getSelfLink(), given, { disableAutomaticIdGeneration: true },
                (err) => __.response.setBody([typeof doc.id, 'id' in given, err.number]));
        });
    }"#;
    assert_eq!(answer(&mut host, source), r#"["string",false,400]"#);
}

#[test]
fn ids_that_are_made_up_differ() {
    let mut host = MemoryHost::default();
    let source =
        "function () { for (let i = 0; i < 50; i++) __.createDocument(__.getSelfLink(), {}); }";
    assert_eq!(answer(&mut host, source), "");
    assert_eq!(host.items.len(), 50);
}

#[test]
fn an_upsert_creates_and_replaces() {
    let mut host = MemoryHost::with_items(&[r#"{"id":"a","n":1}"#]);
    let source = r#"function () {
        __.upsertDocument(__.getAltLink(), { id: 'a', n: 2 }, { indexAction: 'exclude' });
        __.upsertDocument(__.getAltLink(), { id: 'b', n: 3 }, { indexAction: 'Include' });
    }"#;
    assert_eq!(answer(&mut host, source), "");
    assert_eq!(host.asked, ["upsert exclude", "upsert include"]);
    assert_eq!(
        (host.plain("a"), host.plain("b")),
        (r#"{"id":"a","n":2}"#.to_owned(), r#"{"id":"b","n":3}"#.to_owned(),)
    );
}

#[test]
fn a_document_is_read_by_both_kinds_of_link() {
    let mut host = MemoryHost::with_items(&[r#"{"id":"a","n":1}"#]);
    let source = r#"function () {
        const seen = [];
        __.readDocument(__.getAltLink() + '/docs/a', (err, doc, info) => {
            seen.push(doc.n, info.statusCode);
            __.readDocument(doc._self, {}, (err, doc) => {
                seen.push(doc.n);
                __.readDocument(doc._self, { ifNoneMatch: doc._etag }, function (err, same, info) {
                    seen.push(arguments.length, err, same === undefined, info.notModified);
                    __.response.setBody(seen);
                });
            });
        });
    }"#;
    assert_eq!(answer(&mut host, source), "[1,200,1,3,null,true,true]");
}

#[test]
fn a_document_is_replaced_if_its_etag_matches() {
    let mut host = MemoryHost::with_items(&[r#"{"id":"a","n":1}"#]);
    let source = r#"function () {
        const link = __.getAltLink() + '/docs/a';
        __.readDocument(link, (err, doc) => {
            doc.n++;
            __.replaceDocument(doc._self, doc, { etag: doc._etag }, (err, now) => {
                doc.n = 99;
                __.replaceDocument(link, doc, { etag: doc._etag }, (err) => {
                    __.response.setBody([now.n, err.number, err instanceof Error]);
                });
            });
        });
    }"#;
    assert_eq!(answer(&mut host, source), "[2,412,true]");
    assert_eq!(host.items["a"].get("n").unwrap().as_i64(), Some(2));
}

#[test]
fn a_delete_calls_back_with_two_arguments() {
    let mut host = MemoryHost::with_items(&[r#"{"id":"a"}"#, r#"{"id":"b"}"#]);
    let source = r#"function () {
        __.deleteDocument(__.getAltLink() + '/docs/a', function (err, info) {
            const seen = [arguments.length, err === undefined, info.statusCode];
            __.deleteDocument(__.getAltLink() + '/docs/b', { etag: '"0"' }, (err) => {
                __.deleteDocument(__.getAltLink() + '/docs/c', (missing) => {
                    __.response.setBody(seen.concat(err.number, missing.number));
                });
            });
        });
    }"#;
    assert_eq!(answer(&mut host, source), "[2,true,204,412,404]");
    assert_eq!(host.items.len(), 1);
}

#[test]
fn all_documents_are_read_page_by_page() {
    let mut host = MemoryHost::with_items(&[r#"{"id":"a"}"#, r#"{"id":"b"}"#, r#"{"id":"c"}"#]);
    let source = r#"function () {
        const pages = [];
        function next(continuation) {
            __.readDocuments(__.getSelfLink(), { pageSize: 2, continuation }, (err, docs, info) => {
                pages.push(docs.map((doc) => doc.id));
                if (info.continuation) next(info.continuation);
                else __.response.setBody(pages);
            });
        }
        next();
    }"#;
    assert_eq!(answer(&mut host, source), r#"[["a","b"],["c"]]"#);
    assert_eq!(host.asked, ["query all 2", "query all 2"]);
}

#[test]
fn a_query_takes_a_text_or_an_object_with_parameters() {
    let mut host =
        MemoryHost::with_items(&[r#"{"id":"a","n":1}"#, r#"{"id":"b","n":{"deep":[true]}}"#]);
    let source = r#"function () {
        const query = { query: 'SELECT * FROM c WHERE c.n = @n',
            parameters: [{ name: '@n', value: { deep: [true] } }] };
        __.queryDocuments(__.getSelfLink(), query, (err, found) => {
            __.queryDocuments(__.getSelfLink(), 'SELECT * FROM c', {}, (err, all, info) => {
                __.response.setBody([found.map((d) => d.id), all.length, 'continuation' in info]);
            });
        });
    }"#;
    assert_eq!(answer(&mut host, source), r#"[["b"],2,false]"#);
    assert_eq!(host.asked[1], "query SELECT * FROM c 100");
}

#[test]
fn queries_see_what_was_written_before_them() {
    let mut host = MemoryHost::default();
    let source = r#"function () {
        __.createDocument(__.getSelfLink(), { id: 'a' });
        __.queryDocuments(__.getSelfLink(), 'SELECT * FROM c', (err, docs) => {
            __.response.setBody(docs.length);
        });
    }"#;
    assert_eq!(answer(&mut host, source), "1");
}

#[test]
fn errors_of_the_host_go_to_the_callback_with_their_number() {
    let mut host = MemoryHost::with_items(&[r#"{"id":"a"}"#]);
    let source = r#"function () {
        __.createDocument(__.getSelfLink(), { id: 'a' }, function (err, doc, info) {
            const conflict = [arguments.length, err.number, err.body, doc === undefined];
            __.queryDocuments(__.getSelfLink(), 'nonsense', (err) => {
                __.response.setBody(conflict.concat(err.number, err.message));
            });
        });
    }"#;
    let expected = r#"[1,409,"Resource with specified id already exists.",true,400,"#;
    let answered = answer(&mut host, source);
    assert!(answered.starts_with(expected), "{answered}");
}

#[test]
fn an_error_that_no_callback_takes_ends_the_run() {
    let mut host = MemoryHost::with_items(&[r#"{"id":"a"}"#]);
    let source = r#"function () {
        __.createDocument(__.getSelfLink(), { id: 'a' });
        __.createDocument(__.getSelfLink(), { id: 'never' });
    }"#;
    let (_, message) = failure(&mut host, source);
    assert!(
        message.contains("Exception = Error: Resource with specified id already exists."),
        "{message}"
    );
    assert!(message.contains("Number: 409"), "{message}");
    assert_eq!(host.asked, ["create"]);
}

/// Each of these is thrown at once, with the number 400, and nothing is queued.
#[test]
fn wrong_calls_are_thrown_with_the_number_400() {
    let calls = [
        (
            "__.createDocument(__.getSelfLink())",
            "requires at least 2 argument(s) but was called with 1",
        ),
        ("__.readDocument()", "requires at least 1 argument(s) but was called with 0"),
        ("__.queryDocuments(__.getSelfLink())", "\"queryDocuments\" requires at least 2"),
        (
            "__.createDocument(__.getSelfLink(), null)",
            "The document body must be an object or a string",
        ),
        (
            "__.createDocument(__.getSelfLink(), 7)",
            "The document body must be an object or a string",
        ),
        (
            "__.replaceDocument(__.getAltLink() + '/docs/a', null)",
            "The document body must be an object",
        ),
        ("__.createDocument(5, {})", "Invalid collection link: \"number\""),
        ("__.createDocument('dbs/shop', {})", "Invalid collection link: \"dbs/shop\""),
        ("__.createDocument('dbs/shop/colls/other', {})", "outside current collection"),
        ("__.createDocument(__.getAltLink() + '/', {})", "outside current collection"),
        ("__.readDocument('docs/a')", "Invalid document link: \"docs/a\""),
        ("__.readDocument(__.getAltLink() + '/docs/')", "Invalid document link"),
        ("__.readDocument(__.getAltLink() + '/docs/a/b')", "Invalid document link"),
        ("__.readDocument('dbs/shop/colls/others/docs/a')", "outside current collection"),
        ("__.readDocument({})", "Invalid document link: \"object\""),
        (
            "__.createDocument(__.getSelfLink(), {}, 5)",
            "\"options\" parameter must be of type \"object\"",
        ),
        (
            "__.createDocument(__.getSelfLink(), {}, {}, {})",
            "\"callback\" parameter must be of type \"function\". Actual type is: \"object\"",
        ),
        ("__.createDocument(__.getSelfLink(), {}, { indexAction: 'maybe' })", "indexAction"),
        ("__.queryDocuments(__.getSelfLink(), 5)", "\"filterQuery\" parameter must be of type"),
        ("__.queryDocuments(__.getSelfLink(), { sql: '' })", "must have a \"query\""),
        ("__.queryDocuments(__.getSelfLink(), 'SELECT 1', { pageSize: 'many' })", "pageSize"),
        ("__.queryDocuments(__.getSelfLink(), 'SELECT 1', { pageSize: -7 })", "pageSize"),
    ];
    for (call, expected) in calls {
        let mut host = MemoryHost::default();
        let source = format!(
            "function () {{ try {{ {call}; }} catch (e) {{
                __.response.setBody(e.number + ' ' + e.message); return; }}
                __.response.setBody('nothing was thrown'); }}"
        );
        let thrown = answer(&mut host, &source);
        let quoted = expected.replace('"', "\\\"");
        assert!(thrown.starts_with("\"400 ") && thrown.contains(&quoted), "{call}: {thrown}");
        assert!(host.asked.is_empty(), "{call}: {:?}", host.asked);
    }
}

#[test]
fn links_are_told_as_the_engine_gives_them() {
    let mut host = MemoryHost::default();
    let source = "function () { __.response.setBody([__.getSelfLink(), getContext().getCollection().getAltLink()]); }";
    assert_eq!(answer(&mut host, source), format!("[\"{SELF_LINK}\",\"{ALT_LINK}\"]"));
}

#[test]
fn what_is_not_there_says_so_by_name() {
    let names = [
        "createAttachment",
        "readAttachment",
        "readAttachments",
        "queryAttachments",
        "replaceAttachment",
        "upsertAttachment",
        "deleteAttachment",
        "spatial.distance",
        "spatial.within",
        "spatial.intersects",
        "spatial.isValid",
        "spatial.isValidDetailed",
    ];
    for name in names {
        let (_, message) = failure(
            &mut MemoryHost::default(),
            &format!("function () {{ __.{name}({{}}, {{}}); }}"),
        );
        assert!(message.contains(name) && message.contains("not supported"), "{message}");
    }
}
