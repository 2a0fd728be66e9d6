//! Facts about the machine and the run that belong to every number.

use super::CompareOptions;

pub(super) fn facts(options: &CompareOptions) -> Vec<(String, String)> {
    let cores = std::thread::available_parallelism().map_or(0, |cores| cores.get());
    let mut facts = vec![
        ("cores".to_owned(), cores.to_string()),
        ("system".to_owned(), format!("{} {}", std::env::consts::OS, std::env::consts::ARCH)),
        ("rounds".to_owned(), options.rounds().to_string()),
        ("seconds".to_owned(), options.length().as_secs_f64().to_string()),
        ("documents".to_owned(), options.documents().to_string()),
        ("growth_max".to_owned(), options.growth_max().to_string()),
    ];
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let memory = read("/proc/meminfo").and_then(|text| {
        let kilobytes: u64 =
            text.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse().ok()?;
        Some(format!("{} GB", kilobytes >> 20))
    });
    facts.extend(memory.map(|memory| ("memory".to_owned(), memory)));
    // How busy the machine was when the run began: with others on it, only ratios mean something.
    let load = read("/proc/loadavg").and_then(|text| Some(text.split(' ').next()?.to_owned()));
    facts.extend(load.map(|load| ("load_at_start".to_owned(), load)));
    facts
}
