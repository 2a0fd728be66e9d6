//! `partita partitions shop/orders`: what the physical partitions hold and do, as a table.

use std::sync::Arc;

use partita_model::{Clock, Value};

use crate::args::PartitionsArgs;
use crate::client::Client;
use crate::failure::Failure;
use crate::output::{print, print_json};
use crate::response::{member, number, rows, text};
use crate::table::{Align, bar, count, percent, size, table};

/// Characters of an EPK that tell one range from another.
const EPK_SHOWN: usize = 8;

/// Characters of a partition key.
const KEY_SHOWN: usize = 48;

pub(crate) fn run(args: &PartitionsArgs, clock: Arc<dyn Clock>) -> Result<(), Failure> {
    let client = Client::new(&args.connect, clock)?;
    let path = args.container.path(&["partitions"]);
    let report = client.get(&path, &format!("top={}", args.top))?;
    if args.json {
        print_json(&report);
    } else {
        print(&render(&report, args.top)?);
    }
    Ok(())
}

fn render(report: &Value, top: usize) -> Result<String, Failure> {
    let partitions = rows(report, "partitions")?;
    let mut out = heading(report, partitions)?;
    out.push_str(&partition_table(report, partitions)?);
    out.push_str(&logical_table(report)?);
    out.push_str(&hot_table(report, top)?);
    Ok(out)
}

fn heading(report: &Value, partitions: &[Value]) -> Result<String, Failure> {
    let (mut items, mut bytes) = (0.0, 0.0);
    for partition in partitions {
        items += number(partition, "items")?;
        bytes += number(partition, "storageBytes")?;
    }
    let paths = rows(member(report, "partitionKey")?, "paths")?;
    let paths: Vec<&str> = paths.iter().filter_map(Value::as_str).collect();
    Ok(format!(
        "{}/{}: partition key {}, {} physical partitions, {} items, {}\n\n",
        text(report, "database")?,
        text(report, "container")?,
        paths.join(", "),
        partitions.len(),
        count(items),
        size(bytes),
    ))
}

fn partition_table(report: &Value, partitions: &[Value]) -> Result<String, Failure> {
    let limit = number(member(report, "limits")?, "partitionStorageBytes")?;
    let mut largest = 0.0_f64;
    for partition in partitions {
        largest = largest.max(number(partition, "storageBytes")?);
    }
    let mut lines = Vec::new();
    for partition in partitions {
        let bytes = number(partition, "storageBytes")?;
        let logical = member(partition, "logicalPartitions")?.as_f64();
        let parents = rows(partition, "parents")?;
        let parents: Vec<&str> = parents.iter().filter_map(Value::as_str).collect();
        lines.push(vec![
            text(partition, "id")?.to_owned(),
            range(text(partition, "minInclusive")?, text(partition, "maxExclusive")?),
            format!("{} {}", bar(bytes / largest.max(1.0)), size(bytes)),
            percent(bytes / limit.max(1.0)),
            count(number(partition, "items")?),
            logical.map_or_else(|| "?".to_owned(), count),
            rate(member(partition, "throughput")?)?,
            throttled(member(partition, "throughput")?)?,
            state(partition)?,
            parents.join(" › "),
        ]);
    }
    let headings = [
        ("ID", Align::Right),
        ("EPK RANGE", Align::Left),
        ("STORAGE", Align::Left),
        ("OF LIMIT", Align::Right),
        ("ITEMS", Align::Right),
        ("KEYS", Align::Right),
        ("RU/S", Align::Left),
        ("429", Align::Right),
        ("STATE", Align::Left),
        ("FROM", Align::Left),
    ];
    Ok(table(&headings, &lines))
}

fn logical_table(report: &Value) -> Result<String, Failure> {
    let largest = rows(report, "largest")?;
    if largest.is_empty() {
        return Ok(String::new());
    }
    let mut lines = Vec::new();
    for logical in largest {
        let share = number(logical, "shareOfLimit")?;
        lines.push(vec![
            cut(&member(logical, "key")?.to_json(), KEY_SHOWN),
            text(logical, "partition")?.to_owned(),
            size(number(logical, "storageBytes")?),
            format!("{} {}", bar(share), percent(share)),
            count(number(logical, "items")?),
        ]);
    }
    let complete = member(report, "largestComplete")?.as_bool() == Some(true);
    let note = if complete { "" } else { " (of those that could be looked at in time)" };
    let headings = [
        ("KEY", Align::Left),
        ("IN", Align::Right),
        ("STORAGE", Align::Right),
        ("OF LIMIT", Align::Left),
        ("ITEMS", Align::Right),
    ];
    Ok(format!("\nLargest logical partitions{note}\n{}", table(&headings, &lines)))
}

fn hot_table(report: &Value, top: usize) -> Result<String, Failure> {
    let hottest = rows(report, "hottest")?;
    if hottest.is_empty() {
        return Ok(String::new());
    }
    let mut lines = Vec::new();
    // Nothing has to be looked for to tell these.
    let shown = if top == 0 { usize::MAX } else { top };
    for hot in hottest.iter().take(shown) {
        let share = number(hot, "shareOfContainer")?;
        lines.push(vec![
            cut(&member(hot, "key")?.to_json(), KEY_SHOWN),
            text(hot, "partition")?.to_owned(),
            count(number(hot, "requestUnits")?),
            format!("{} {}", bar(share), percent(share)),
        ]);
    }
    let headings =
        [("KEY", Align::Left), ("IN", Align::Right), ("RU", Align::Right), ("OF ALL", Align::Left)];
    Ok(format!("\nHottest logical partitions of the last minutes\n{}", table(&headings, &lines)))
}

/// Request units per second, of those that are provisioned.
fn rate(throughput: &Value) -> Result<String, Failure> {
    let used = number(throughput, "perSecond")?;
    Ok(match member(throughput, "provisioned")?.as_f64() {
        Some(provisioned) => {
            let share = used / provisioned.max(1.0);
            format!("{} {} of {}", bar(share), count(used), count(provisioned))
        }
        None => format!("{} (serverless)", count(used)),
    })
}

/// Requests that were turned away.
fn throttled(throughput: &Value) -> Result<String, Failure> {
    match number(throughput, "throttled")? {
        0.0 => Ok("0".to_owned()),
        refused => {
            let share = percent(number(throughput, "throttledShare")?);
            Ok(format!("{} ({share})", count(refused)))
        }
    }
}

/// `online`, or `splitting into 3, 4 (57 %)`.
fn state(partition: &Value) -> Result<String, Failure> {
    let status = text(partition, "status")?;
    match member(partition, "move")? {
        Value::Null => Ok(status.to_owned()),
        moving => {
            let into: Vec<&str> = rows(moving, "into")?.iter().filter_map(Value::as_str).collect();
            let copied = percent(number(moving, "copied")?);
            Ok(format!("{status} into {} ({copied})", into.join(", ")))
        }
    }
}

/// `[05C1CF33, 1AC4B0F3)`: enough of the bounds to tell them apart.
fn range(min: &str, max: &str) -> String {
    let min = if min.is_empty() { "-∞".to_owned() } else { cut(min, EPK_SHOWN) };
    let max = if max == "FF" { "+∞".to_owned() } else { cut(max, EPK_SHOWN) };
    format!("{min} … {max}")
}

fn cut(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_becomes_a_table() {
        let report = r#"{"database":"d","container":"c","partitionKey":{"paths":["/pk"]},
            "partitions":[
              {"id":"1","minInclusive":"","maxExclusive":"1FFFFFFFFFFF","parents":["0"],
               "items":2,"storageBytes":1024,"logicalPartitions":2,
               "status":"online","move":null,
               "throughput":{"provisioned":400,"perSecond":100,"throttled":7,"throttledShare":0.5}},
              {"id":"2","minInclusive":"1FFFFFFFFFFF","maxExclusive":"FF","parents":["0"],
               "items":0,"storageBytes":0,"logicalPartitions":null,
               "status":"splitting","move":{"into":["3","4"],"copied":0.5},
               "throughput":{"provisioned":null,"perSecond":0,"throttled":0}}],
            "hottest":[{"key":["b"],"partition":"2","requestUnits":50,"shareOfContainer":0.9}],
            "largest":[{"key":["a"],"epk":"00","partition":"1","items":1,"storageBytes":512,
                        "shareOfLimit":0.5}],
            "largestComplete":true,
            "limits":{"partitionStorageBytes":2048,"logicalPartitionStorageBytes":1024}}"#;
        let text = render(&Value::parse(report.as_bytes()).unwrap(), 3).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0], "d/c: partition key /pk, 2 physical partitions, 2 items, 1.0 KB",
            "{text}"
        );
        assert!(lines[3].contains("-∞ … 1FFFFFFF…"), "{text}");
        assert!(lines[3].contains("██████████ 1.0 KB"), "{text}");
        assert!(lines[3].contains("50 %"), "{text}");
        assert!(lines[4].contains("1FFFFFFF… … +∞") && lines[4].contains('?'), "{text}");
        assert!(lines[4].contains("splitting into 3, 4 (50 %)"), "{text}");
        assert!(lines[3].contains("███░░░░░░░ 100 of 400  7 (50 %)"), "{text}");
        assert!(lines[4].contains("serverless"), "{text}");
        assert!(lines[12].contains(r#"["b"]"#) && lines[12].contains("90 %"), "{text}");
        assert!(lines[8].contains(r#"["a"]"#) && lines[8].contains("█████░░░░░ 50 %"), "{text}");
    }

    #[test]
    fn an_answer_of_another_shape_is_refused() {
        let refused = render(&Value::parse(b"{}").unwrap(), 3).unwrap_err();
        assert!(refused.to_string().contains("'partitions'"), "{refused}");
    }
}
