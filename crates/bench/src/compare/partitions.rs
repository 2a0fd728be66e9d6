//! The same documents in 1 to 256 partitions: reads and writes should not care.

use anyhow::Result;

use super::results::{Better, PARTITA, Results, Row, Sample};
use super::{CompareOptions, note};
use crate::Options;
use crate::partitions::{Measured, measure_all};

pub(super) async fn run(options: &CompareOptions, results: &mut Results) -> Result<()> {
    note("1 to 256 partitions");
    let told = Options {
        binary: options.binary.clone(),
        data_dir: options.data_dir.clone(),
        connections: 64,
        seconds: options.length().as_secs_f64(),
        rounds: usize::try_from(options.rounds())?,
    };
    for side in measure_all(&told).await? {
        for (what, measured) in [("point read", &side.reads), ("upsert", &side.writes)] {
            let name = format!("{what}, partitions: {}", side.partitions);
            let mut row = Row::new(name, "1/s", Better::Higher);
            measured.iter().for_each(|measured| row.add(PARTITA, sample(measured)));
            results.rows.push(row);
        }
    }
    Ok(())
}

fn sample(measured: &Measured) -> Sample {
    Sample {
        operations: measured.rate.answered as u64,
        cpu_us: Some(measured.cpu_us),
        latencies_ms: Some(measured.rate.percentiles_ms),
        ..Sample::of(measured.rate.per_second)
    }
}
