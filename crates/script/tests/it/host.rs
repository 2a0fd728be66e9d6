//! A host in memory, and a short way to run scripts against it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use partita_engine::{
    HostItem, HostLink, HostPage, HostQuery, HostTarget, HostWrite, Indexing, Script, ScriptCall,
    ScriptEnd, ScriptHost, ScriptRole, ScriptRuntime,
};
use partita_model::{Clock, Error, ErrorKind, Result, SeededEntropy, Value};
use partita_script::{Limits, QuickJs};

pub(crate) const SELF_LINK: &str = "dbs/ZBUTAA==/colls/ZBUTAIX9rQA=/";
pub(crate) const ALT_LINK: &str = "dbs/shop/colls/orders";

/// The real time: scripts really run.
struct RealClock(Instant);

impl Clock for RealClock {
    fn unix_millis(&self) -> u64 {
        self.monotonic_nanos() / 1_000_000
    }

    fn monotonic_nanos(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }
}

#[allow(clippy::disallowed_methods)]
pub(crate) fn real_clock() -> Arc<dyn Clock> {
    Arc::new(RealClock(Instant::now()))
}

pub(crate) fn quick_js() -> QuickJs {
    quick_js_with(Limits::default())
}

pub(crate) fn quick_js_with(limits: Limits) -> QuickJs {
    QuickJs::new(limits, real_clock(), Arc::new(SeededEntropy::new(7)))
}

pub(crate) fn script(source: &str) -> Script {
    Script { name: "test".to_owned(), source: source.into(), version: 1 }
}

/// The items of one logical partition.
#[derive(Default)]
pub(crate) struct MemoryHost {
    /// By id.
    pub(crate) items: BTreeMap<String, Value>,
    /// What was asked, shortly.
    pub(crate) asked: Vec<String>,
    /// The next operation fails with this.
    pub(crate) fails: Option<Error>,
    pub(crate) writes: u64,
    /// How long each operation takes.
    pub(crate) pause: Duration,
}

impl MemoryHost {
    pub(crate) fn with_items(texts: &[&str]) -> MemoryHost {
        let mut host = MemoryHost::default();
        for text in texts {
            host.put(Value::parse(text.as_bytes()).unwrap());
        }
        host.asked.clear();
        host
    }

    /// The members that a test wrote, without those of the system.
    pub(crate) fn plain(&self, id: &str) -> String {
        let members = self.items[id].as_object().unwrap().clone();
        let plain = members.into_iter().filter(|(name, _)| !name.starts_with('_'));
        Value::Object(plain.collect()).to_json()
    }

    fn put(&mut self, document: Value) -> HostItem {
        self.writes += 1;
        let id = document.get("id").unwrap().as_str().unwrap().to_owned();
        let known = self.items.get(&id).and_then(|item| item.get("_rid"));
        let rid = known
            .map_or_else(|| format!("rid{}", self.writes), |rid| rid.as_str().unwrap().to_owned());
        let mut object = document.as_object().unwrap().clone();
        object.insert("_rid", rid.as_str());
        object.insert("_self", format!("{SELF_LINK}docs/{rid}/"));
        object.insert("_etag", format!("\"{}\"", self.writes));
        let text = Value::Object(object.clone()).to_json();
        self.items.insert(id, Value::Object(object));
        HostItem { text }
    }

    fn find(&self, link: HostLink<'_>) -> Result<String> {
        let found = match link {
            HostLink::Name(id) => self.items.contains_key(id).then(|| id.to_owned()),
            HostLink::Rid(rid) => self
                .items
                .iter()
                .find(|(_, item)| item.get("_rid").unwrap().as_str() == Some(rid))
                .map(|(id, _)| id.clone()),
        };
        found.ok_or_else(|| Error::not_found("Resource Not Found."))
    }

    fn check_etag(&self, id: &str, if_match: Option<&str>) -> Result<()> {
        let etag = self.items[id].get("_etag").unwrap().as_str();
        if if_match.is_some() && if_match != etag {
            return Err(Error::precondition_failed("One of the specified conditions is not met."));
        }
        Ok(())
    }

    fn ask(&mut self, what: String) -> Result<()> {
        self.asked.push(what);
        thread::sleep(self.pause);
        self.fails.take().map_or(Ok(()), Err)
    }
}

impl ScriptHost for MemoryHost {
    fn write(&mut self, write: HostWrite<'_>) -> Result<HostItem> {
        let indexing = match write.indexing {
            Indexing::ByPolicy => "",
            Indexing::Include => " include",
            Indexing::Exclude => " exclude",
        };
        self.ask(match write.target {
            HostTarget::Create => format!("create{indexing}"),
            HostTarget::Upsert => format!("upsert{indexing}"),
            HostTarget::Replace(_) => format!("replace{indexing}"),
        })?;
        let document = Value::parse(write.document.as_bytes())?;
        let Some(id) = document.get("id").and_then(Value::as_str).map(str::to_owned) else {
            return Err(Error::bad_request("The document must have an id that is a string."));
        };
        match write.target {
            HostTarget::Create if self.items.contains_key(&id) => {
                return Err(Error::conflict("Resource with specified id already exists."));
            }
            HostTarget::Create | HostTarget::Upsert => {}
            HostTarget::Replace(link) => {
                let known = self.find(link)?;
                self.check_etag(&known, write.if_match)?;
            }
        }
        Ok(self.put(document))
    }

    fn read(
        &mut self,
        item: HostLink<'_>,
        if_none_match: Option<&str>,
    ) -> Result<Option<HostItem>> {
        self.ask("read".to_owned())?;
        let item = &self.items[&self.find(item)?];
        let same = if_none_match.is_some() && if_none_match == item.get("_etag").unwrap().as_str();
        Ok((!same).then(|| HostItem { text: item.to_json() }))
    }

    fn delete(&mut self, item: HostLink<'_>, if_match: Option<&str>) -> Result<()> {
        self.ask("delete".to_owned())?;
        let id = self.find(item)?;
        self.check_etag(&id, if_match)?;
        self.items.remove(&id);
        Ok(())
    }

    /// Knows one query: items whose members have the values of the parameters of their names.
    fn query(&mut self, query: HostQuery<'_>) -> Result<HostPage> {
        self.ask(format!("query {} {}", query.text.unwrap_or("all"), query.page_size))?;
        if query.text.is_some_and(|text| !text.starts_with("SELECT")) {
            return Err(Error::bad_request("Syntax error, unexpected token."));
        }
        let skip: usize = match query.continuation {
            None => 0,
            Some(token) => {
                token.parse().map_err(|_| Error::bad_request("Invalid Continuation Token"))?
            }
        };
        let matching = |item: &&Value| {
            let mut parameters = query.parameters.iter();
            parameters.all(|(name, value)| item.get(name.trim_start_matches('@')) == Some(value))
        };
        let rows: Vec<&Value> = self.items.values().filter(matching).collect();
        let until = rows.len().min(skip + query.page_size);
        let continuation = (until < rows.len()).then(|| until.to_string());
        Ok(HostPage {
            rows: rows[skip..until].iter().map(|row| row.to_json()).collect(),
            continuation,
        })
    }
}

/// Runs a procedure with these arguments, for as long as it takes.
pub(crate) fn run(host: &mut MemoryHost, source: &str, arguments: &str) -> ScriptEnd {
    run_role(&quick_js(), host, source, ScriptRole::Procedure { arguments })
}

pub(crate) fn run_role(
    runtime: &QuickJs,
    host: &mut MemoryHost,
    source: &str,
    role: ScriptRole<'_>,
) -> ScriptEnd {
    run_for(runtime, host, source, role, 20_000)
}

pub(crate) fn run_for(
    runtime: &QuickJs,
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
    runtime.run(&call, host)
}

/// What a procedure without arguments answers.
#[track_caller]
pub(crate) fn answer(host: &mut MemoryHost, source: &str) -> String {
    run(host, source, "[]").result.unwrap().unwrap_or_default()
}

/// The value that an expression has in a procedure, as JSON.
#[track_caller]
pub(crate) fn value(expression: &str) -> String {
    let source = format!("function () {{ __.response.setBody({expression}); }}");
    answer(&mut MemoryHost::default(), &source)
}

/// What a procedure without arguments fails with.
#[track_caller]
pub(crate) fn failure(host: &mut MemoryHost, source: &str) -> (ErrorKind, String) {
    let error = run(host, source, "[]").result.unwrap_err();
    (error.kind, error.message)
}
