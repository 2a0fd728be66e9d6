//! What documents take on disk, and what it takes to write them, without a network.
//!
//! A door over an embedded store in this process, 64 threads that create one document after the
//! other, and a look at the directory: right after the last one, and when nothing changes any more.
//! Bytes are those of whole blocks, by journals and by the spaces of the store.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use partita_storage::{EmbeddedSettings, EmbeddedStore, Store};

use crate::{count, data, process};

const CLIENTS: usize = 64;

/// How often, and between what times, it is looked whether the directory still changes.
const SETTLING_MAX: usize = 240;
const SETTLING: Duration = Duration::from_millis(500);
const UNCHANGED: usize = 6;

pub(crate) fn run(directory: &Path, documents: u64) -> Result<()> {
    let store = Arc::new(EmbeddedStore::open(directory, EmbeddedSettings::default())?);
    let door = count::door(Arc::<EmbeddedStore>::clone(&store))?;
    count::make_container(&door)?;
    let next = AtomicU64::new(0);
    let cpu = process::cpu_seconds(std::process::id())?;
    thread::scope(|scope| {
        let write = || loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            if n >= documents {
                return Ok(());
            }
            count::create(&door, &data::document(n))?;
        };
        let writers: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(write)).collect();
        writers.into_iter().try_for_each(|writer| -> Result<()> {
            writer.join().unwrap_or_else(|_| Err(anyhow::anyhow!("a writer panicked")))
        })
    })?;
    let micros = |since: f64| -> Result<f64> {
        Ok((process::cpu_seconds(std::process::id())? - since) * 1e6 / documents as f64)
    };
    tell("written", micros(cpu)?, documents, directory);
    settle(directory);
    tell("at rest", micros(cpu)?, documents, directory);
    drop(door);
    store.close()?;
    tell("closed", micros(cpu)?, documents, directory);
    Ok(())
}

fn settle(directory: &Path) {
    let (mut before, mut unchanged) = (used(directory), 0);
    for _ in 0..SETTLING_MAX {
        thread::sleep(SETTLING);
        let now = used(directory);
        unchanged = if now == before { unchanged + 1 } else { 0 };
        before = now;
        if unchanged == UNCHANGED {
            return;
        }
    }
}

/// One line of JSON: bytes of each part for a document, and processor time so far.
fn tell(when: &str, cpu_micros: f64, documents: u64, directory: &Path) {
    let parts = used(directory);
    let each = |bytes: u64| bytes as f64 / documents as f64;
    let parts_text: Vec<String> =
        parts.iter().map(|(part, bytes)| format!(r#""{part}":{:.0}"#, each(*bytes))).collect();
    let all = each(parts.values().sum());
    let parts_text = parts_text.join(",");
    println!(
        r#"{{"bench":"disk","when":"{when}","cpu_us":{cpu_micros:.1},"bytes":{all:.0},{parts_text}}}"#
    );
}

/// Bytes by part: the journals, and the directory of each space.
fn used(directory: &Path) -> BTreeMap<String, u64> {
    let mut parts = BTreeMap::new();
    gather(directory, "other", &mut parts);
    parts
}

fn gather(directory: &Path, part: &str, parts: &mut BTreeMap<String, u64>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries.flatten() {
        let (Ok(metadata), path) = (entry.metadata(), entry.path()) else { continue };
        let name = entry.file_name().to_string_lossy().into_owned();
        if metadata.is_dir() {
            let is_space = directory.ends_with("keyspaces");
            gather(&path, if is_space { space(&name) } else { part }, parts);
        } else {
            let part = if name.ends_with(".jnl") { "journals" } else { part };
            *parts.entry(part.to_owned()).or_default() += metadata.blocks() * 512;
        }
    }
}

/// The engine numbers its keyspaces as the store makes them.
fn space(number: &str) -> &'static str {
    match number {
        "1" => "items",
        "2" => "index",
        "3" => "feed",
        "4" => "meta",
        _ => "other",
    }
}
