//! What clients ask for: from the plan to an operation of the engine, and its reply.

use std::sync::Arc;
use std::task::Poll;

use partita_engine::{
    BatchAction, BatchMode, BatchOperation, Condition, Context, EtagPattern, Indexing, ItemPath,
    NewItem, OnError, Op, Outcome, ProcedureCall, Returns, SplitAt, TriggerNames,
};
use partita_model::{EpkRange, Patch, Value};
use partita_storage::PartitionId;

use super::commits::Record;
use super::{Checked, Flag, Operation, Running, World, poll, value};
use crate::kind::{Doc, Kind, id_text, path};
use crate::model::Want;
use crate::plan::{Ask, POLICIES};
use crate::scripts::Procedure;
use crate::store::Actor;

impl World {
    /// Begins what a client asks for.
    pub(super) fn ask(&mut self, client: usize, container: usize, ask: &Ask) -> Checked {
        if self.clients[client].running.is_some() {
            return Ok(());
        }
        let ask = self.with_etags(client, container, ask.clone());
        let Some(op) = self.operation(container, &ask)? else { return Ok(()) };
        self.operations += 1;
        self.report.asked += 1;
        let number = self.operations;
        let context = self.context(client, container, &ask);
        let database = Arc::clone(&self.database);
        let operation: Operation = Box::pin(async move {
            // Scripts take turns.
            let turn = database.turn(&op, &context).await;
            let reply = database.execute(op, &context).await;
            drop(turn);
            reply
        });
        let since = key_of(&ask).map_or(0, |key| self.history.changes((container, key)));
        let before = (self.floor(container, &ask), since);
        let record = Record::new(container, ask, self.disk.faults(), before);
        self.records.insert(number, record);
        self.clients[client].running = Some(Running { number, operation, flag: Flag::raised() });
        self.go_on(client)
    }

    /// Polls a client's operation if it may go on.
    pub(super) fn go_on(&mut self, client: usize) -> Checked {
        let Some(mut running) = self.clients[client].running.take() else { return Ok(()) };
        if !running.flag.is_raised() {
            self.clients[client].running = Some(running);
            return Ok(());
        }
        self.report.steps += 1;
        let seconds = self.seconds();
        self.disk.note_actor(Actor::Operation(running.number), seconds);
        let polled = poll(&mut running.operation, &running.flag);
        self.disk.note_actor(Actor::Nobody, seconds);
        self.absorb()?;
        match polled {
            Poll::Pending => {
                self.clients[client].running = Some(running);
                Ok(())
            }
            Poll::Ready(reply) => self.answered(client, running.number, reply),
        }
    }

    /// The highest LSN that anybody was told of the logical partition.
    fn floor(&self, container: usize, ask: &Ask) -> u64 {
        let key = key_of(ask);
        key.and_then(|key| self.containers[container].told.get(&key).copied()).unwrap_or(0)
    }

    fn context(&self, client: usize, container: usize, ask: &Ask) -> Context {
        let token = key_of(ask).and_then(|key| self.clients[client].tokens.get(&(container, key)));
        Context { session: token.cloned(), ..Context::default() }
    }

    /// Fills in the ETags that the client knows.
    fn with_etags(&self, client: usize, container: usize, ask: Ask) -> Ask {
        let Ask::One { key, mut want } = ask else { return ask };
        let known = |id: u8| self.clients[client].etags.get(&(container, key, id)).cloned();
        match &mut want {
            Want::Upsert(Doc { id, .. }, etag)
            | Want::Replace(id, _, etag)
            | Want::Delete(id, etag) => {
                *etag = etag.take().and_then(|_| known(*id));
            }
            Want::Create(_) | Want::Patch { .. } | Want::Read(_) => {}
        }
        Ask::One { key, want }
    }

    /// The ranges of a container with the EPKs that they hold.
    pub(super) fn ranges(&self, container: usize) -> Checked<Option<Vec<(u32, EpkRange)>>> {
        let list =
            Op::ListPartitions { container: path(container), known: None, incremental: false };
        let reply = self.now(list, &Context::default())?;
        let Some(container) = reply.container else { return Ok(None) };
        let partitions = container.partitions.iter();
        Ok(Some(partitions.map(|p| (p.range_id, p.epks.clone())).collect()))
    }

    /// Which container a partition belongs to.
    pub(super) fn owner(&mut self, partition: PartitionId) -> Checked<Option<usize>> {
        for at in 0..self.containers.len() {
            if self.owners.contains_key(&partition) {
                break;
            }
            let list = Op::ListPartitions { container: path(at), known: None, incremental: false };
            let container = self.now(list, &Context::default())?.container;
            let partitions = container.iter().flat_map(|container| &container.partitions);
            self.owners.extend(partitions.map(|partition| (partition.id, at)));
        }
        Ok(self.owners.get(&partition).copied())
    }

    fn operation(&self, container: usize, ask: &Ask) -> Checked<Option<Op>> {
        let kind = self.kind(container);
        let to = path(container);
        Ok(Some(match ask {
            Ask::One { key, want } => single(kind, container, *key, want)?,
            Ask::Batch { key, wants } => {
                let operations = wants.iter().map(|want| part(kind, *key, want)).collect();
                let mode = BatchMode::Atomic { partition_key: Some(kind.key(*key)) };
                Op::Batch { container: to, operations, mode }
            }
            Ask::Bulk { wants } => {
                let Some(ranges) = self.ranges(container)? else { return Ok(None) };
                let Some((range_id, _)) = ranges.get(self.operations as usize % ranges.len())
                else {
                    return Ok(None);
                };
                let operation = |(key, want): &(u8, Want)| BatchOperation {
                    partition_key: Some(kind.key(*key)),
                    ..part(kind, *key, want)
                };
                let range_id = range_id.to_string();
                let mode = BatchMode::Bulk { range_id, on_error: OnError::Continue };
                if wants.is_empty() {
                    return Ok(None);
                }
                Op::Batch { container: to, operations: wants.iter().map(operation).collect(), mode }
            }
            Ask::Call { key, procedure, docs } => {
                let partition_key = Some(kind.key(*key));
                Op::ExecuteProcedure(ProcedureCall {
                    container: to,
                    procedure: procedure.name().into(),
                    partition_key,
                    arguments: arguments(kind, *key, docs),
                    logs: false,
                })
            }
            Ask::Clear { key } => {
                Op::DeletePartitionKey { container: to, partition_key: Some(kind.key(*key)) }
            }
            Ask::Split { .. } | Ask::Merge { .. } | Ask::Policy { .. } => {
                return self.change_of_container(container, ask);
            }
        }))
    }

    fn change_of_container(&self, container: usize, ask: &Ask) -> Checked<Option<Op>> {
        let Some(ranges) = self.ranges(container)? else { return Ok(None) };
        let to = path(container);
        Ok(match ask {
            Ask::Split { which, by_storage } if ranges.len() < 8 => {
                let (id, _) = &ranges[usize::from(*which) % ranges.len()];
                let at = if *by_storage { SplitAt::Storage } else { SplitAt::Midpoint };
                Some(Op::SplitPartition { container: to, range_id: id.to_string(), at })
            }
            Ask::Merge { which } if ranges.len() > 1 => {
                let at = usize::from(*which) % (ranges.len() - 1);
                let range_ids = ranges[at..at + 2].iter().map(|(id, _)| id.to_string()).collect();
                Some(Op::MergePartitions { container: to, range_ids })
            }
            Ask::Policy { which } => {
                let policy = POLICIES[usize::from(*which) % POLICIES.len()];
                let fields = self.kind(container).fields();
                let body = format!(r#"{{"id":"c{container}",{fields},"indexingPolicy":{policy}}}"#);
                let body = value(&body)?;
                Some(Op::ReplaceContainer { container: to, body, condition: None })
            }
            _ => None,
        })
    }
}

/// The logical partition that a request is about, if it is about one.
pub(super) fn key_of(ask: &Ask) -> Option<u8> {
    match ask {
        Ask::One { key, .. }
        | Ask::Batch { key, .. }
        | Ask::Call { key, .. }
        | Ask::Clear { key } => Some(*key),
        Ask::Bulk { .. } | Ask::Split { .. } | Ask::Merge { .. } | Ask::Policy { .. } => None,
    }
}

pub(super) fn item_path(kind: Kind, container: usize, key: u8, id: u8) -> ItemPath {
    ItemPath { container: path(container), id: id_text(id), partition_key: Some(kind.key(key)) }
}

fn new_item(kind: Kind, key: u8, doc: &Doc) -> NewItem {
    let body = kind.document(key, doc).into_bytes();
    NewItem { body, partition_key: Some(kind.key(key)), indexing: Indexing::ByPolicy }
}

fn if_match(etag: Option<&String>) -> Option<Condition> {
    etag.map(|etag| Condition::Match(EtagPattern::Exact(etag.clone())))
}

fn patch_text(n: u64, u: Option<u64>) -> String {
    let u = u.map_or(String::new(), |u| format!(r#"{{"op":"set","path":"/u","value":{u}}},"#));
    format!(
        r#"{{"operations":[{u}{{"op":"set","path":"/n","value":{n}}},
        {{"op":"incr","path":"/c","value":1}},{{"op":"add","path":"/log/-","value":{n}}}]}}"#
    )
}

fn single(kind: Kind, container: usize, key: u8, want: &Want) -> Checked<Op> {
    let at = |id: u8| item_path(kind, container, key, id);
    let to = path(container);
    Ok(match want {
        Want::Create(doc) => Op::CreateItem { container: to, item: new_item(kind, key, doc) },
        Want::Upsert(doc, etag) => {
            let (item, condition) = (new_item(kind, key, doc), if_match(etag.as_ref()));
            Op::UpsertItem { container: to, item, condition }
        }
        Want::Replace(id, doc, etag) => {
            let (item, condition) = (new_item(kind, key, doc), if_match(etag.as_ref()));
            Op::ReplaceItem { path: at(*id), item, condition }
        }
        Want::Patch { id, n, u } => {
            let patch = Patch::parse(patch_text(*n, *u).as_bytes());
            let patch = patch.map_err(|error| format!("a patch of ours is wrong: {error}"))?;
            Op::PatchItem { path: at(*id), patch, filter: None, condition: None }
        }
        Want::Delete(id, etag) => {
            Op::DeleteItem { path: at(*id), condition: if_match(etag.as_ref()) }
        }
        Want::Read(id) => Op::ReadItem { path: at(*id), condition: None },
    })
}

fn part(kind: Kind, key: u8, want: &Want) -> BatchOperation {
    let body = |doc: &Doc| kind.document(key, doc).into_bytes();
    let indexing = Indexing::ByPolicy;
    let action = match want {
        Want::Create(doc) => BatchAction::Create { body: body(doc), indexing },
        Want::Upsert(doc, _) => BatchAction::Upsert { body: body(doc), indexing },
        Want::Replace(id, doc, _) => {
            BatchAction::Replace { id: id_text(*id), body: body(doc), indexing }
        }
        Want::Patch { id, n, u } => {
            BatchAction::Patch { id: id_text(*id), body: patch_text(*n, *u).into_bytes() }
        }
        Want::Delete(id, _) => BatchAction::Delete { id: id_text(*id) },
        Want::Read(id) => BatchAction::Read { id: id_text(*id) },
    };
    BatchOperation {
        action,
        partition_key: None,
        condition: None,
        ttl_seconds: None,
        triggers: TriggerNames::default(),
        returns: Returns::Item,
    }
}

/// Two ids and two documents, as a list of texts.
fn arguments(kind: Kind, key: u8, docs: &[Doc; 2]) -> String {
    let ids = docs.iter().map(|doc| id_text(doc.id));
    let texts = docs.iter().map(|doc| kind.document(key, doc));
    Value::Array(ids.chain(texts).map(Value::from).collect()).to_json()
}

/// What a procedure writes.
pub(super) fn writes_of(procedure: Procedure, docs: &[Doc; 2]) -> Vec<Doc> {
    match procedure {
        Procedure::Pair => docs.to_vec(),
        Procedure::Tally => vec![docs[0]],
        Procedure::Rollback | Procedure::Look => Vec::new(),
    }
}

/// The text of an item in an outcome.
pub(super) fn item_of(outcome: &Outcome) -> Option<Value> {
    match outcome {
        Outcome::Item { body, .. } => Value::parse(&body.0).ok(),
        _ => None,
    }
}
