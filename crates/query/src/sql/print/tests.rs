//! A query in, the same query as plans print it out; and the printed one means the same.

use super::query;
use crate::sql::parser::parse_query;
use goldenscript::{Command, Context, Runner};
use std::error::Error;

struct Printer;

impl Runner for Printer {
    type Command = Command;

    fn run(&mut self, command: &Command, _: &Context) -> Result<String, Box<dyn Error>> {
        let parsed = parse_query(&command.name, &[]).map_err(|error| format!("{error:?}"))?;
        let printed = query(&parsed);
        let again = parse_query(&printed, &[]).map_err(|error| format!("{printed}: {error:?}"))?;
        assert_eq!(query(&again), printed, "printing changed the query");
        Ok(printed)
    }
}

#[track_caller]
fn run(name: &str) {
    let path = format!("{}/tests/it/golden/print/{name}.golden", env!("CARGO_MANIFEST_DIR"));
    goldenscript::run(&mut Printer, path).expect("a golden script");
}

#[test]
fn clauses_are_printed_as_documented() {
    run("clauses");
}

#[test]
fn expressions_are_printed_as_documented() {
    run("expressions");
}

#[test]
fn literals_are_printed_as_documented() {
    run("literals");
}

#[test]
fn a_long_run_of_operators_can_be_parsed_again() {
    let terms: Vec<String> = (0..2000).map(|number| format!("c.x = {number}")).collect();
    for text in [
        format!("SELECT * FROM c WHERE {}", terms.join(" OR ")),
        format!("SELECT VALUE {}", vec!["1"; 2000].join(" + ")),
        format!("SELECT VALUE {}", vec!["c.x"; 2000].join(" ?? ")),
    ] {
        let parsed = parse_query(&text, &[]).expect("a query");
        let printed = query(&parsed);
        assert_eq!(query(&parse_query(&printed, &[]).expect("a query")), printed);
    }
}

#[test]
fn a_zero_keeps_its_sign() {
    for (text, expected) in [("SELECT -0.", "SELECT -0.0"), ("SELECT -0.0", "SELECT -0.0")] {
        let printed = query(&parse_query(text, &[]).expect("a query"));
        assert_eq!(printed, expected);
        assert_eq!(query(&parse_query(&printed, &[]).expect("a query")), printed);
    }
}
