//! The tables for people, in Markdown, so that they can be read in a terminal and kept in a page.

use std::fmt::Write;

use super::WRONG;
use super::results::{Cell, PARTITA, Results, Row};

/// How many times better Partita is than everybody else, a row for each workload.
pub(crate) fn ratios(results: &Results) -> String {
    let others: Vec<&str> = results.present().filter(|name| *name != PARTITA).collect();
    let mut rows = vec![heading(["workload", "unit", PARTITA].into_iter().chain(others.clone()))];
    for row in &results.rows {
        let mut cells = vec![row.name.clone(), row.unit.to_owned(), own(row)];
        cells.extend(others.iter().map(|name| against(row, name)));
        rows.push(cells);
    }
    aligned(&rows)
}

/// What everybody did, a row for each workload and system.
pub(crate) fn details(results: &Results) -> String {
    let names = ["workload", "system", "value", "unit", "p50 ms", "p99 ms", "CPU µs/op", "remarks"];
    let mut rows = vec![heading(names.into_iter())];
    for row in &results.rows {
        for system in results.present().filter(|system| row.cells.contains_key(*system)) {
            rows.push(detail(row, system));
        }
    }
    aligned(&rows)
}

fn detail(row: &Row, system: &str) -> Vec<String> {
    let named = |value: Option<f64>| value.map_or_else(String::new, number);
    let remarks = match (row.cells.get(system), row.errors(system)) {
        (Some(Cell::Refused(why)), _) if why.starts_with(WRONG) => why.clone(),
        (Some(Cell::Refused(why)), _) => format!("refused: {}", why.replace('|', "/")),
        (_, (0, _)) => String::new(),
        (_, (errors, all)) => format!("{errors} of {all} failed"),
    };
    vec![
        row.name.clone(),
        system.to_owned(),
        named(row.value(system)),
        row.unit.to_owned(),
        named(row.latency_ms(system, 0)),
        named(row.latency_ms(system, 2)),
        named(row.cpu_us(system)),
        remarks,
    ]
}

/// Who took part, who did not, and why.
pub(crate) fn contenders(results: &Results) -> String {
    let mut text = String::new();
    for contender in &results.contenders {
        let name = &contender.name;
        let line = match &contender.description {
            Ok(description) => writeln!(text, "{name}: {description}"),
            Err(why) => writeln!(text, "{name}: absent: {why}"),
        };
        line.expect("a string takes everything");
    }
    text
}

fn own(row: &Row) -> String {
    match (row.value(PARTITA), row.cells.get(PARTITA)) {
        (Some(value), _) => number(value),
        (None, Some(Cell::Refused(why))) => refusal(why),
        (None, _) => String::new(),
    }
}

fn against(row: &Row, name: &str) -> String {
    match (row.ratio(name), row.cells.get(name)) {
        (Some(ratio), _) => format!("{}×", number(ratio)),
        (None, Some(Cell::Refused(why))) => refusal(why),
        (None, Some(Cell::Measured(_))) => row.value(name).map_or_else(String::new, number),
        (None, None) => String::new(),
    }
}

/// In a few words: the rest is in the other table.
fn refusal(why: &str) -> String {
    let first = why.split_whitespace().next().unwrap_or_default();
    let is_status = first.len() == 3 && first.bytes().all(|byte| byte.is_ascii_digit());
    match is_status {
        _ if why.starts_with(WRONG) => WRONG.to_owned(),
        true => format!("refused: {first}"),
        false => format!("refused: {}", why.chars().take(30).collect::<String>()),
    }
}

/// Three digits that matter, and groups of thousands.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 1_000.0 => grouped(value.round() as i64),
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn grouped(value: i64) -> String {
    let digits = value.abs().to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    if value < 0 { format!("-{text}") } else { text }
}

/// The first row of a table.
pub(crate) fn heading<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    names.map(str::to_owned).collect()
}

/// Columns of equal width, and a rule below the heading.
pub(crate) fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max()
    };
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for (at, row) in rows.iter().enumerate() {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        text += &format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "));
        if at == 0 {
            let rules = widths.iter().map(|width| "-".repeat(*width));
            text += &format!("| {} |\n", rules.collect::<Vec<_>>().join(" | "));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::results::tests::example;
    use crate::compare::{golden, targets};

    #[test]
    fn the_tables_read_like_this() {
        let results = example();
        let checked = targets::render(&targets::check(&results));
        let text = [contenders(&results), ratios(&results), details(&results), checked].join("\n");
        golden("tables.txt", &text);
    }

    #[test]
    fn numbers_have_three_digits_that_matter() {
        let numbers = [0.0, 0.123, 1.234, 12.34, 123.4, 1_234.5, 1_234_567.0, -1_234.0];
        let texts = numbers.map(number);
        assert_eq!(texts, ["0.00", "0.12", "1.23", "12.3", "123", "1 235", "1 234 567", "-1 234"]);
    }
}
