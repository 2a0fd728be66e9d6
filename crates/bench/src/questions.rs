//! The query set: questions in both languages.

/// A question in both languages; `$` stands for a number that differs from one asking to the next,
/// `docs` for the table.
pub(crate) struct Question {
    pub(crate) name: &'static str,
    pub(crate) ours: &'static str,
    pub(crate) theirs: &'static str,
    /// How many different values the number takes.
    pub(crate) values: u64,
    /// An index finds what is asked for, in any database that has one.
    pub(crate) is_indexed: bool,
}

/// The scan of texts comes first: no system can answer it without its documents, so it brings all
/// of them into everybody's memory.
pub(crate) const QUESTIONS: [Question; 9] = [
    Question {
        name: "query: scan of long texts",
        ours: "SELECT VALUE c.id FROM c WHERE CONTAINS(c.note, '000$') \
               OR CONTAINS(c.about, '000$') OR CONTAINS(c.detail, '000$')",
        theirs: "SELECT doc->>'id' FROM docs WHERE doc->>'note' LIKE '%000$%'
                 OR doc->>'about' LIKE '%000$%' OR doc->>'detail' LIKE '%000$%'",
        values: 1_000,
        is_indexed: false,
    },
    Question {
        name: "query: full scan",
        ours: "SELECT VALUE c.id FROM c WHERE c.amount * 3 + c.level = $",
        theirs: "SELECT doc->>'id' FROM docs
                 WHERE (doc->>'amount')::float8 * 3 + (doc->>'level')::float8 = $",
        values: 1_000,
        is_indexed: false,
    },
    Question {
        name: "query: equality",
        ours: r#"SELECT * FROM c WHERE c.device = "device-$""#,
        theirs: r#"SELECT doc::text FROM docs WHERE doc @> '{"device":"device-$"}'"#,
        values: 10_000,
        is_indexed: true,
    },
    Question {
        name: "query: range, ORDER BY, TOP 100",
        ours: "SELECT TOP 100 * FROM c WHERE c.at > $000 ORDER BY c.at",
        theirs: "SELECT doc::text FROM docs WHERE (doc->>'at')::float8 > $000 \
                 ORDER BY (doc->>'at')::float8 LIMIT 100",
        values: 900,
        is_indexed: true,
    },
    Question {
        name: "query: two filters",
        ours: r#"SELECT * FROM c WHERE c.category = "category-7" AND c.city = "city-$""#,
        theirs: r#"SELECT doc::text FROM docs
                   WHERE doc @> '{"category":"category-7","city":"city-$"}'"#,
        values: 200,
        is_indexed: true,
    },
    Question {
        name: "query: COUNT, 2 % match",
        ours: r#"SELECT VALUE COUNT(1) FROM c WHERE c.category = "category-$""#,
        theirs: r#"SELECT count(*)::text FROM docs WHERE doc->>'category' = 'category-$'"#,
        values: 50,
        is_indexed: true,
    },
    Question {
        name: "query: COUNT of a range",
        ours: "SELECT VALUE COUNT(1) FROM c WHERE c.at >= $000",
        theirs: "SELECT count(*)::text FROM docs WHERE (doc->>'at')::float8 >= $000",
        values: 900,
        is_indexed: true,
    },
    Question {
        name: "query: GROUP BY with SUM",
        ours: "SELECT c.category, SUM(c.amount) AS total FROM c GROUP BY c.category",
        theirs: "SELECT jsonb_build_object('category', doc->>'category',
                 'total', sum((doc->>'amount')::float8))::text FROM docs GROUP BY doc->>'category'",
        values: 1,
        is_indexed: false,
    },
    Question {
        name: "query: cross-partition ORDER BY",
        ours: "SELECT TOP 1000 c.id FROM c ORDER BY c.at DESC",
        theirs: "SELECT doc->>'id' FROM docs ORDER BY (doc->>'at')::float8 DESC LIMIT 1000",
        values: 1,
        is_indexed: true,
    },
];

/// What YCSB calls a short scan: some documents in order, from somewhere on.
pub(crate) const SCAN: Question = Question {
    name: "scan",
    ours: "SELECT TOP 50 * FROM c WHERE c.at >= $ ORDER BY c.at",
    theirs: "SELECT doc::text FROM docs WHERE (doc->>'at')::float8 >= $ \
             ORDER BY (doc->>'at')::float8 LIMIT 50",
    values: 1_000_000,
    is_indexed: true,
};

/// A question with its number, as it is asked.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) ours: String,
    theirs: String,
}

impl Question {
    /// Different rounds ask for different things.
    pub(crate) fn asked(&self, round: u64) -> Asked {
        let value = (round.wrapping_mul(7_919) % self.values).to_string();
        Asked { ours: self.ours.replace('$', &value), theirs: self.theirs.replace('$', &value) }
    }
}

impl Asked {
    /// For PostgreSQL, about this table.
    pub(crate) fn sql(&self, table: &str) -> String {
        self.theirs.replace("FROM docs", &format!("FROM {table}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_languages_are_asked_for_the_same_number() {
        let asked = QUESTIONS[2].asked(1);
        assert_eq!(asked.ours, r#"SELECT * FROM c WHERE c.device = "device-7919""#);
        let sql = r#"SELECT doc::text FROM t WHERE doc @> '{"device":"device-7919"}'"#;
        assert_eq!(asked.sql("t"), sql);
    }
}
