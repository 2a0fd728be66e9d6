//! The procedures that the service has in every container, other than those that are scripts.
//!
//! One of them is there: the one that the bulk executor libraries and data tools load items with.
//! Nobody documents it; this is what the libraries that are published as source send and read.
//!
//! ```text
//! POST …/sprocs/__.sys.commonBulkInsert    x-ms-documentdb-partitionkeyrangeid: 0
//! [[document, …], {options}, null]         {"count":2,"errorCode":0,"failedDoc":null}
//! ```
//!
//! A document is an object, or a string that has its text. A partition key may be named instead of
//! a range: all documents are then under that key. `count` documents were written, always the first
//! ones; a client sends the rest again. What no library sends is refused by its name.

use partita_engine::{Existing, Import, ImportIds, ImportTarget, KeyRequired, Op, ScriptPath};
use partita_model::{Document, Error, Raw, RawKind, Result, compact_array};

use super::{Incoming, partition_key};

const IMPORT: &str = "__.sys.commonBulkInsert";

/// Others that the service has and we do not.
const OTHERS: [&str; 3] =
    ["__.sys.bulkPatch", "__.sys.commonDelete", "__.sys.tablesBatchOperation"];

/// The levels of the body around a document: the arguments and the list.
const LEVELS_AROUND_ITEM: usize = 2;

pub(super) fn is_system_procedure(name: &str) -> bool {
    name == IMPORT || OTHERS.contains(&name)
}

/// A run of one of them.
pub(super) fn run(
    script: ScriptPath,
    incoming: Incoming<'_>,
    key_required: KeyRequired,
) -> Result<Op> {
    if script.script != IMPORT {
        return Err(unsupported(&format!("the system procedure {}", script.script)));
    }
    let headers = incoming.headers;
    let target = match (headers.partition_key()?, headers.range()?) {
        (None, Some(range)) => ImportTarget::Range(range.id.to_owned()),
        _ => ImportTarget::Key(partition_key(key_required, headers)?),
    };
    let text = compact_array(&incoming.body, LEVELS_AROUND_ITEM)?;
    let mut arguments = Document::new(&text).elements();
    let documents = documents(arguments.next())?;
    let options = Options::read(arguments.next())?;
    if arguments.any(|argument| argument.kind() != RawKind::Null) {
        return Err(unsupported(&format!("more than two arguments of {IMPORT}")));
    }
    Ok(Op::Import(Box::new(Import {
        container: script.container,
        target,
        documents,
        ids: if options.keeps_ids { ImportIds::Given } else { ImportIds::Made },
        existing: match (options.upserts, options.stops_softly) {
            (true, _) => Existing::Replaced,
            (false, true) => Existing::Ends,
            (false, false) => Existing::Fails,
        },
    })))
}

fn documents(argument: Option<Raw<'_>>) -> Result<Vec<Vec<u8>>> {
    let list = argument.filter(|argument| argument.kind() == RawKind::Array);
    let Some(list) = list else {
        return Err(wrong("The first argument", "an array of documents"));
    };
    let document = |(at, raw): (usize, Raw<'_>)| match raw.kind() {
        RawKind::Object => Ok(raw.bytes().to_vec()),
        RawKind::String => {
            let text = raw.to_value();
            Ok(text.as_str().unwrap_or_default().as_bytes().to_vec())
        }
        _ => Err(wrong(&format!("The document {at}"), "an object, or the text of one")),
    };
    list.document().elements().enumerate().map(document).collect()
}

/// What a client wants of an import. Each is false if it is not there.
#[derive(Default)]
struct Options {
    /// Items without an id are refused, not given one.
    keeps_ids: bool,
    /// The first item that is there already ends the import, and what came before it is kept.
    stops_softly: bool,
    /// Items that are there are replaced.
    upserts: bool,
}

impl Options {
    fn read(argument: Option<Raw<'_>>) -> Result<Options> {
        let mut options = Options::default();
        let given = argument.filter(|argument| argument.kind() != RawKind::Null);
        let Some(given) = given else { return Ok(options) };
        if given.kind() != RawKind::Object {
            return Err(wrong("The second argument", "an object with options"));
        }
        for (name, value) in given.document().members() {
            let known = match &*name {
                "disableAutomaticIdGeneration" => Some(&mut options.keeps_ids),
                "softStopOnConflict" => Some(&mut options.stops_softly),
                "enableUpsert" => Some(&mut options.upserts),
                _ => None,
            };
            match (known, value.text()) {
                (Some(known), "true") => *known = true,
                (_, "false" | "null") => {}
                (Some(_), _) => {
                    return Err(wrong(&format!("The option '{name}'"), "true or false"));
                }
                // Two of those are for other APIs: enableBsonSchema and systemCollectionId.
                (None, _) => {
                    let name: String = name.chars().take(40).collect();
                    return Err(unsupported(&format!("the option '{name}' of {IMPORT}")));
                }
            }
        }
        Ok(options)
    }
}

fn wrong(what: &str, expected: &str) -> Error {
    Error::bad_request(format!("{what} of {IMPORT} must be {expected}."))
}

fn unsupported(what: &str) -> Error {
    Error::unsupported(format!("Not supported by this server yet: {what}."))
}
