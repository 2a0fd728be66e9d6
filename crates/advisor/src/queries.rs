//! How many queries a partition key would let a single partition answer.
//!
//! The planner's own logic decides, with a definition that need not exist. Values of parameters are
//! not known, only their types: each parameter stands for some value of its type, another one than
//! all other parameters.

use partita_model::{Error, PartitionKeyDefinition, PropertyPath, Result, Value};
use partita_query::{PartitionFilter, Query};

/// More keys than this in a query are as good as all.
const KEYS_FEW: usize = 10;

/// A query as it was asked.
#[derive(Clone, Debug)]
pub struct AskedQuery {
    query: Query,
    /// The paths whose values the request named beside the text, outermost first.
    named: Vec<PropertyPath>,
    count: f64,
}

/// Where the queries would go, as shares of all that were asked.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Routing {
    /// To one logical partition.
    pub single: f64,
    /// To the partitions under the beginning of a hierarchical key.
    pub prefix: f64,
    /// To a few logical partitions.
    pub few: f64,
    /// Everywhere.
    pub all: f64,
}

impl AskedQuery {
    /// A query, its parameters with the types of their values, what the request named beside it and
    /// how often it was asked.
    pub fn new(
        text: &str,
        parameters: &[(String, String)],
        named: &[PropertyPath],
        count: u64,
    ) -> Result<AskedQuery> {
        let parameters: Vec<(String, Value)> =
            parameters.iter().map(|(name, kind)| (name.clone(), stand_in(name, kind))).collect();
        let query = Query::parse(text, &parameters, &[])?;
        Ok(AskedQuery { query, named: named.to_vec(), count: count as f64 })
    }

    /// A query of which nothing but the text is known: its parameters are taken to be strings.
    pub fn from_text(text: &str) -> Result<AskedQuery> {
        let parameters: Vec<(String, String)> =
            parameter_names(text).into_iter().map(|name| (name, "string".to_owned())).collect();
        AskedQuery::new(text, &parameters, &[], 1)
            .map_err(|error| Error::bad_request(format!("{text}: {}", error.message)))
    }

    fn destination(&self, key: &PartitionKeyDefinition) -> Destination {
        let named = key.paths.iter().take_while(|path| self.names(path)).count();
        let by_name = match named {
            0 => Destination::All,
            named if named == key.paths.len() => Destination::Single,
            _ => Destination::Prefix,
        };
        let by_filter = match self.query.partition_filter(key) {
            PartitionFilter::All => Destination::All,
            PartitionFilter::Nothing => Destination::Single,
            PartitionFilter::Keys(keys) => {
                let whole = keys.iter().all(|found| found.parts.len() == key.paths.len());
                match (keys.len(), whole) {
                    (1, true) => Destination::Single,
                    (1, false) => Destination::Prefix,
                    (..=KEYS_FEW, _) => Destination::Few,
                    _ => Destination::All,
                }
            }
        };
        by_name.min(by_filter)
    }

    fn names(&self, path: &PropertyPath) -> bool {
        self.named.iter().any(|named| named.segments() == path.segments())
    }
}

/// From the narrowest to the widest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Destination {
    Single,
    Prefix,
    Few,
    All,
}

/// Where these queries would go; None if there are none.
pub(crate) fn routing(queries: &[AskedQuery], key: &PartitionKeyDefinition) -> Option<Routing> {
    let total: f64 = queries.iter().map(|query| query.count).sum();
    if total <= 0.0 {
        return None;
    }
    let mut routing = Routing::default();
    for query in queries {
        let share = query.count / total;
        match query.destination(key) {
            Destination::Single => routing.single += share,
            Destination::Prefix => routing.prefix += share,
            Destination::Few => routing.few += share,
            Destination::All => routing.all += share,
        }
    }
    Some(routing)
}

/// A value of a type, as [`partita_model::Value::kind_name`] calls it, or `array 3 string`.
fn stand_in(name: &str, kind: &str) -> Value {
    let mut words = kind.split(' ');
    match words.next().unwrap_or_default() {
        "array" => {
            let length = words.next().and_then(|count| count.parse().ok()).unwrap_or(1_usize);
            let element = words.next().unwrap_or("string");
            let elements = 0..length.min(KEYS_FEW + 1);
            Value::from(
                elements.map(|at| stand_in(&format!("{name}{at}"), element)).collect::<Vec<_>>(),
            )
        }
        "number" => {
            Value::from(name.bytes().fold(1_i64, |sum, byte| sum * 31 % 65_521 + i64::from(byte)))
        }
        "boolean" => Value::from(true),
        "null" => Value::Null,
        "object" => Value::Object(partita_model::Object::new()),
        _ => Value::from(name),
    }
}

/// The names behind `@` outside of string literals.
fn parameter_names(text: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut quote = None;
    let mut name: Option<String> = None;
    for c in text.chars().chain([' ']) {
        if let Some(open) = &mut name {
            if c.is_alphanumeric() || c == '_' {
                open.push(c);
                continue;
            }
            let done = name.take().filter(|done| done.len() > 1);
            names.extend(done.filter(|done| !names.contains(done)));
        }
        match (c, quote) {
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            ('@', None) => name = Some("@".to_owned()),
            _ => {}
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(paths: &[&str]) -> PartitionKeyDefinition {
        crate::advise::definition(
            &paths.iter().map(|path| PropertyPath::parse(path).unwrap()).collect::<Vec<_>>(),
        )
    }

    fn destination(text: &str, paths: &[&str]) -> Destination {
        AskedQuery::from_text(text).unwrap().destination(&key(paths))
    }

    #[test]
    fn the_filter_decides_where_a_query_goes() {
        let tenant = "SELECT * FROM c WHERE c.tenant = @t AND c.total > 5";
        assert_eq!(destination(tenant, &["/tenant"]), Destination::Single);
        assert_eq!(destination(tenant, &["/tenant", "/user"]), Destination::Prefix);
        assert_eq!(destination(tenant, &["/user"]), Destination::All);
        let both = "SELECT * FROM c WHERE c.tenant = @t AND c.user = @u";
        assert_eq!(destination(both, &["/tenant", "/user"]), Destination::Single);
        let some = "SELECT * FROM c WHERE c.tenant IN (@a, @b, 'c')";
        assert_eq!(destination(some, &["/tenant"]), Destination::Few);
        assert_eq!(destination("SELECT * FROM c", &["/tenant"]), Destination::All);
    }

    #[test]
    fn what_a_request_names_beside_the_text_counts_too() {
        let named = [PropertyPath::parse("/tenant").unwrap()];
        let query = AskedQuery::new("SELECT * FROM c", &[], &named, 1).unwrap();
        assert_eq!(query.destination(&key(&["/tenant"])), Destination::Single);
        assert_eq!(query.destination(&key(&["/tenant", "/user"])), Destination::Prefix);
        assert_eq!(query.destination(&key(&["/user"])), Destination::All);
    }

    #[test]
    fn an_array_stands_for_as_many_keys_as_it_had() {
        let text = "SELECT * FROM c WHERE ARRAY_CONTAINS(@ids, c.user)";
        for (kind, expected) in [
            ("array 1 string", Destination::Single),
            ("array 3 string", Destination::Few),
            ("array 500 string", Destination::All),
        ] {
            let parameters = [("@ids".to_owned(), kind.to_owned())];
            let query = AskedQuery::new(text, &parameters, &[], 1).unwrap();
            assert_eq!(query.destination(&key(&["/user"])), expected, "{kind}");
        }
    }

    #[test]
    fn names_of_parameters_are_found_outside_of_strings() {
        assert_eq!(
            parameter_names("SELECT '@no' FROM c WHERE c.a=@a1 AND c.b IN (@b,@a1) AND c.d=@d"),
            ["@a1", "@b", "@d"]
        );
    }
}
