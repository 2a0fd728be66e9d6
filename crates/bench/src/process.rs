//! What a process and all its descendants use, as Linux tells.
//!
//! A server may be several processes (PostgreSQL has one for each connection, Partita runs scripts
//! in workers): only the sum can be compared.

use std::collections::HashMap;

use anyhow::{Context, Result};

/// Processor seconds of a process, its descendants, and those of them that have ended.
pub(crate) fn cpu_seconds(root: u32) -> Result<f64> {
    let ticks: f64 = tree(root)?.values().map(|status| status.ticks).sum();
    // Linux counts in hundredths of a second on every architecture we run on.
    Ok(ticks / 100.0)
}

/// Megabytes of memory of a process and its descendants. What they share is counted once.
pub(crate) fn memory_mb(root: u32) -> Result<f64> {
    let pids = tree(root)?;
    let kilobytes: f64 = pids.keys().filter_map(|pid| proportional(*pid)).sum();
    Ok(kilobytes / 1_024.0)
}

struct Status {
    parent: u32,
    ticks: f64,
}

fn tree(root: u32) -> Result<HashMap<u32, Status>> {
    let mut all: HashMap<u32, Status> = HashMap::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        if let Some(status) = status(pid) {
            all.insert(pid, status);
        }
    }
    let mut found = HashMap::new();
    let first = all.remove(&root).with_context(|| format!("process {root} is gone"))?;
    found.insert(root, first);
    loop {
        let children: Vec<u32> = all
            .iter()
            .filter(|(_, status)| found.contains_key(&status.parent))
            .map(|(pid, _)| *pid)
            .collect();
        if children.is_empty() {
            return Ok(found);
        }
        found.extend(children.iter().filter_map(|pid| Some((*pid, all.remove(pid)?))));
    }
}

/// User and system time, its own and that of children it has waited for; see proc(5).
fn status(pid: u32) -> Option<Status> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let field = |n: usize| fields.get(n).and_then(|field| field.parse::<f64>().ok());
    let parent = fields.get(1)?.parse().ok()?;
    Some(Status { parent, ticks: field(11)? + field(12)? + field(13)? + field(14)? })
}

/// Kilobytes, where a page that several processes share counts as a part for each.
fn proportional(pid: u32) -> Option<f64> {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_process_with_a_child_is_measured_as_one() {
        let mut shell = Command::new("sh");
        let mut child =
            shell.args(["-c", "sleep 60 & wait"]).stdout(Stdio::null()).spawn().unwrap();
        let has_child = || tree(child.id()).unwrap().len() == 2;
        while !has_child() {
            std::thread::yield_now();
        }
        assert!(memory_mb(child.id()).unwrap() > 0.0);
        assert!(cpu_seconds(child.id()).unwrap() >= 0.0);
        for pid in tree(child.id()).unwrap().into_keys().filter(|pid| *pid != child.id()) {
            Command::new("kill").arg(pid.to_string()).status().unwrap();
        }
        child.wait().unwrap();
        assert!(cpu_seconds(child.id()).is_err());
    }
}
