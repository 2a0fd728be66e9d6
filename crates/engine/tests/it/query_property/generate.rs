//! Random items, policies and queries, all from one seed.
//!
//! Values come from small pools, so that equal values meet often, and the pools hold what indexes
//! find hard: mixed types under one name, absent members, arrays where scalars are expected,
//! strings longer than an index entry holds, characters outside the basic plane, numbers that two
//! types write differently, integers beyond what a double tells apart.

/// A generator of pseudo-random numbers (SplitMix64): small, and the same on every machine.
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    pub(super) fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % n as u64).unwrap()
    }

    pub(super) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(super) fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }
}

const SCALARS: [&str; 22] = [
    "null",
    "false",
    "true",
    "0",
    "-0.0",
    "1",
    "1.0",
    "2",
    "2.5",
    "-3",
    "10",
    "1e3",
    "9007199254740993",
    "9007199254740992",
    r#""""#,
    r#""a""#,
    r#""A""#,
    r#""ab""#,
    r#""abc""#,
    r#""b\u0000c""#,
    "\"\u{E000}x\"",
    "\"\u{10400}y\"",
];

/// Two strings that agree in more bytes than an index entry keeps.
pub(super) fn long_string(n: usize) -> String {
    format!("\"{}{n}\"", "lang".repeat(260))
}

pub(super) fn scalar(random: &mut Random) -> String {
    match random.below(24) {
        0 => {
            let n = random.below(3);
            long_string(n)
        }
        1 => format!("{}", random.below(1_000)),
        _ => random.pick(&SCALARS).to_owned(),
    }
}

fn value(random: &mut Random, depth: usize) -> String {
    match random.below(if depth == 0 { 8 } else { 12 }) {
        8 | 9 => {
            let n = random.below(4);
            let elements: Vec<String> = (0..n).map(|_| value(random, depth - 1)).collect();
            format!("[{}]", elements.join(","))
        }
        10 | 11 => {
            let mut members = Vec::new();
            for name in ["a", "b", "d"] {
                if random.one_in(2) {
                    members.push(format!("\"{name}\":{}", value(random, depth - 1)));
                }
            }
            format!("{{{}}}", members.join(","))
        }
        _ => scalar(random),
    }
}

/// An item without its system properties.
pub(super) fn item(random: &mut Random, id: usize) -> String {
    let mut members =
        vec![format!("\"id\":\"i{id:03}\""), format!("\"pk\":\"p{}\"", random.below(12))];
    for name in ["a", "b", "n"] {
        if !random.one_in(6) {
            members.push(format!("\"{name}\":{}", value(random, 1)));
        }
    }
    if !random.one_in(4) {
        members.push(format!("\"o\":{{\"d\":{},\"e\":{}}}", value(random, 1), scalar(random)));
    }
    if !random.one_in(4) {
        let n = random.below(4);
        let tags: Vec<String> = (0..n).map(|_| scalar(random)).collect();
        members.push(format!("\"tags\":[{}]", tags.join(",")));
    }
    if random.one_in(2) {
        let n = random.below(3);
        let line =
            |random: &mut Random| format!("{{\"x\":{},\"y\":{}}}", scalar(random), random.below(5));
        let lines: Vec<String> = (0..n).map(|_| line(random)).collect();
        members.push(format!("\"lines\":[{}]", lines.join(",")));
    }
    members.push(format!("\"k\":{}", random.below(10)));
    format!("{{{}}}", members.join(","))
}

const COMPOSITE: &str = r#""compositeIndexes":[[{"path":"/a"},{"path":"/n","order":"descending"}],[{"path":"/k"},{"path":"/b"},{"path":"/o/e"}]]"#;

/// An indexing policy.
pub(super) fn policy(random: &mut Random) -> String {
    match random.below(8) {
        0 => r#"{"indexingMode":"none","automatic":false}"#.to_owned(),
        1 => format!(r#"{{"includedPaths":[{{"path":"/a/?"}},{{"path":"/tags/[]/?"}}],"excludedPaths":[{{"path":"/*"}}],{COMPOSITE}}}"#),
        2 => r#"{"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/a/*"},{"path":"/lines/[]/x/?"}]}"#.to_owned(),
        3 => format!(r#"{{"includedPaths":[{{"path":"/n/*"}},{{"path":"/o/*"}},{{"path":"/k/?"}}],"excludedPaths":[{{"path":"/*"}},{{"path":"/o/d/*"}}],{COMPOSITE}}}"#),
        4 | 5 => format!(r#"{{"includedPaths":[{{"path":"/*"}}],"excludedPaths":[],{COMPOSITE}}}"#),
        _ => "{}".to_owned(),
    }
}

const PATHS: [&str; 10] =
    ["c.a", "c.b", "c.n", "c.o.d", "c.o.e", "c.k", "c[\"a\"].b", "c.a[0]", "c.tags[1]", "c.id"];

fn path(random: &mut Random) -> &'static str {
    random.pick(&PATHS)
}

/// A condition on the row `c`, and on `t` if there is a JOIN.
pub(super) fn condition(random: &mut Random, depth: usize) -> String {
    if depth > 0 && random.one_in(2) {
        let (left, right) = (condition(random, depth - 1), condition(random, depth - 1));
        return match random.below(5) {
            0 | 1 => format!("({left} AND {right})"),
            2 | 3 => format!("({left} OR {right})"),
            _ => format!("NOT ({left})"),
        };
    }
    simple(random)
}

fn simple(random: &mut Random) -> String {
    let at = path(random);
    match random.below(21) {
        0..=3 => format!("{at} = {}", scalar(random)),
        4..=6 => {
            let operator = random.pick(&["<", "<=", ">", ">=", "!="]);
            format!("{at} {operator} {}", scalar(random))
        }
        7 => format!("{at} IN ({}, {}, {})", scalar(random), scalar(random), scalar(random)),
        8 => format!("({at} BETWEEN {} AND {})", random.below(3), random.below(500)),
        9 => text_test(random, at),
        10 => {
            let test = random.pick(&[
                "DEFINED",
                "NULL",
                "BOOL",
                "NUMBER",
                "STRING",
                "PRIMITIVE",
                "ARRAY",
                "OBJECT",
            ]);
            format!("IS_{test}({at})")
        }
        11 => format!("NOT IS_DEFINED({at})"),
        12 => format!("ARRAY_CONTAINS(c.tags, {})", scalar(random)),
        13 => format!("ARRAY_CONTAINS(c.lines, {{\"y\": {}}}, true)", random.below(5)),
        14 => format!(
            "EXISTS(SELECT VALUE l FROM l IN c.lines WHERE l.y = {} AND l.x = {})",
            random.below(5),
            scalar(random)
        ),
        15 => format!("EXISTS(SELECT VALUE t FROM t IN c.tags WHERE t > {})", scalar(random)),
        16 => format!("ARRAY_CONTAINS([{}, {}], {at})", scalar(random), scalar(random)),
        17 => format!("{} = {at}", scalar(random)),
        18 | 19 => computed(random),
        _ => at.to_owned(),
    }
}

/// A condition that no index answers.
fn computed(random: &mut Random) -> String {
    let (one, other) = (path(random), path(random));
    let operator = random.pick(&["=", "<", "<=", ">", ">=", "!="]);
    match random.below(7) {
        0 => format!("c.k * 2 + 1 > {}", random.below(20)),
        1 => format!("{one} * 3 + {other} {operator} {}", random.below(20)),
        2 => format!("{one} - c.k {operator} {other}"),
        3 => format!("{one} {operator} {other}"),
        4 => format!("1 / {one} {operator} c.k % {other}"),
        5 => format!("({one} ?? {other}) {operator} {}", scalar(random)),
        _ => format!("LENGTH({one}) {operator} c.k OR {other} != {}", scalar(random)),
    }
}

fn text_test(random: &mut Random, at: &str) -> String {
    let part = random.pick(&["a", "A", "ab", "", "lang", "c", "\u{10400}"]);
    match random.below(9) {
        0 => format!("STARTSWITH({at}, \"{part}\")"),
        1 => format!("STARTSWITH({at}, \"{part}\", true)"),
        2 => format!("CONTAINS({at}, \"{part}\")"),
        3 => format!("ENDSWITH({at}, \"{part}\", true)"),
        4 => format!("{at} LIKE \"{part}%\""),
        5 => format!("{at} LIKE \"%{part}_\""),
        6 => format!("REGEXMATCH({at}, \"^[a-b]+$\", \"i\")"),
        7 => format!("StringEquals({at}, \"{part}\", true)"),
        _ => format!("LOWER({at}) = \"{part}\""),
    }
}

/// A query and how its answers are compared.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) text: String,
    pub(super) kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// In any order.
    Rows,
    /// Rows with a member `keys`, by which they are ordered; those with equal keys in any order.
    Ordered,
    /// So many rows of those that the query without its limit gives.
    Some,
    /// As `Ordered`, but rows with the last keys may be others with the same.
    Top,
}

pub(super) fn query(random: &mut Random) -> Asked {
    let filter = match random.below(6) {
        0 => String::new(),
        _ => format!(" WHERE {}", condition(random, 2)),
    };
    match random.below(16) {
        0..=4 => Asked {
            text: format!("SELECT {} FROM c{filter}", projection(random)),
            kind: Kind::Rows,
        },
        5 | 6 => ordered(random, &filter),
        7 => {
            let Asked { text, .. } = ordered(random, &filter);
            let text = match random.one_in(2) {
                true => text.replacen("SELECT", &format!("SELECT TOP {}", random.below(30)), 1),
                false => format!("{text} OFFSET {} LIMIT {}", random.below(10), random.below(20)),
            };
            Asked { text, kind: Kind::Top }
        }
        8 => Asked {
            text: format!("SELECT TOP {} VALUE c.id FROM c{filter}", random.below(30)),
            kind: Kind::Some,
        },
        9 => joined(random),
        10 => Asked {
            text: format!("SELECT DISTINCT VALUE {} FROM c{filter}", path(random)),
            kind: Kind::Rows,
        },
        11 => Asked {
            text: format!("SELECT DISTINCT {}, c.k FROM c{filter}", path(random)),
            kind: Kind::Rows,
        },
        12 | 13 => aggregate(random, &filter),
        14 => {
            let group = random.pick(&["c.k", "c.a", "c.o.e", "c.pk"]);
            let text = format!(
                "SELECT {group} AS g, COUNT(1) AS n, SUM(c.k) AS s, MIN(c.a) AS low, MAX({}) AS high FROM c{filter} GROUP BY {group}",
                path(random)
            );
            Asked { text, kind: Kind::Rows }
        }
        _ => Asked {
            text: format!("SELECT c.k, c.b, COUNT(c.n) AS n FROM c{filter} GROUP BY c.k, c.b"),
            kind: Kind::Rows,
        },
    }
}

fn projection(random: &mut Random) -> String {
    match random.below(6) {
        0 => "VALUE c.id".to_owned(),
        1 => "*".to_owned(),
        2 => format!("c.id, {} AS p", path(random)),
        3 => format!(
            "VALUE {{\"v\": {}, \"l\": ARRAY(SELECT VALUE t FROM t IN c.tags)}}",
            path(random)
        ),
        4 => format!("VALUE {}", path(random)),
        _ => "c.id, c.k, (c.a ?? c.b) AS x".to_owned(),
    }
}

fn ordered(random: &mut Random, filter: &str) -> Asked {
    let columns: &[&str] = match random.below(12) {
        0 => &["c.a ASC", "c.n DESC"],
        1 => &["c.a DESC", "c.n ASC"],
        2 => &["c.k ASC", "c.b ASC", "c.o.e ASC"],
        3 => &["c.k DESC", "c.b DESC", "c.o.e DESC"],
        4 => &["c.k ASC", "c.a ASC"],
        5 | 6 => &["c.a"],
        7 => &["c.n DESC"],
        8 => &["c.o.e"],
        9 => &["c.k DESC"],
        10 => &["c.b DESC"],
        _ => &["c.id"],
    };
    let keys: Vec<&str> = columns.iter().map(|c| c.split(' ').next().unwrap()).collect();
    let keys: Vec<String> = keys.iter().map(|key| format!("[{key}]")).collect();
    let text = format!(
        "SELECT c.id, [{}] AS keys FROM c{filter} ORDER BY {}",
        keys.join(", "),
        columns.join(", ")
    );
    Asked { text, kind: Kind::Ordered }
}

fn joined(random: &mut Random) -> Asked {
    let text = match random.below(5) {
        0 => format!("SELECT c.id, t FROM c JOIN t IN c.tags WHERE t = {}", scalar(random)),
        1 => format!(
            "SELECT c.id, t, l.y FROM c JOIN t IN c.tags JOIN l IN c.lines WHERE l.y = {} AND {}",
            random.below(5),
            simple(random)
        ),
        2 => format!(
            "SELECT VALUE l FROM c JOIN l IN c.lines WHERE l.x = {} OR {}",
            scalar(random),
            simple(random)
        ),
        3 => {
            let direction = random.pick(&["ASC", "DESC"]);
            let filter = match random.one_in(2) {
                true => simple(random),
                false => format!("t != {} AND {}", scalar(random), simple(random)),
            };
            let text = format!(
                "SELECT c.id, t, [[c.k]] AS keys FROM c JOIN t IN c.tags WHERE {filter} ORDER BY c.k {direction}"
            );
            return Asked { text, kind: Kind::Ordered };
        }
        _ => format!("SELECT VALUE COUNT(1) FROM c JOIN t IN c.tags WHERE {}", simple(random)),
    };
    Asked { text, kind: Kind::Rows }
}

fn aggregate(random: &mut Random, filter: &str) -> Asked {
    let text = match random.below(8) {
        0 | 1 => format!("SELECT VALUE COUNT(1) FROM c{filter}"),
        2 => format!("SELECT VALUE COUNT({}) FROM c{filter}", path(random)),
        3 => format!("SELECT VALUE MIN({}) FROM c{filter}", path(random)),
        4 => format!("SELECT VALUE MAX({}) FROM c{filter}", path(random)),
        5 => format!("SELECT VALUE SUM(c.k) FROM c{filter}"),
        6 => format!(
            "SELECT COUNT(1) AS n, AVG(c.k) AS m, MAX({}) AS h FROM c{filter}",
            path(random)
        ),
        _ => format!("SELECT VALUE SUM({}) FROM c{filter}", random.pick(&["c.k", "c.a", "c.n"])),
    };
    Asked { text, kind: Kind::Rows }
}
