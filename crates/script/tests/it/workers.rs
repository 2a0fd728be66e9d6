//! Scripts in processes of their own, and those that no process survives.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use partita_engine::{Script, ScriptCall, ScriptEnd, ScriptRole, ScriptRuntime, WriteKind};
use partita_model::{Error, ErrorKind, Value};
use partita_script::{WorkerCommand, Workers};

use crate::host::{ALT_LINK, MemoryHost, SELF_LINK, real_clock, script};

fn workers(workers_max: usize) -> Workers {
    let program = env!("CARGO_BIN_EXE_partita-script-worker").into();
    let command = WorkerCommand { program, arguments: Vec::new() };
    Workers::new(command, workers_max, real_clock(), || ())
}

fn run(
    workers: &Workers,
    host: &mut MemoryHost,
    source: &str,
    role: ScriptRole<'_>,
    millis_max: u64,
) -> ScriptEnd {
    let script = script(source);
    let call = ScriptCall {
        script: &script,
        role,
        logs: true,
        millis_max,
        self_link: SELF_LINK,
        alt_link: ALT_LINK,
    };
    workers.run(&call, host)
}

fn procedure(workers: &Workers, host: &mut MemoryHost, source: &str) -> ScriptEnd {
    run(workers, host, source, ScriptRole::Procedure { arguments: "[1]" }, 20_000)
}

#[test]
fn every_operation_goes_to_the_host_and_comes_back() {
    let workers = workers(1);
    let mut host = MemoryHost::with_items(&[r#"{"id":"b","n":7}"#]);
    let source = r#"function (one) {
        const link = __.getSelfLink(), seen = [one];
        __.createDocument(link, { id: 'a', n: 1 }, { indexAction: 'exclude' }, (err, doc) => {
            __.replaceDocument(doc._self, { id: 'a', n: 2 }, { etag: doc._etag });
            __.upsertDocument(link, { id: 'c' }, { indexAction: 'include' });
            __.readDocument(doc._self, { ifNoneMatch: '"0"' }, (err, now) => {
                seen.push(now.n);
                __.readDocument(doc._self, { ifNoneMatch: now._etag }, (err, no, info) => seen.push(info.notModified));
            });
            __.deleteDocument(__.getAltLink() + '/docs/c', { etag: '"0"' }, (err) => seen.push(err.number));
            __.deleteDocument(__.getAltLink() + '/docs/c');
            __.queryDocuments(link, { query: 'SELECT', parameters: [{ name: '@n', value: 7 }] }, { pageSize: 5 },
                (err, docs) => seen.push(docs.length));
            __.readDocuments(link, { pageSize: 1 }, (err, docs, info) => {
                __.chain().sortByDescending(d => d.id).pluck('id').value((err, ids) => {
                    __.response.setBody(seen.concat(docs.length, info.continuation, ids));
                    console.log('logged');
                });
            });
        });
    }"#;
    let end = procedure(&workers, &mut host, source);
    assert_eq!(end.result.unwrap().unwrap(), r#"[1,2,412,1,true,1,"1","b","a"]"#);
    assert_eq!(end.log, "logged");
    let asked = [
        "create exclude",
        "replace",
        "upsert include",
        "read",
        "delete",
        "delete",
        "query SELECT 5",
        "query all 1",
        "read",
        "query all 1000",
    ];
    assert_eq!(host.asked, asked);
}

#[test]
fn triggers_have_their_documents() {
    let workers = workers(1);
    let mut host = MemoryHost::default();
    let source = "function () { const d = __.request.getBody(); d.by = __.request.getOperationType(); __.request.setBody(d); }";
    let role = ScriptRole::PreTrigger { operation: WriteKind::Replace, document: Some("{}") };
    let end = run(&workers, &mut host, source, role, 5_000);
    assert_eq!(end.result.unwrap().unwrap(), r#"{"by":"Replace"}"#);
    let source =
        "function () { __.response.setBody([__.request.getBody(), __.response.getBody()]); }";
    let role = ScriptRole::PostTrigger {
        operation: WriteKind::Create,
        document: Some("1"),
        answer: Some("2"),
    };
    let end = run(&workers, &mut host, source, role, 5_000);
    assert_eq!(end.result.unwrap().unwrap(), "[1,2]");
    let role =
        ScriptRole::PostTrigger { operation: WriteKind::Delete, document: None, answer: None };
    assert_eq!(run(&workers, &mut host, "function () {}", role, 5_000).result, Ok(None));
}

#[test]
fn failures_keep_their_kind() {
    let workers = workers(1);
    let mut host = MemoryHost::default();
    for (source, kind) in [
        ("function () { throw new Error('x'); }", ErrorKind::BadRequest),
        ("function () { __.response.setBody('x'.repeat(5 << 20)); }", ErrorKind::TooLarge),
        ("function () { 'x'.repeat(1 << 28); }", ErrorKind::Forbidden),
    ] {
        assert_eq!(
            procedure(&workers, &mut host, source).result.unwrap_err().kind,
            kind,
            "{source}"
        );
    }
    let role = ScriptRole::Procedure { arguments: "[]" };
    let end = run(&workers, &mut host, "function () { for (;;); }", role, 100);
    assert_eq!(end.result.unwrap_err().kind, ErrorKind::Timeout);
    for kind in [ErrorKind::RetryWith, ErrorKind::Throttled { retry_after_ms: 5, bucket: None }] {
        host.fails = Some(Error::new(kind.clone(), "as it is"));
        let end = procedure(
            &workers,
            &mut host,
            "function () { __.createDocument(__.getSelfLink(), {}, () => {}); }",
        );
        assert_eq!(end.result, Err(Error::new(kind, "as it is")));
    }
    let error = workers.check(&script("function () {\n var = 5; }")).unwrap_err();
    assert!(error.kind == ErrorKind::BadRequest && error.message.contains("test.js:2"), "{error}");
    workers.check(&script("function () {}")).unwrap();
}

/// QuickJS does not ask in between whether it must stop: the process has to go.
#[test]
fn scripts_that_cannot_be_stopped_are_ended_with_their_process() {
    let workers = workers(2);
    for source in [
        "function () { [].reverse.call({ length: 2 ** 53 - 1 }); }",
        "function () { [].sort.call({ length: 2 ** 53 - 1 }); }",
        "function () { String.raw({ raw: { length: 2 ** 53 - 1 } }); }",
        "function () { new Array(2 ** 32 - 1).join(); }",
        "function () { const x = (1n << 1000000n) - 1n; for (;;) x.toString(); }",
        "function () { const x = 'a'.repeat(1e7), y = 'a'.repeat(1e7); for (;;) x === y; }",
    ] {
        let mut host = MemoryHost::default();
        let role = ScriptRole::Procedure { arguments: "[]" };
        let error = run(&workers, &mut host, source, role, 100).result.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Timeout, "{source}: {}", error.message);
        assert!(error.message.contains("'test'"), "{}", error.message);
        // And the next one is served as if nothing had been.
        let end = procedure(&workers, &mut host, "function () { __.response.setBody(1); }");
        assert_eq!(end.result.unwrap().unwrap(), "1");
    }
}

#[test]
fn more_calls_than_workers_wait_for_each_other() {
    let workers = Arc::new(workers(2));
    let threads: Vec<_> = (0..6)
        .map(|_| {
            let workers = Arc::clone(&workers);
            thread::Builder::new().spawn(move || {
                for _ in 0..10 {
                    let mut host = MemoryHost::default();
                    let source = "function () { for (let i = 0; i < 10; i++) __.createDocument(__.getSelfLink(), {}); }";
                    procedure(&workers, &mut host, source).result.unwrap();
                    assert_eq!(host.items.len(), 10);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.unwrap().join().unwrap();
    }
}

#[test]
fn functions_of_a_query_have_a_worker_until_it_is_done() {
    let workers = workers(1);
    let named =
        |name: &str, source: &str| Script { name: name.into(), source: source.into(), version: 1 };
    for _ in 0..3 {
        let functions = workers.functions(vec![
            named("count", "function () { globalThis.n = (globalThis.n || 0) + 1; return n; }"),
            named("list", "function (a, b) { return b === undefined ? [a] : undefined; }"),
        ]);
        assert_eq!(functions.call("count", &[]).unwrap(), Some(Value::from(1)));
        assert_eq!(functions.call("count", &[]).unwrap(), Some(Value::from(2)));
        assert_eq!(
            functions.call("list", &[Some(Value::Null), None]).unwrap().unwrap().to_json(),
            "[null]"
        );
        assert_eq!(functions.call("list", &[None, Some(Value::Null)]).unwrap(), None);
        let error = functions.call("missing", &[]).unwrap_err();
        assert!(error.message.contains("udf.missing"), "{error}");
        // A procedure may run meanwhile, also one whose query calls functions.
        let end = procedure(
            &workers,
            &mut MemoryHost::default(),
            "function () { __.response.setBody(1); }",
        );
        assert_eq!(end.result.unwrap().unwrap(), "1");
    }
}

#[test]
fn a_query_gives_its_worker_to_those_who_wait_for_it_and_its_time_goes_on() {
    let workers = workers(1);
    let named = |source: &str| vec![Script { name: "f".into(), source: source.into(), version: 1 }];
    let spin = "function (ms) { const end = Date.now() + ms; while (Date.now() < end); return 1; }";
    let long = workers.functions(named(spin));
    let one = Some(Value::from(1));
    let millis = |ms: i32| [Some(Value::from(ms))];
    assert_eq!(long.call("f", &millis(10)).unwrap(), one);
    thread::scope(|scope| {
        // They come again and again, and keep their turns: who waits gets one all the same.
        let others: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    let functions = workers.functions(named(spin));
                    for _ in 0..8 {
                        assert_eq!(functions.call("f", &millis(20)).unwrap(), one);
                    }
                })
            })
            .collect();
        while !others.iter().all(|other| other.is_finished()) {
            assert_eq!(long.call("f", &millis(10)).unwrap(), one);
            assert_eq!(long.take_millis(), 0, "nobody measures it here");
        }
    });
    // All calls of a page have their time together, whoever made them.
    let error = long.call("f", &millis(60_000)).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Timeout, "{error}");
}

#[test]
fn workers_with_nothing_to_do_end_when_they_are_told_and_are_started_again() {
    let workers = workers(2);
    let mut host = MemoryHost::default();
    assert_eq!(workers.processes(), []);
    for _ in 0..2 {
        let end = procedure(&workers, &mut host, "function () { __.response.setBody(1); }");
        assert_eq!(end.result.unwrap().unwrap(), "1");
        let before = workers.processes();
        assert_eq!(before.len(), 1);
        let source = "function () { return 1; }";
        let named = Script { name: "f".into(), source: source.into(), version: 1 };
        let functions = workers.functions(vec![named]);
        functions.call("f", &[]).unwrap();
        let [_, busy] = workers.processes()[..] else { panic!("one more for functions") };
        workers.end_idle();
        assert_eq!(workers.processes(), [busy], "what works on is left alone");
        functions.call("f", &[]).unwrap();
        drop(functions);
        workers.end_idle();
        assert_eq!(workers.processes(), []);
    }
}

#[test]
fn a_worker_that_ended_meanwhile_is_replaced() {
    let arguments = vec!["3".into(), env!("CARGO_BIN_EXE_partita-script-worker").into()];
    let command = WorkerCommand { program: "/usr/bin/timeout".into(), arguments };
    let workers = Workers::new(command, 1, real_clock(), || ());
    let mut host = MemoryHost::default();
    workers.check(&script("function () {}")).unwrap();
    thread::sleep(Duration::from_secs(4));
    let end = procedure(&workers, &mut host, "function () { __.response.setBody(1); }");
    assert_eq!(end.result.unwrap().unwrap(), "1");
}

#[test]
fn a_program_that_is_no_worker_is_an_error_of_the_server() {
    for program in ["/nowhere/at/all", "/bin/false"] {
        let command = WorkerCommand { program: program.into(), arguments: Vec::new() };
        let workers = Workers::new(command, 1, real_clock(), || ());
        for _ in 0..2 {
            let end = procedure(&workers, &mut MemoryHost::default(), "function () {}");
            let kind = end.result.unwrap_err().kind;
            assert!(matches!(kind, ErrorKind::Unavailable | ErrorKind::Internal), "{kind:?}");
        }
    }
}

#[test]
fn the_rest_of_a_run_that_asks_for_long_goes_on_in_a_thread_that_stands_back() {
    static STOOD_BACK: AtomicUsize = AtomicUsize::new(0);
    let program = env!("CARGO_BIN_EXE_partita-script-worker").into();
    let command = WorkerCommand { program, arguments: Vec::new() };
    let stand_back = || {
        STOOD_BACK.fetch_add(1, Ordering::Relaxed);
    };
    let workers = Workers::new(command, 1, real_clock(), stand_back);
    let source = "function (last) { let n = 0; (function next(error) { \
                  if (error) throw error; \
                  if (++n > last) return __.response.setBody(n); \
                  __.createDocument(__.getSelfLink(), { id: 'i' + n }, next); })(); }";
    let create = |host: &mut MemoryHost, arguments: &str| {
        run(&workers, host, source, ScriptRole::Procedure { arguments }, 20_000).result
    };

    let mut host = MemoryHost { pause: Duration::from_millis(5), ..MemoryHost::default() };
    assert_eq!(create(&mut host, "[2]").unwrap().unwrap(), "3");
    assert_eq!(STOOD_BACK.load(Ordering::Relaxed), 0);

    let mut host = MemoryHost { pause: Duration::from_millis(5), ..MemoryHost::default() };
    assert_eq!(create(&mut host, "[20]").unwrap().unwrap(), "21");
    assert_eq!((host.items.len(), STOOD_BACK.load(Ordering::Relaxed)), (20, 1));

    // What ends a run ends it there as well: the item is there already.
    host.items.retain(|id, _| id == "i15");
    let error = create(&mut host, "[20]").unwrap_err();
    assert!(error.message.contains("already exists"), "{error}");
    assert_eq!((host.items.len(), STOOD_BACK.load(Ordering::Relaxed)), (15, 2));
    // The worker serves on.
    let mut host = MemoryHost::default();
    assert_eq!(create(&mut host, "[1]").unwrap().unwrap(), "2");
}
