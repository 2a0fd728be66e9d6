//! How fast scripts run without a database: a procedure that creates ten documents, and a function
//! of a query, both within this process and in a worker.
//!
//! ```text
//! cargo build --release -p partita-script
//! cargo run --release -p partita-script --example speed -- target/release/partita-script-worker
//! ```

#![allow(clippy::print_stdout, reason = "the results are this program's output")]
#![allow(clippy::disallowed_methods, reason = "measuring needs the clock")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use partita_engine::{
    HostItem, HostLink, HostPage, HostQuery, HostWrite, Script, ScriptCall, ScriptHost, ScriptRole,
    ScriptRuntime,
};
use partita_model::{Clock, Result, SeededEntropy, Value};
use partita_script::{Limits, QuickJs, WorkerCommand, Workers};

const MEASURED: Duration = Duration::from_secs(2);

const EMPTY: &str = "function () {}";

const TEN_CREATES: &str = r#"function (count) {
    const collection = getContext().getCollection();
    let created = 0;
    function create() {
        const accepted = collection.createDocument(
            collection.getSelfLink(),
            { id: 'item' + created, pk: 'a', name: 'something', amount: created * 1.5, tags: ['x', 'y'] },
            function (error) {
                if (error) throw error;
                created++;
                if (created < count) create(); else getContext().getResponse().setBody(created);
            });
        if (!accepted) getContext().getResponse().setBody(created);
    }
    create();
}"#;

const FUNCTION: &str = "function tax(price, rate) { return price > 100 ? price * rate : 0; }";

struct RealClock(Instant);

impl Clock for RealClock {
    fn unix_millis(&self) -> u64 {
        self.monotonic_nanos() / 1_000_000
    }

    fn monotonic_nanos(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// A host that says yes to everything.
struct Agreeable;

impl ScriptHost for Agreeable {
    fn write(&mut self, write: HostWrite<'_>) -> Result<HostItem> {
        Ok(HostItem { text: write.document.to_owned() })
    }

    fn read(&mut self, _: HostLink<'_>, _: Option<&str>) -> Result<Option<HostItem>> {
        Ok(None)
    }

    fn delete(&mut self, _: HostLink<'_>, _: Option<&str>) -> Result<()> {
        Ok(())
    }

    fn query(&mut self, _: HostQuery<'_>) -> Result<HostPage> {
        Ok(HostPage::default())
    }
}

fn main() -> Result<()> {
    let clock: Arc<dyn Clock> = Arc::new(RealClock(Instant::now()));
    let entropy = Arc::new(SeededEntropy::new(1));
    let limits = Limits { functions_millis_max: u64::MAX, ..Limits::default() };
    measure("in this process", &QuickJs::new(limits, Arc::clone(&clock), entropy))?;
    if let Some(program) = std::env::args_os().nth(1) {
        let command = WorkerCommand { program: program.into(), arguments: Vec::new() };
        measure("in a worker", &Workers::new(command, 1, clock, || ()))?;
    }
    Ok(())
}

fn measure(place: &str, runtime: &dyn ScriptRuntime) -> Result<()> {
    for (what, source) in [("empty procedures", EMPTY), ("procedures of 10 creates", TEN_CREATES)] {
        let script = Script { name: "speed".to_owned(), source: source.into(), version: 1 };
        let call = ScriptCall {
            script: &script,
            role: ScriptRole::Procedure { arguments: "[10]" },
            logs: false,
            millis_max: 5_000,
            self_link: "dbs/a/colls/b/",
            alt_link: "dbs/c/colls/d",
        };
        report(what, place, || runtime.run(&call, &mut Agreeable).result.map(|_| ()))?;
    }
    let script = Script { name: "tax".to_owned(), source: FUNCTION.into(), version: 1 };
    let functions = runtime.functions(vec![script]);
    let arguments = [Some(Value::from(120)), Some(Value::from(0.25))];
    report("calls of a function", place, || functions.call("tax", &arguments).map(|_| ()))
}

fn report(what: &str, place: &str, mut work: impl FnMut() -> Result<()>) -> Result<()> {
    let started = Instant::now();
    let mut count = 0_u32;
    while started.elapsed() < MEASURED {
        work()?;
        count += 1;
    }
    let rate = f64::from(count) / started.elapsed().as_secs_f64();
    println!("{what} {place}: {rate:.0}/s, {:.1} µs each", 1e6 / rate);
    Ok(())
}
