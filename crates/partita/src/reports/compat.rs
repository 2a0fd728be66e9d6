//! `GET /_compat`: what of the service's API is there, for programs.
//!
//! It is COMPAT.md, read by a machine: the document and the answer cannot disagree. A row of its
//! tables becomes `{"area", "feature", "support", "notes", "proved_by"}`, where `support` is `yes`,
//! `partial` (there, with the exception that the notes name) or `no`.

use partita_model::{Object, Value};

const DOCUMENT: &str = include_str!("../../../../COMPAT.md");

/// The answer, as JSON.
pub(crate) fn document(version: &str) -> String {
    let answer = Object::new()
        .with("service", "partita")
        .with("version", version)
        .with("features", features(DOCUMENT));
    Value::from(answer).to_json()
}

/// The rows of all tables that say what is there.
fn features(text: &str) -> Vec<Value> {
    let mut features = Vec::new();
    let (mut area, mut in_table) = ("", false);
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            area = heading;
        }
        let cells: Vec<&str> = line.trim().trim_matches('|').split('|').map(str::trim).collect();
        match cells.as_slice() {
            ["Feature", "", "Proved by"] => in_table = true,
            _ if !line.starts_with('|') => in_table = false,
            [rule, ..] if rule.starts_with("---") => {}
            [feature, support, proved_by] if in_table => {
                features.push(row(area, feature, support, proved_by));
            }
            _ => {}
        }
    }
    features
}

fn row(area: &str, feature: &str, support: &str, proved_by: &str) -> Value {
    let (word, notes) = match support.split_once([';', ':', ' ']) {
        Some((word, notes)) => (word, notes.trim()),
        None => (support, ""),
    };
    let level = match (word, notes) {
        ("yes", "") => "yes",
        ("yes" | "partly", _) => "partial",
        _ => "no",
    };
    Object::new()
        .with("area", area)
        .with("feature", feature)
        .with("support", level)
        .with("notes", notes)
        .with("proved_by", proved_by)
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text<'a>(row: &'a Value, name: &str) -> &'a str {
        row.get(name).and_then(Value::as_str).unwrap()
    }

    #[test]
    fn every_row_of_the_document_is_there_and_says_something() {
        let features = features(DOCUMENT);
        let rows = DOCUMENT.lines().filter(|line| line.starts_with("| ")).count();
        // Each table has a head; the last one is about a test suite.
        let suite = DOCUMENT.split("## The Python SDK's own suite").nth(1).unwrap();
        let suite = suite.lines().filter(|line| line.starts_with("| ")).count();
        let heads = DOCUMENT.matches("| Feature |").count();
        assert_eq!(features.len(), rows - suite - heads);
        for row in &features {
            assert!(["yes", "partial", "no"].contains(&text(row, "support")), "{row}");
            assert!(!text(row, "area").is_empty() && !text(row, "feature").is_empty(), "{row}");
            let proved = !text(row, "proved_by").is_empty();
            assert!(proved || text(row, "support") == "no", "what is there is proved: {row}");
        }
    }

    #[test]
    fn levels_are_told_apart() {
        let table = "## Area\n\n| Feature | | Proved by |\n|---|---|---|\n| a | yes | t |\n\
                     | b | yes; not c | t |\n| d | no | |\n| e | partly | t |\n\n| f | yes | t |\n";
        let features = features(table);
        let levels: Vec<&str> = features.iter().map(|row| text(row, "support")).collect();
        assert_eq!(levels, ["yes", "partial", "no", "partial"]);
        assert_eq!(text(&features[1], "notes"), "not c");
        assert_eq!(text(&features[1], "area"), "Area");
    }
}
