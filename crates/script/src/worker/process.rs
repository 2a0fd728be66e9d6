//! The worker's side: takes calls, one at a time, until the server is gone.

use std::io::{self, Read, Write};
use std::sync::Arc;

use partita_engine::{
    HostItem, HostLink, HostPage, HostQuery, HostWrite, Script, ScriptHost, ScriptRuntime,
};
use partita_model::{Clock, Entropy, Error, Result};
use partita_query::Functions;

use super::courtesy::Courtesy;
use super::guard::Guard;
use super::message::{
    CALL, CHECK, END, LAST, LOAD, RUN, Reply, ask_delete, ask_query, ask_read, ask_write, get_call,
    get_reply, get_script, get_value, put_end, put_result, put_value,
};
use super::wire::{Decoder, Encoder, broken};
use crate::machine::Limits;
use crate::runtime::QuickJs;

/// How long a text may take to be compiled.
const CHECK_MILLIS_MAX: u64 = 2_000;

/// Runs scripts for a server at the other end of `input` and `output`, until it goes away.
pub fn serve(
    input: &mut (dyn Read + Send),
    output: &mut (dyn Write + Send),
    limits: Limits,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    courtesy: Arc<dyn Courtesy>,
) -> io::Result<()> {
    let guard = Guard::start(Arc::clone(&clock), courtesy)?;
    let answer = || Encoder::default().byte(if guard.stands_back() { LAST } else { END });
    let runtime = QuickJs::new(limits, clock, entropy);
    let mut functions = runtime.functions(Vec::new());
    while let Some(mut frame) = Decoder::receive(input)? {
        match frame.byte()? {
            CHECK => {
                guard.begin();
                let script = get_script(&mut frame)?;
                let checked = guard.during(CHECK_MILLIS_MAX, || runtime.check(&script));
                put_result(answer(), &checked, |frame, ()| frame).send(output)?;
            }
            RUN => {
                guard.begin();
                let call = get_call(&mut frame)?;
                let mut host = RemoteHost { input, output };
                let end = guard.during(call.millis_max, || runtime.run(&call.as_call(), &mut host));
                put_end(answer(), &end).send(output)?;
            }
            LOAD => {
                guard.begin();
                let used_nanos = frame.number()?;
                functions = runtime.functions_after(used_nanos, get_scripts(&mut frame)?);
            }
            CALL => {
                let millis = limits.functions_millis_max;
                let before = guard.processor_nanos();
                let result = guard.during(millis, || call(&functions, &mut frame))?;
                let nanos = guard.processor_nanos().saturating_sub(before);
                let put = |frame: Encoder, value: &Option<_>| put_value(frame, value.as_ref());
                put_result(answer().number(nanos), &result, put).send(output)?;
            }
            _ => return Err(broken()),
        }
    }
    Ok(())
}

fn get_scripts(frame: &mut Decoder) -> io::Result<Vec<Script>> {
    (0..frame.count()?).map(|_| get_script(frame)).collect()
}

fn call(
    functions: &Arc<dyn Functions>,
    frame: &mut Decoder,
) -> io::Result<Result<Option<partita_model::Value>>> {
    let name = frame.text()?;
    let arguments: io::Result<Vec<_>> = (0..frame.count()?).map(|_| get_value(frame)).collect();
    Ok(functions.call(&name, &arguments?))
}

/// The host at the other end.
struct RemoteHost<'a> {
    input: &'a mut (dyn Read + Send),
    output: &'a mut (dyn Write + Send),
}

impl RemoteHost<'_> {
    fn ask(&mut self, question: &Encoder) -> Result<Reply> {
        match self.exchange(question) {
            Ok(Some(Reply::Failed(error))) => Err(error),
            Ok(Some(reply)) => Ok(reply),
            // Nobody is there who could be told.
            Ok(None) | Err(_) => Err(gone()),
        }
    }

    fn exchange(&mut self, question: &Encoder) -> io::Result<Option<Reply>> {
        question.send(self.output)?;
        match Decoder::receive(self.input)? {
            Some(mut frame) => get_reply(&mut frame).map(Some),
            None => Ok(None),
        }
    }
}

fn gone() -> Error {
    Error::internal("the server of this script worker has gone")
}

impl ScriptHost for RemoteHost<'_> {
    fn write(&mut self, write: HostWrite<'_>) -> Result<HostItem> {
        match self.ask(&ask_write(&write))? {
            Reply::Item(item) => Ok(item),
            _ => Err(gone()),
        }
    }

    fn read(
        &mut self,
        item: HostLink<'_>,
        if_none_match: Option<&str>,
    ) -> Result<Option<HostItem>> {
        match self.ask(&ask_read(item, if_none_match))? {
            Reply::Item(item) => Ok(Some(item)),
            Reply::Nothing => Ok(None),
            _ => Err(gone()),
        }
    }

    fn delete(&mut self, item: HostLink<'_>, if_match: Option<&str>) -> Result<()> {
        match self.ask(&ask_delete(item, if_match))? {
            Reply::Nothing => Ok(()),
            _ => Err(gone()),
        }
    }

    fn query(&mut self, query: HostQuery<'_>) -> Result<HostPage> {
        match self.ask(&ask_query(&query))? {
            Reply::Page(page) => Ok(page),
            _ => Err(gone()),
        }
    }
}
