//! Lookups compared with what they stand for: on many items and predicates, an access accepts every
//! item for which the predicate is true, and if it says that it is exact, no other.

use std::ops::Bound;

use super::*;
use crate::{Query, ScopeSettings};
use partita_model::{Document, Leaf, Scalar, Step, Value};

fn parse(condition: &str) -> Query {
    Query::parse(&format!("SELECT * FROM c WHERE {condition}"), &[], &[]).unwrap()
}

/// What the index has of an item: the scalars at each path.
fn terms(text: &str) -> Vec<(Vec<IndexStep>, Scalar<'_>)> {
    let mut terms = Vec::new();
    Document::new(text).walk(&mut |place, leaf| {
        let path = place
            .iter()
            .map(|step| match step {
                Step::Member(name) => IndexStep::Member(name.to_string()),
                Step::Element => IndexStep::Element,
            })
            .collect();
        if let Leaf::Scalar(scalar) = leaf {
            terms.push((path, scalar));
        }
    });
    terms
}

fn kind_at(text: &str, path: &[IndexStep]) -> Kinds {
    let names = path.iter().map(|step| match step {
        IndexStep::Member(name) => name.as_str(),
        IndexStep::Element => unreachable!("kinds are told of members only"),
    });
    match Document::new(text).at(names).map(|raw| raw.to_value()) {
        None => Kinds::UNDEFINED,
        Some(Value::Array(_)) => Kinds { array: true, ..Kinds::NONE },
        Some(Value::Object(_)) => Kinds { object: true, ..Kinds::NONE },
        Some(_) => Kinds { scalar: true, ..Kinds::NONE },
    }
}

fn lies_in(interval: &Interval, value: &[u8]) -> bool {
    let above = match &interval.low {
        Bound::Unbounded => true,
        Bound::Included(low) => low.as_slice() <= value,
        Bound::Excluded(low) => low.as_slice() < value,
    };
    above
        && match &interval.high {
            Bound::Unbounded => true,
            Bound::Included(high) => value <= high.as_slice(),
            Bound::Excluded(high) => value < high.as_slice(),
        }
}

fn encoded(scalar: &Scalar<'_>) -> Vec<u8> {
    let value = match scalar {
        Scalar::Null => Value::Null,
        Scalar::Bool(value) => Value::from(*value),
        Scalar::Number(double) => Value::from(*double),
        Scalar::String(text) => Value::from(text.as_ref()),
    };
    encode(&value).unwrap()
}

fn accepts(access: &Access, query: &Query, text: &str) -> bool {
    match access {
        Access::All | Access::Unknown => true,
        Access::Nothing => false,
        Access::And(parts) => parts.iter().all(|part| accepts(part, query, text)),
        Access::Or(parts) => parts.iter().any(|part| accepts(part, query, text)),
        Access::Condition(condition) => {
            let mut values = terms(text).into_iter().filter(|(path, _)| *path == condition.path);
            match &condition.test {
                Test::Values(intervals) => values.any(|(_, scalar)| {
                    intervals.iter().any(|interval| lies_in(interval, &encoded(&scalar)))
                }),
                Test::Each(test) => values.any(|(_, scalar)| {
                    let mut run = query.start(&ScopeSettings::default());
                    test.passes(&mut run, scalar).unwrap().unwrap_or(true)
                }),
                Test::Kinds(kinds) => {
                    let has = kind_at(text, &condition.path);
                    (has.undefined && kinds.undefined)
                        || (has.scalar && kinds.scalar)
                        || (has.array && kinds.array)
                        || (has.object && kinds.object)
                }
            }
        }
    }
}

const VALUES: [&str; 32] = [
    "null",
    "true",
    "false",
    "0",
    "-0",
    "1",
    "1.5",
    "2",
    "-1",
    "-1.5",
    "-2",
    "5",
    "1e300",
    "9007199254740992",
    "9007199254740993",
    "-9007199254740993",
    "\"\"",
    "\"a\"",
    "\"A\"",
    "\"ab\"",
    "\"abc\"",
    "\"b\"",
    "\"a\\u0000\"",
    "\"\u{E000}\"",
    "\"\u{10000}\"",
    "[]",
    "[1,2]",
    "[\"a\",\"b\",null]",
    "[{\"n\":1,\"s\":\"a\"},{\"n\":2}]",
    "{}",
    "{\"y\":1}",
    "{\"y\":\"a\",\"z\":[1]}",
];

fn items() -> Vec<String> {
    let mut items = vec!["{}".to_owned()];
    items.extend(VALUES.iter().map(|value| format!(r#"{{"x":{value}}}"#)));
    for (at, value) in VALUES.iter().enumerate() {
        let other = VALUES[(at * 7 + 3) % VALUES.len()];
        items.push(format!(r#"{{"x":{value},"w":{other}}}"#));
    }
    items
}

const PREDICATES: [&str; 96] = [
    "c.x = 1",
    "c.x = 1.0",
    "1 = c.x",
    "c.x = 0",
    "c.x = null",
    "c.x = true",
    "c.x = \"a\"",
    "c.x = [1,2]",
    "c.x = {\"y\":1}",
    "c.x = []",
    "c.x = {}",
    "c.x = undefined",
    "c.x != 1",
    "c.x != null",
    "c.x != \"a\"",
    "c.x != [1,2]",
    "c.x != undefined",
    "NOT (c.x = 1)",
    "NOT (c.x != 1)",
    "c.x = 9007199254740993",
    "c.x = 9007199254740992",
    "c.x != 9007199254740993",
    "c.x > 9007199254740992",
    "c.x >= 9007199254740993",
    "c.x < -9007199254740992",
    "c.x > 1",
    "c.x >= 1",
    "1 < c.x",
    "c.x < 1",
    "c.x <= 1",
    "NOT (c.x > 1)",
    "NOT (c.x <= 1)",
    "c.x > \"a\"",
    "c.x <= \"a\"",
    "c.x < \"\u{E000}\"",
    "c.x >= \"\u{10000}\"",
    "c.x >= null",
    "c.x < null",
    "c.x > false",
    "c.x <= false",
    "c.x > [1]",
    "c.x > undefined",
    "c.x BETWEEN 1 AND 2",
    "c.x BETWEEN 2 AND 1",
    "c.x BETWEEN 1 AND \"a\"",
    "c.x NOT BETWEEN 1 AND 2",
    "c.x NOT BETWEEN 1 AND \"a\"",
    "1 BETWEEN c.x AND c.w",
    "c.x IN (1, \"a\", null)",
    "c.x IN (1, [1,2], {\"y\":1})",
    "c.x NOT IN (1, \"a\")",
    "c.x NOT IN (1, [1,2])",
    "ARRAY_CONTAINS([1, \"a\", {\"y\":1}], c.x)",
    "NOT ARRAY_CONTAINS([1, \"a\"], c.x)",
    "c.x = 1 OR c.x = 2",
    "c.x = 1 OR c.w = 2",
    "c.x > 0 AND c.x < 2",
    "c.x > 0 AND c.x < 0",
    "c.x = 1 AND c.x = \"a\"",
    "NOT (c.x = 1 AND c.w = 2)",
    "NOT (c.x > 1 OR c.w > 2)",
    "c.x",
    "NOT c.x",
    "c.x AND c.w",
    "c.x OR NOT c.w",
    "IS_DEFINED(c.x)",
    "NOT IS_DEFINED(c.x)",
    "IS_DEFINED(c.x.y)",
    "NOT IS_DEFINED(c.x.y)",
    "IS_DEFINED(c.x[0])",
    "IS_NULL(c.x)",
    "NOT IS_NULL(c.x)",
    "IS_BOOL(c.x) OR IS_NUMBER(c.x)",
    "NOT IS_NUMBER(c.x)",
    "IS_STRING(c.x)",
    "NOT IS_STRING(c.x)",
    "IS_PRIMITIVE(c.x)",
    "NOT IS_PRIMITIVE(c.x)",
    "IS_ARRAY(c.x)",
    "NOT IS_ARRAY(c.x)",
    "IS_OBJECT(c.x)",
    "NOT IS_OBJECT(c.x)",
    "IS_STRING(c.x[0])",
    "STARTSWITH(c.x, \"a\")",
    "NOT STARTSWITH(c.x, \"a\")",
    "STARTSWITH(c.x, \"\")",
    "STARTSWITH(c.x, \"A\", true)",
    "STARTSWITH(c.x, 1)",
    "StringEquals(c.x, \"a\")",
    "NOT StringEquals(\"a\", c.x)",
    "StringEquals(c.x, \"a\", true)",
    "CONTAINS(c.x, \"b\")",
    "NOT CONTAINS(c.x, \"b\")",
    "ENDSWITH(c.x, \"B\", true)",
    "LOWER(c.x) = \"a\"",
    "LENGTH(c.x) > 1",
];

const MORE: [&str; 48] = [
    "c.x LIKE \"a%\"",
    "c.x LIKE \"a\"",
    "c.x LIKE \"%b\"",
    "c.x LIKE \"a%c\"",
    "c.x LIKE \"a_\"",
    "c.x LIKE \"%\"",
    "c.x NOT LIKE \"a%\"",
    "ABS(c.x) = 1",
    "ABS(c.x) = -1",
    "ABS(c.x) = \"a\"",
    "FLOOR(c.x) = 1",
    "FLOOR(c.x) = -2",
    "FLOOR(c.x) = 1.5",
    "CEILING(c.x) = 2",
    "CEILING(c.x) = 0",
    "TRUNC(c.x) = 1",
    "TRUNC(c.x) = -1",
    "TRUNC(c.x) = 0",
    "ROUND(c.x) = 2",
    "ABS(c.x) != 1",
    "c.x % 2 = 0",
    "c.x + 1 > 2",
    "-c.x = 1",
    "c.x || \"b\" = \"ab\"",
    "c.x = c.w",
    "c.x > c.w",
    "c.x[0] = 1",
    "c.x[0] = \"b\"",
    "c.x[0].n = 1",
    "c.x[1].n > 1",
    "c.x.y = 1",
    "c[\"x\"][\"y\"] = \"a\"",
    "ARRAY_CONTAINS(c.x, 1)",
    "ARRAY_CONTAINS(c.x, \"b\")",
    "ARRAY_CONTAINS(c.x, null)",
    "NOT ARRAY_CONTAINS(c.x, 1)",
    "ARRAY_CONTAINS(c.x, {\"n\":1}, true)",
    "ARRAY_CONTAINS(c.x, {\"n\":2})",
    "ARRAY_CONTAINS(c.x, {\"n\":1,\"s\":\"a\"}, false)",
    "EXISTS(SELECT VALUE t FROM t IN c.x WHERE t.n = 1)",
    "EXISTS(SELECT VALUE t FROM t IN c.x WHERE t.n = 1 AND t.s = \"a\")",
    "EXISTS(SELECT VALUE t FROM t IN c.x WHERE t > 1)",
    "EXISTS(SELECT VALUE t.n FROM t IN c.x)",
    "NOT EXISTS(SELECT VALUE t FROM t IN c.x WHERE t = 1)",
    "EXISTS(SELECT VALUE COUNT(1) FROM t IN c.x WHERE t = 99)",
    "(c.x ?? 1) = 1",
    "IIF(IS_STRING(c.x), true, c.w = 1)",
    "c.x = (c.w ? 1 : 2)",
];

#[test]
fn every_access_holds_all_items_and_an_exact_one_no_others() {
    let items = items();
    let (mut exact, mut useful) = (0, 0);
    for condition in PREDICATES.iter().chain(&MORE) {
        let query = parse(condition);
        let access = query.access();
        exact += usize::from(access.is_exact());
        useful += usize::from(!matches!(access, Access::All | Access::Unknown));
        let mut has_each = false;
        access.visit(&mut |one| has_each |= matches!(one.test, Test::Each(_)));
        for item in &items {
            let mut run = query.start(&ScopeSettings::default());
            let is_true = run.matches(Document::new(item)).unwrap();
            let accepted = accepts(access, &query, item);
            assert!(accepted || !is_true, "{condition} misses {item}: {access:?}");
            // Of these numbers the index knows too little to test each of them.
            let open = has_each && ["900719925474099", "1e300"].iter().any(|n| item.contains(n));
            let honest = !access.is_exact() || accepted == is_true || open;
            assert!(honest, "{condition} says it is exact about {item}: {access:?}");
        }
    }
    assert!(exact >= 90 && useful >= 120, "{exact} are exact, {useful} use an index");
}

#[test]
fn rows_of_joins_lead_to_elements() {
    let query = Query::parse(
        "SELECT VALUE t FROM c JOIN t IN c.tags JOIN u IN t.list WHERE t.n = 1 AND u = 2",
        &[],
        &[],
    )
    .unwrap();
    let mut paths = Vec::new();
    query.access().visit(&mut |condition| paths.push(condition.path.clone()));
    let member = |name: &str| IndexStep::Member(name.to_owned());
    assert!(paths.contains(&vec![member("tags"), IndexStep::Element, member("n")]));
    let list = vec![member("tags"), IndexStep::Element, member("list"), IndexStep::Element];
    assert!(paths.contains(&list));
    assert!(!query.access().is_exact(), "rows are not items");
}

#[test]
fn long_strings_are_looked_up_by_their_beginning() {
    let long = "ä".repeat(2_000);
    let item = |text: &str| format!(r#"{{"x":"{text}"}}"#);
    let items = [item(&long), item(&format!("{long}b")), item(&long[..800]), item("z"), item("ö")];
    for operator in ["=", "!=", "<", "<=", ">", ">="] {
        let query = parse(&format!("c.x {operator} \"{long}a\""));
        assert!(!query.access().is_exact(), "{operator}");
        for item in &items {
            let is_true =
                query.start(&ScopeSettings::default()).matches(Document::new(item)).unwrap();
            assert!(accepts(query.access(), &query, item) || !is_true, "{operator}");
        }
    }
}

#[test]
fn intervals_at_one_path_become_one_lookup() {
    let count = |condition: &str| {
        let query = parse(condition);
        match query.access() {
            Access::Condition(Condition { test: Test::Values(intervals), exact: true, .. }) => {
                intervals.len()
            }
            other => panic!("{condition}: {other:?}"),
        }
    };
    assert_eq!(count("c.x > 1 AND c.x < 5 AND c.x >= 3"), 1);
    assert_eq!(count("c.x = 1 OR c.x = 5 OR c.x IN (1, 2, 3)"), 4);
    assert_eq!(count("c.x BETWEEN 1 AND 3 OR c.x BETWEEN 2 AND 5"), 1);
    assert_eq!(count("NOT (c.x < 1 OR c.x > 5)"), 1);
    assert_eq!(*parse("c.x > 5 AND c.x < 1").access(), Access::Nothing);
}
