//! Scripts that mean harm. Each ends with its own error, and leaves nothing behind.

use partita_engine::ScriptRole;
use partita_model::ErrorKind;
use partita_script::Limits;

use crate::host::{MemoryHost, answer, failure, quick_js, quick_js_with, run, run_for};

/// What becomes of a script that has 300 ms.
fn end_of(source: &str) -> (ErrorKind, String) {
    let mut host = MemoryHost::with_items(&[r#"{"id":"a"}"#]);
    let role = ScriptRole::Procedure { arguments: "[]" };
    let error = run_for(&quick_js(), &mut host, source, role, 300).result.unwrap_err();
    (error.kind, error.message)
}

#[test]
fn endless_scripts_run_out_of_time() {
    for source in [
        "function () { for (;;); }",
        "for (;;); function f() {}",
        "function () { for (;;) try { for (;;); } catch (e) {} finally { for (;;); } }",
        "function () { (function f() { try { for (;;); } finally { f(); } })(); }",
        "function () { new Promise(function again() { Promise.resolve().then(again); }); }",
        "function () { (async () => { for (;;) await 0; })(); }",
        "function () { __.readDocuments(__.getSelfLink(), () => { for (;;); }); }",
        "function () { __.filter(() => { for (;;); }, (err) => { for (;;); }); }",
        "function () { function* g() { for (;;) yield 1; } for (const x of g()); }",
        "function () { throw { toString() { for (;;); }, toJSON() { for (;;); } }; }",
        "function () { throw Object.defineProperty(new Error(), 'message', { get() { for (;;); } }); }",
        "function () { __.response.setBody({ toJSON() { for (;;); } }); }",
        "function () { __.createDocument(__.getSelfLink(), { get id() { for (;;); } }); }",
        "function () { console.log({ toString() { for (;;); } }); }",
        "function () { new Proxy({}, { get() { for (;;); } }).x; }",
    ] {
        let (kind, message) = end_of(source);
        assert_eq!(kind, ErrorKind::Timeout, "{source}: {message}");
        assert!(message.contains("'test'"), "{message}");
    }
}

#[test]
fn regular_expressions_run_out_of_time_too() {
    for source in [
        "function () { /(a+)+$/.test('a'.repeat(50) + 'b'); }",
        "function () { 'a'.repeat(50).replace(/(a|a)*b/, ''); }",
        "function () { /^(\\w+\\s?)*$/.exec('word '.repeat(20) + '!'); }",
    ] {
        assert_eq!(end_of(source).0, ErrorKind::Timeout, "{source}");
    }
}

#[test]
fn scripts_that_need_too_much_memory_are_forbidden_to() {
    let limits = Limits { memory_bytes_max: 8 << 20, ..Limits::default() };
    for source in [
        "function () { const all = []; for (;;) all.push(new Array(1000).fill(1)); }",
        "function () { const all = []; for (;;) all.push({ a: 1, b: 'x'.repeat(1000) }); }",
        "function () { new Uint8Array(1 << 30); }",
        "function () { 'x'.repeat(1 << 28); }",
        "function () { let s = 'xyz'; const all = []; for (;;) { s = s + s; all.push([...s]); } }",
        "function () { const map = new Map(); for (let i = 0; ; i++) map.set(i, {}); }",
    ] {
        let mut host = MemoryHost::default();
        let role = ScriptRole::Procedure { arguments: "[]" };
        let end = run_for(&quick_js_with(limits), &mut host, source, role, 20_000);
        let error = end.result.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Forbidden, "{source}: {}", error.message);
        assert!(error.message.contains("8388608 bytes of memory"), "{}", error.message);
    }
}

#[test]
fn a_script_that_catches_the_lack_of_memory_still_runs_out_of_time() {
    let source = "function () { const all = []; for (;;) try { all.push(new Array(1e4).fill(1)); } catch (e) {} }";
    assert_eq!(end_of(source).0, ErrorKind::Timeout);
}

/// Memory runs out at every possible place, in ours too.
#[test]
fn whatever_memory_there_is_a_run_ends_with_an_answer_or_an_error() {
    let source = r#"function (n) {
        __.createDocument(__.getSelfLink(), { n }, (err, doc) => {
            console.log('%s', doc.id);
            __.chain().sortBy(d => d.n).map(d => ({ d })).value((err, rows) => {
                if (err) throw err;
                __.response.setBody(rows);
                throw new Error(400, 'x'.repeat(100));
            });
        });
    }"#;
    let mut failures = 0;
    for memory_bytes_max in (4 << 10..400 << 10).step_by(1021) {
        let runtime = quick_js_with(Limits { memory_bytes_max, ..Limits::default() });
        let mut host = MemoryHost::with_items(&[r#"{"id":"a"}"#]);
        let role = ScriptRole::Procedure { arguments: "[1]" };
        let error = run_for(&runtime, &mut host, source, role, 20_000).result.unwrap_err();
        assert!(
            matches!(
                error.kind,
                ErrorKind::Forbidden
                    | ErrorKind::Unavailable
                    | ErrorKind::BadRequest
                    | ErrorKind::ScriptFailed { .. }
            ),
            "{memory_bytes_max}: {error:?}"
        );
        failures += u32::from(error.kind != ErrorKind::BadRequest);
    }
    assert!(failures > 100, "{failures}");
}

#[test]
fn deep_recursion_is_an_exception() {
    for source in [
        "function f() { f(); }",
        "function () { const o = { toString() { return '' + this; } }; '' + o; }",
        "function () { JSON.parse('['.repeat(1e6)); }",
        "function () { let p = {}; for (let i = 0; i < 1e5; i++) p = new Proxy(p, {}); p.x; }",
        "function () { new RegExp('('.repeat(1e5)); }",
        "function () { eval('('.repeat(1e5)); }",
    ] {
        let (kind, message) = failure(&mut MemoryHost::default(), source);
        assert_eq!(kind, ErrorKind::BadRequest, "{source}: {message}");
        assert!(message.contains("Exception = "), "{message}");
    }
}

#[test]
fn nothing_stays_for_the_next_run() {
    let source = r#"function () {
        const seen = [typeof globalThis.left, [].left, typeof JSON.parse, {}.left, Error.left];
        globalThis.left = 1;
        Array.prototype.left = 1;
        Object.prototype.left = 1;
        Error.left = 1;
        JSON.parse = JSON.stringify = undefined;
        __.response.setBody(seen.map(String).join());
    }"#;
    let runtime = quick_js();
    for _ in 0..3 {
        let mut host = MemoryHost::default();
        let role = ScriptRole::Procedure { arguments: "[]" };
        let end = run_for(&runtime, &mut host, source, role, 5_000);
        assert_eq!(
            end.result.unwrap().unwrap(),
            "\"undefined,undefined,function,undefined,undefined\""
        );
    }
}

#[test]
fn changed_built_in_objects_do_not_change_the_api() {
    let mut host = MemoryHost::with_items(&[r#"{"id":"b","n":2}"#, r#"{"id":"a","n":1}"#]);
    let source = r#"function () {
        const no = () => { throw new Error('changed'); };
        JSON.parse = JSON.stringify = Object.keys = Object.freeze = Reflect.construct = no;
        for (const type of [Array, String, Object, Function, RegExp, Map, Promise])
            for (const name of Object.getOwnPropertyNames(type.prototype))
                try { if (name !== 'constructor') type.prototype[name] = no; } catch (e) {}
        Array.prototype[Symbol.iterator] = no;
        Error.captureStackTrace = no;
        __.createDocument(__.getSelfLink(), { id: 'c', n: 3 }, (err, doc) => {
            if (new Error(404, 'x').number !== 404) throw 'numbers are lost';
            console.log('%s', doc.id);
            __.chain().sortByDescending(d => d.n).pluck('id').flatten().value((err, ids) => {
                __.response.setBody({ ids });
            });
        });
    }"#;
    let end = run(&mut host, source, "[]");
    assert_eq!(
        (end.result.unwrap().unwrap(), end.log),
        (r#"{"ids":["c","b","a"]}"#.to_owned(), "c".to_owned())
    );
}

#[test]
fn logs_are_limited() {
    let source = "function () { for (;;) console.log('x'.repeat(100)); }";
    let end = run(&mut MemoryHost::default(), source, "[]");
    let error = end.result.unwrap_err();
    assert!(error.message.contains("Number: 413"), "{}", error.message);
    assert!((4_000..=4_096).contains(&end.log.len()));
}

#[test]
fn endless_queries_are_not_accepted_at_last() {
    let source = r#"function () {
        let count = 0;
        (function again() {
            const accepted = __.queryDocuments(__.getSelfLink(), 'SELECT * FROM c', again);
            __.response.setBody({ ended: !accepted, many: ++count > 100 });
        })();
    }"#;
    let mut host = MemoryHost::with_items(&[r#"{"id":"a"}"#]);
    let role = ScriptRole::Procedure { arguments: "[]" };
    let end = run_for(&quick_js(), &mut host, source, role, 1_000);
    assert_eq!(end.result.unwrap().unwrap(), r#"{"ended":true,"many":true}"#);
}

#[test]
fn chains_are_not_accepted_at_last_and_do_nothing_then() {
    let source = r#"function () {
        let chain = __.chain();
        while (chain.isAccepted) chain = __.chain();
        const value = chain.filter(x => x).map(x => x).sortBy(x => x).flatten().unwind().pluck().value(5);
        __.response.setBody([chain.isAccepted, value.isAccepted]);
    }"#;
    let mut host = MemoryHost::default();
    let role = ScriptRole::Procedure { arguments: "[]" };
    let end = run_for(&quick_js(), &mut host, source, role, 2_000);
    assert_eq!(end.result.unwrap().unwrap(), "[false,false]");
}

#[test]
fn the_queue_is_limited() {
    let source = r#"function () {
        let queued = 0;
        while (__.createDocument(__.getSelfLink(), { text: 'x'.repeat(100000) })) queued++;
        __.response.setBody(queued < 400);
    }"#;
    assert_eq!(answer(&mut MemoryHost::default(), source), "true");
    let source = "function () { let n = 0; while (__.readDocuments(__.getSelfLink(), () => {})) n++; __.response.setBody(n); }";
    assert_eq!(answer(&mut MemoryHost::default(), source), "65536");
}

#[test]
fn no_way_leads_out() {
    let source = r#"function () {
        const names = ['require', 'process', 'std', 'os', 'setTimeout', 'setInterval', 'fetch',
            'XMLHttpRequest', 'Worker', 'print', 'load', 'scriptArgs', 'Deno', 'bjson', 'module'];
        __.response.setBody(names.filter((name) => name in globalThis));
    }"#;
    assert_eq!(answer(&mut MemoryHost::default(), source), "[]");
    for source in [
        "function () { return import('fs').then(() => __.response.setBody('there')); }",
        "function () { Atomics.wait(new Int32Array(new SharedArrayBuffer(8)), 0, 0); }",
    ] {
        let end = run(&mut MemoryHost::default(), source, "[]");
        assert_ne!(end.result.ok().flatten().as_deref(), Some("\"there\""));
    }
}

/// Values of the heap are kept by us while a run goes on; none may be left when the heap goes.
#[test]
fn circles_through_the_api_are_let_go() {
    let source = r#"function () {
        globalThis.self = __;
        globalThis.chain = __.chain().filter(() => globalThis.chain);
        __.response.setBody({ toJSON() { return 1; }, all: globalThis.self });
        try { getContext().abort({ me: globalThis }); } catch (e) {}
        __.createDocument(__.getSelfLink(), {}, () => globalThis.chain.value());
        for (;;) __.filter(() => globalThis);
    }"#;
    for _ in 0..20 {
        assert!(run(&mut MemoryHost::default(), source, "[]").result.is_err());
    }
}
