//! What was promised, and whether it held in this run.

use super::growth::{self, SIZES_TEXT};
use super::peers::{BEFORE, COSMIUM, POSTGRES, VERCEL};
use super::results::{PARTITA, Results, Row};
use super::table::{aligned, heading, number};
use super::workload::{CREATE_MANY, POINT_READ, POINT_READ_TOGETHER};
use super::{BARE, DISK_BYTES, RAW, START_UP};
use crate::questions::QUESTIONS;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Held,
    Missed,
    NotMeasured,
}

impl Verdict {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Verdict::Held => "held",
            Verdict::Missed => "missed",
            Verdict::NotMeasured => "not measured",
        }
    }
}

/// A target, and what became of it.
#[derive(Clone, Debug)]
pub(crate) struct Checked {
    pub(crate) text: String,
    pub(crate) verdict: Verdict,
    pub(crate) measured: String,
}

pub(crate) fn check(results: &Results) -> Vec<Checked> {
    let mut all = Vec::new();
    // What was promised for point reads is asked of both ways to send them.
    for read in [POINT_READ, POINT_READ_TOGETHER] {
        let promised = [(0.7, BARE), (10.0, VERCEL), (3.0, COSMIUM), (1.5, POSTGRES)];
        all.extend(
            promised.map(|(least, peer)| at_least(results, least, peer, &[read.to_owned()])),
        );
    }
    all.extend([
        at_least(results, 3.0, POSTGRES, &[CREATE_MANY.to_owned()]),
        at_least(results, 0.5, RAW, &[CREATE_MANY.to_owned()]),
        at_least(results, 2.0, POSTGRES, &largest(results, true)),
        at_least(results, 50.0, VERCEL, &questions(true)),
        at_least(results, 50.0, COSMIUM, &questions(true)),
        at_least(results, 2.0, POSTGRES, &largest(results, false)),
        start_up(results),
        at_least(results, 1.0, POSTGRES, &largest_disk(results)),
    ]);
    all.extend(growth::OPERATIONS.iter().map(|name| flat(results, name)));
    if results.present().any(|name| name == BEFORE) {
        let operations = [POINT_READ, POINT_READ_TOGETHER, CREATE_MANY];
        let queries = QUESTIONS.iter().map(|question| question.name);
        let names = operations.into_iter().chain(queries);
        all.extend(names.map(|name| at_least(results, 0.95, BEFORE, &[name.to_owned()])));
    }
    all
}

fn questions(is_indexed: bool) -> Vec<String> {
    let asked = QUESTIONS.iter().filter(|question| match is_indexed {
        true => question.is_indexed,
        false => question.name == "query: full scan",
    });
    asked.map(|question| question.name.to_owned()).collect()
}

/// The same questions where there are most documents, if growth was measured.
fn largest(results: &Results, is_indexed: bool) -> Vec<String> {
    let small = questions(is_indexed);
    let Some(size) = growth::largest(results, POSTGRES) else { return small };
    let grown: Vec<String> = small.iter().map(|name| growth::row_name(name, size)).collect();
    if grown.iter().all(|name| results.row(name).is_some()) { grown } else { small }
}

/// What a document takes, where there are most.
fn largest_disk(results: &Results) -> Vec<String> {
    let size = growth::largest(results, POSTGRES);
    vec![size.map_or(DISK_BYTES.to_owned(), |size| growth::row_name(DISK_BYTES, size))]
}

/// In all of these rows Partita is so many times better.
fn at_least(results: &Results, least: f64, peer: &str, rows: &[String]) -> Checked {
    let what = match rows {
        [row] => row.clone(),
        rows => format!("{} indexed queries", rows.len()),
    };
    let text = format!("{what}: at least {least} × {peer}");
    if let Some(why) = results.absent(peer) {
        return Checked { text, verdict: Verdict::NotMeasured, measured: format!("absent: {why}") };
    }
    let ratios: Vec<(f64, &String)> =
        rows.iter().filter_map(|name| Some((results.row(name)?.ratio(peer)?, name))).collect();
    let worst = ratios.iter().min_by(|(one, _), (other, _)| one.total_cmp(other));
    let Some((ratio, row)) = worst else {
        return Checked { text, verdict: Verdict::NotMeasured, measured: String::new() };
    };
    let measured = match rows.len() {
        1 => format!("{} ×", number(*ratio)),
        all => format!("{} × in the worst of {} of {all}: {row}", number(*ratio), ratios.len()),
    };
    Checked { text, verdict: verdict(*ratio >= least), measured }
}

fn verdict(is_held: bool) -> Verdict {
    if is_held { Verdict::Held } else { Verdict::Missed }
}

fn start_up(results: &Results) -> Checked {
    let text = "start-up: less than 100 ms".to_owned();
    match results.row(START_UP).and_then(|row| row.value(PARTITA)) {
        Some(ms) => {
            Checked { text, verdict: verdict(ms < 100.0), measured: format!("{} ms", number(ms)) }
        }
        None => Checked { text, verdict: Verdict::NotMeasured, measured: String::new() },
    }
}

/// The server's processor time per operation is the same at all sizes, but for a fifth.
fn flat(results: &Results, name: &str) -> Checked {
    let text = format!("{name}: cost flat within 20 % from {SIZES_TEXT}");
    let cost = |row: &Row| row.cpu_us(PARTITA);
    let rows = results.rows.iter().filter(|row| growth::is_row_of(&row.name, name));
    let costs: Vec<f64> = rows.filter_map(cost).collect();
    let (Some(first), Some(last), true) = (costs.first(), costs.last(), costs.len() > 1) else {
        return Checked { text, verdict: Verdict::NotMeasured, measured: String::new() };
    };
    let measured = format!("{} µs at first, {} µs at last", number(*first), number(*last));
    Checked { text, verdict: verdict(*last <= *first * 1.2), measured }
}

/// For people.
pub(crate) fn render(checked: &[Checked]) -> String {
    let mut rows = vec![heading(["target", "verdict", "measured"].into_iter())];
    let row = |checked: &Checked| {
        vec![checked.text.clone(), checked.verdict.word().to_owned(), checked.measured.clone()]
    };
    rows.extend(checked.iter().map(row));
    aligned(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::results::tests::example;
    use crate::compare::results::{Better, Sample};

    fn checked(results: &Results, part: &str) -> Checked {
        check(results).into_iter().find(|checked| checked.text.contains(part)).unwrap()
    }

    #[test]
    fn a_target_is_held_or_missed_by_the_ratio() {
        let mut results = example();
        let mut read = Row::new(POINT_READ, "1/s", Better::Higher);
        read.add(PARTITA, Sample::of(30.0));
        read.add(POSTGRES, Sample::of(20.0));
        read.add(COSMIUM, Sample::of(11.0));
        results.rows.push(read);
        assert_eq!(checked(&results, "1.5 × postgres").verdict, Verdict::Held);
        assert_eq!(checked(&results, "3 × cosmium").verdict, Verdict::Missed);
    }

    #[test]
    fn what_was_not_measured_is_neither() {
        let results = example();
        let absent = checked(&results, "10 × vercel");
        assert_eq!(absent.verdict, Verdict::NotMeasured);
        assert_eq!(absent.measured, "absent: npm is not installed");
        assert_eq!(checked(&results, "bare").verdict, Verdict::NotMeasured);
    }

    #[test]
    fn costs_are_compared_from_the_smallest_to_the_largest() {
        let mut results = example();
        for (size, cpu_us) in [(10_000, 10.0), (100_000, 11.0), (1_000_000, 13.0)] {
            let name = growth::row_name(growth::OPERATIONS[0], size);
            let mut row = Row::new(name, "1/s", Better::Higher);
            row.add(PARTITA, Sample { cpu_us: Some(cpu_us), ..Sample::of(1.0) });
            results.rows.push(row);
        }
        assert_eq!(checked(&results, "flat within 20 %").verdict, Verdict::Missed);
    }
}
