//! The system functions of the language.
//!
//! A name is not case-sensitive and may have aliases. A wrong number of arguments is a compile
//! error; a wrong type never is: the result is undefined, and so it is for an undefined argument.
//! The exceptions are the `IS_…` family, which answers for undefined too, the branches of `IIF` and
//! `CHOOSE`, and the functions of three-valued logic (`…_ANY`, `…_ALL`).
//!
//! [`table`] has one row per function: names, how many arguments, and what computes it, which lies
//! in one file per family. Some functions are known by name only, so that queries with them parse
//! and plan; executing one is an error that names it.
//!
//! Invariant: whatever a function builds is reserved from the scope first, and no function takes
//! more than about linear time in the size of its arguments, which the scope counts as work.

mod arguments;
mod array;
mod date;
mod integer;
mod item;
mod kinds;
mod math;
mod regex;
mod room;
mod set;
pub(crate) mod spatial;
mod string;
mod table;
#[cfg(test)]
mod testing;
mod text;

pub(crate) use self::regex::Patterns;
use crate::cell::Cell;
use crate::scope::Scope;
use arguments::Arguments;
use partita_model::{Error, Result};
pub(crate) use table::Function;
use table::{Body, Count};

impl Function {
    /// The function of a name, in any case, or of an alias.
    pub(crate) fn by_name(name: &str) -> Option<Function> {
        let is_named = |row: &&table::Row| row.names.iter().any(|n| n.eq_ignore_ascii_case(name));
        table::ROWS.iter().find(is_named).map(|row| row.function)
    }

    /// The canonical name, in upper case.
    pub(crate) fn name(self) -> &'static str {
        self.row().and_then(|row| row.names.first()).copied().unwrap_or_default()
    }

    /// What the service says about this many arguments, if anything.
    pub(crate) fn count_complaint(self, count: usize) -> Option<String> {
        let complaint = self.row()?.count.complaint(count)?;
        Some(format!("The {} function requires {complaint} argument(s).", self.name()))
    }

    /// Does the same call on the same item always give the same value?
    pub(crate) fn is_deterministic(self) -> bool {
        !matches!(
            self,
            Function::Rand
                | Function::GetCurrentDateTime
                | Function::GetCurrentDateTimeStatic
                | Function::GetCurrentTicks
                | Function::GetCurrentTicksStatic
                | Function::GetCurrentTimestamp
                | Function::GetCurrentTimestampStatic
                | Function::Now
                | Function::Ago
        )
    }

    /// The family of a function that is known but not executed.
    pub(crate) fn refusal(self) -> Option<&'static str> {
        match self.row()?.body {
            Body::Refused(family) => Some(family),
            Body::Pure(_) | Body::Scoped(_) => None,
        }
    }

    /// The value of a call. The number of arguments was checked before.
    pub(crate) fn apply<'a>(
        self,
        arguments: Vec<Option<Cell<'a>>>,
        scope: &Scope,
    ) -> Result<Option<Cell<'a>>> {
        // A function may look at all of a large argument, as often as a JOIN has rows.
        scope.steps(arguments.iter().flatten().map(room::work_of).sum())?;
        let mut arguments = Arguments::new(arguments);
        match self.row().map(|row| row.body) {
            Some(Body::Pure(compute)) => Ok(compute(&mut arguments)),
            Some(Body::Scoped(compute)) => compute(&mut arguments, scope),
            Some(Body::Refused(family)) => Err(Error::unsupported(format!(
                "Partita does not execute the function {} ({family}) yet.",
                self.name()
            ))),
            None => Ok(None),
        }
    }

    fn row(self) -> Option<&'static table::Row> {
        // Rows are in the order of the variants.
        table::ROWS.get(self as usize)
    }
}

impl Count {
    /// How many arguments there should be, if not this many.
    fn complaint(self, count: usize) -> Option<String> {
        match self {
            Count::Exactly(wanted) => (count != wanted).then(|| wanted.to_string()),
            Count::AtLeast(fewest) => (count < fewest).then(|| format!("at least {fewest}")),
            Count::Between(fewest, most) => {
                (!(fewest..=most).contains(&count)).then(|| format!("{fewest} to {most}"))
            }
            Count::NoneOrAll(fewest, most) => {
                (count != fewest && count != most).then(|| format!("{fewest} to {most}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_the_order_of_the_variants() {
        for (at, row) in table::ROWS.iter().enumerate() {
            assert_eq!(row.function as usize, at, "{:?}", row.function);
        }
    }

    #[test]
    fn every_name_is_upper_case_and_means_one_function() {
        let mut seen = std::collections::HashSet::new();
        for row in table::ROWS {
            for name in row.names {
                assert_eq!(*name, name.to_uppercase());
                assert!(seen.insert(name), "{name} is there twice");
                assert_eq!(Function::by_name(&name.to_lowercase()), Some(row.function));
            }
        }
    }

    #[test]
    fn complaints_about_counts_use_the_canonical_name() {
        for (name, count, expected) in [
            ("is_boolean", 2, Some("The IS_BOOL function requires 1 argument(s).")),
            ("StartsWith", 1, Some("The STARTSWITH function requires 2 to 3 argument(s).")),
            ("StartsWith", 3, None),
            (
                "array_contains_any",
                1,
                Some("The ARRAY_CONTAINS_ANY function requires at least 2 argument(s)."),
            ),
            ("PI", 1, Some("The PI function requires 0 argument(s).")),
            ("ObjectToArray", 2, None),
            ("NOW", 1, Some("The NOW function requires 0 to 2 argument(s).")),
        ] {
            let complaint = Function::by_name(name).unwrap().count_complaint(count);
            assert_eq!(complaint.as_deref(), expected, "{name} of {count}");
        }
    }

    #[test]
    fn a_refused_function_is_named_by_the_error() {
        let distance = Function::by_name("ST_DISTANCE").unwrap();
        assert_eq!(distance.refusal(), Some("spatial"));
        let error = distance.apply(vec![None, None], &Scope::new(0, 0)).unwrap_err();
        assert!(error.message.contains("the function ST_DISTANCE (spatial)"), "{error}");
    }

    /// Arguments at the edges of what functions expect.
    const ODD_ARGUMENTS: [&str; 30] = [
        "undefined",
        "null",
        "true",
        "false",
        "0",
        "-1",
        "1",
        "3",
        "min",
        "9223372036854775807",
        "0.5",
        "-0.0",
        "1e300",
        "-1e300",
        "NaN",
        "Infinity",
        r#""""#,
        r#""a""#,
        r#""é😀\u0000b""#,
        r#""2024-02-29T23:59:59.9999999Z""#,
        r#""0001-01-01""#,
        r#""yyyy""#,
        r#""ns""#,
        r#""(a|b)*[""#,
        r#""mix""#,
        "[]",
        r#"[1,"a",[2],{"b":3},null]"#,
        r#"["a","b"]"#,
        "{}",
        r#"{"a":{"b":[1]},"_rid":"36ZyAPW+uN8NAAAAAAAAAA=="}"#,
    ];

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(4000))]

        #[test]
        fn no_arguments_make_a_function_panic(
            at in 0..table::ROWS.len(),
            arguments in proptest::collection::vec(0..ODD_ARGUMENTS.len(), 0..8),
        ) {
            let function = table::ROWS[at].function;
            let fits = |count: &usize| function.count_complaint(*count).is_none();
            if let Some(count) = (0..=arguments.len()).rev().find(fits) {
                let texts = arguments.iter().take(count).map(|at| ODD_ARGUMENTS[*at]);
                let call: Vec<&str> = std::iter::once(function.name()).chain(texts).collect();
                // It also compares arguments that are trees with the same as texts.
                testing::call(&call.join(" "));
            }
        }
    }
}
