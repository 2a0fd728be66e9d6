//! Queries in JavaScript.

use partita_engine::{ScriptRole, WriteKind};

use crate::host::{MemoryHost, answer, failure, quick_js, run_role};

fn people() -> MemoryHost {
    MemoryHost::with_items(&[
        r#"{"id":"1","name":"Alex","age":40,"kids":[{"name":"Bob","pets":["Chucky","Cora"]},{"name":"Bill","pets":[]}]}"#,
        r#"{"id":"2","name":"Alice","age":25,"kids":[{"name":"Beth","pets":["Cutie"]}]}"#,
        r#"{"id":"3","name":"Aaron","age":31}"#,
    ])
}

/// The rows of a query, given the part after `__.`, its callback included as `done`.
#[track_caller]
fn rows(call: &str) -> String {
    let source = format!(
        "function () {{
            const done = (err, rows) => {{ if (err) throw err; __.response.setBody(rows); }};
            const result = __.{call};
            if (result.isAccepted !== true) throw new Error('not accepted');
        }}"
    );
    answer(&mut people(), &source)
}

#[test]
fn each_function_works_alone() {
    assert_eq!(rows("filter(p => p.age < 30, done)").matches("_rid").count(), 1);
    assert_eq!(rows("map(p => p.name, done)"), r#"["Alex","Alice","Aaron"]"#);
    assert_eq!(rows("pluck('age', {}, done)"), "[40,25,31]");
    assert_eq!(
        rows("unwind(p => p.kids, (p, k) => p.id + k.name, done)"),
        r#"["1Bob","1Bill","2Beth"]"#
    );
    assert_eq!(rows("unwind(p => p.kids, {}, done)").matches("pets").count(), 3);
    assert_eq!(rows("flatten(done)").matches("_rid").count(), 3);
}

#[test]
fn a_chain_applies_its_steps_in_order() {
    assert_eq!(
        rows("chain().filter(p => p.age > 26).map(p => p.name).value(done)"),
        r#"["Alex","Aaron"]"#
    );
    assert_eq!(
        rows("chain().unwind(p => p.kids, (p, k) => ({ p, k }))
              .unwind(x => x.k.pets, (x, pet) => x.p.name + ' ' + x.k.name + ' ' + pet).value(done)"),
        r#"["Alex Bob Chucky","Alex Bob Cora","Alice Beth Cutie"]"#
    );
    assert_eq!(
        rows("chain().pluck('name').filter(n => n > 'Al').value({}, done)"),
        r#"["Alex","Alice"]"#
    );
}

#[test]
fn sorting_is_over_all_rows_and_stable() {
    assert_eq!(rows("chain().sortBy(p => p.age).pluck('id').value(done)"), r#"["2","3","1"]"#);
    assert_eq!(
        rows("chain().sortByDescending(p => p.name).pluck('id').value(done)"),
        r#"["2","1","3"]"#
    );
    let mixed = "chain().map(p => ({ '1': 'x', '2': undefined, '3': 7 })[p.id]).sortBy(x => x)
                 .map(String).value(done)";
    assert_eq!(rows(mixed), r#"["undefined","7","x"]"#);
}

#[test]
fn flattening_goes_down_one_level_or_all() {
    let nested = "chain().filter(p => p.id === '1').map(() => [1, [2, [3]]])";
    assert_eq!(rows(&format!("{nested}.flatten(true).value(done)")), "[1,[2,[3]]]");
    assert_eq!(rows(&format!("{nested}.flatten().value(done)")), "[1,2,3]");
}

#[test]
fn the_collection_may_be_given_first() {
    assert_eq!(
        rows("filter(getContext().getCollection(), p => p.id === '2', done)")
            .matches("_rid")
            .count(),
        1
    );
    assert_eq!(rows("pluck(__, 'id', done)"), r#"["1","2","3"]"#);
}

#[test]
fn without_a_callback_rows_are_appended_to_the_response_as_text() {
    let source = "function () { __.pluck('id'); __.chain().map(p => p.age).value(); }";
    assert_eq!(answer(&mut people(), source), r#""[\"1\",\"2\",\"3\"][40,25,31]""#);
}

#[test]
fn pages_hold_as_many_rows_as_were_asked_for_and_go_on() {
    let source = r#"function () {
        const pages = [];
        (function next(continuation) {
            __.chain().filter(p => p.id !== '1').pluck('id')
                .value({ pageSize: 1, continuation }, (err, rows, info) => {
                    pages.push(rows);
                    if (info.continuation) next(info.continuation); else __.response.setBody(pages);
                });
        })();
    }"#;
    assert_eq!(answer(&mut people(), source), r#"[["2"],["3"]]"#);
    let sorted = source.replace(".pluck", ".sortByDescending(p => p.id).pluck");
    assert_eq!(answer(&mut people(), &sorted), r#"[["3"],["2"]]"#);
}

#[test]
fn a_chain_can_be_continued_in_two_ways() {
    let source = r#"function () {
        const young = __.chain().filter(p => p.age < 35);
        young.pluck('id').value((err, ids) => {
            young.pluck('name').value((err, names) => __.response.setBody([ids, names]));
        });
    }"#;
    assert_eq!(answer(&mut people(), source), r#"[["2","3"],["Alice","Aaron"]]"#);
}

#[test]
fn what_a_function_throws_goes_to_the_callback() {
    let source = r#"function () {
        __.filter(p => { throw new Error(417, 'no ' + p.id); }, (err, rows) => {
            __.response.setBody([err.number, err.message, rows === undefined]);
        });
    }"#;
    assert_eq!(answer(&mut people(), source), r#"[417,"no 1",true]"#);
    let (_, message) = failure(&mut people(), "function () { __.map(p => p.a.b); }");
    assert!(message.contains("Exception = TypeError: "), "{message}");
}

#[test]
fn wrong_calls_are_thrown_with_the_number_400() {
    let calls = [
        ("filter()", "The predicate/transform function must be provided."),
        ("map(5)", "The predicate/transform function must be provided."),
        ("pluck('')", "The property name must be a string and cannot be empty."),
        ("pluck()", "The property name must be a string"),
        ("unwind()", "\\\"collectionSelector\\\" must be used"),
        ("unwind(5)", "\\\"collectionSelector\\\" must be a function"),
        ("chain().filter(p => p, {})", "options can only be provided on the call to the"),
        (
            "chain().filter(p => p, undefined, () => 1)",
            "the callback parameter can only be provided",
        ),
        ("chain().map(p => p).value(5)", "\\\"options\\\" parameter must be of type"),
        (
            "sortBy(p => p, { continuation: 'x' }, (err) => { throw err; })",
            "Invalid Continuation Token",
        ),
    ];
    for (call, expected) in calls {
        let source = format!(
            "function () {{ try {{ __.{call}; }} catch (e) {{ __.response.setBody(e.number + ' ' + e.message); }} }}"
        );
        let end = crate::host::run(&mut people(), &source, "[]");
        let told = match end.result {
            Ok(answer) => answer.unwrap_or_default(),
            Err(error) => format!("\"400 {}", error.message),
        };
        assert!(told.starts_with("\"400 ") && told.contains(expected), "{call}: {told}");
    }
}

#[test]
fn a_pre_trigger_has_no_response_to_append_to() {
    let role = ScriptRole::PreTrigger { operation: WriteKind::Create, document: Some("{}") };
    let end = run_role(&quick_js(), &mut people(), "function () { __.filter(p => true); }", role);
    assert!(end.result.unwrap_err().message.contains("The callback function must be provided"));
}
