//! The rows of feeds and queries: as many as recorded, and the same ones.
//!
//! Which rows a page has is compared where the page was the last one, or in the order of ORDER BY.
//! In what order rows come without ORDER BY is not compared.

use partita_model::Value;

use super::Record;
use super::checks::{covers, is_change_feed};

/// What a recorded page of rows was an answer to.
#[derive(Clone, Copy, Default)]
pub(super) struct Page {
    /// Did the query have ORDER BY?
    ordered: bool,
    /// Were there more rows than the page has, or may there have been?
    partial: bool,
    /// Rows that our answer has beside the recorded ones.
    more: usize,
}

impl Page {
    pub(super) fn of(record: &Record, more: usize) -> Page {
        let query = String::from_utf8_lossy(&record.body).to_ascii_uppercase();
        Page {
            ordered: query.contains("ORDER BY"),
            // Clients created items in parallel: which change came first is not known.
            partial: record.answer_header("x-ms-continuation").is_some() || is_change_feed(record),
            more,
        }
    }
}

/// Notes where our rows differ from the recorded ones.
pub(super) fn cover(page: Page, recorded: &Value, own: &Value, at: &str, wrong: &mut Vec<String>) {
    let (Some(recorded), Some(own)) = (recorded.as_array(), own.as_array()) else {
        wrong.push(format!("{at} is no array"));
        return;
    };
    let expected = recorded.len() + page.more;
    if own.len() != expected {
        wrong.push(format!("{at} has {} rows instead of {expected}", own.len()));
        return;
    }
    if page.ordered {
        for (place, (row, counterpart)) in recorded.iter().zip(own).enumerate() {
            let at = format!("{at}/{place}");
            match (order_of(row), order_of(counterpart)) {
                (Some(order), Some(given)) if order != given => {
                    wrong.push(format!(
                        "{at} is at {} instead of {}",
                        given.to_json(),
                        order.to_json()
                    ));
                }
                // Rows of the same values may come in any order.
                (Some(_), Some(_)) => cover_row(page, row, own, &at, wrong),
                _ => covers(page, row, counterpart, &at, wrong),
            }
        }
        return;
    }
    for (place, row) in recorded.iter().enumerate() {
        cover_row(page, row, own, &format!("{at}/{place}"), wrong);
    }
}

/// Notes what is wrong if none of our rows is this recorded one.
fn cover_row(page: Page, row: &Value, own: &[Value], at: &str, wrong: &mut Vec<String>) {
    let same = |other: &&Value| id_of(other) == id_of(row);
    let mut least: Option<Vec<String>> = None;
    for counterpart in own.iter().filter(same) {
        let mut found = Vec::new();
        covers(page, row, counterpart, at, &mut found);
        if least.as_ref().is_none_or(|least| found.len() < least.len()) {
            least = Some(found);
        }
    }
    match least {
        Some(found) => wrong.extend(found),
        None if page.partial && !page.ordered => {}
        None => wrong.push(format!("no row like {}", row.to_json())),
    }
}

/// What names a row among others, if something does.
fn id_of(row: &Value) -> Option<&str> {
    let item = row.get("payload").filter(|payload| payload.as_object().is_some()).unwrap_or(row);
    item.get("offerResourceId").or(item.get("id")).and_then(Value::as_str)
}

/// The values by which a client merges rows.
fn order_of(row: &Value) -> Option<&Value> {
    row.get("orderByItems")
}
