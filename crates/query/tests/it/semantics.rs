//! Which rows a condition selects. One table per family; each line is one small fact.

use partita_model::Value;
use partita_query::Filter;

const ROW: &str = r#"{
    "id": "a", "n": 5, "half": 0.5, "big": 9007199254740993, "yes": true, "no": false,
    "nothing": null, "text": "Straße", "list": [1, "two", {"k": 3, "m": 4}], "empty": [],
    "deep": {"er": {"est": [10, 20]}}, "odd name": 1, "value": 2
}"#;

fn holds(condition: &str) -> bool {
    let row = Value::parse(ROW.as_bytes()).expect("the row is JSON");
    let text = format!("FROM c WHERE {condition}");
    let filter = Filter::parse_condition(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    filter.matches(&row).expect("little work")
}

#[track_caller]
fn all_hold(conditions: &[&str]) {
    for condition in conditions {
        assert!(holds(condition), "{condition} holds");
    }
}

#[track_caller]
fn none_hold(conditions: &[&str]) {
    for condition in conditions {
        assert!(!holds(condition), "{condition} does not hold");
    }
}

/// Undefined: neither the expression nor its negation holds, and IS_DEFINED says no.
#[track_caller]
fn all_undefined(expressions: &[&str]) {
    for expression in expressions {
        assert!(holds(&format!("NOT IS_DEFINED({expression})")), "{expression} is undefined");
        assert!(!holds(&format!("({expression}) = true")), "{expression} is undefined");
    }
}

#[test]
fn paths_reach_members_and_elements_or_are_undefined() {
    all_hold(&[
        "c.id = 'a'",
        "c[\"id\"] = \"a\"",
        "c['odd name'] = 1",
        "c['value'] = 2",
        "c.deep.er.est[1] = 20",
        "c.deep['er'].est[0] = 10",
        "c.list[2].k = 3",
        "{'a': [7, 8]}.a[1] = 8",
        "c.list[1.0] = 'two'",
    ]);
    all_undefined(&[
        "c.missing",
        "c.ID",
        "c.id.length",
        "c.list[9]",
        "c.list[-1]",
        "c.list[1.5]",
        "c.list['0']",
        "c.deep[0]",
        "c.missing.more[3]",
        "c[null]",
        "undefined",
        "@unknown",
    ]);
}

#[test]
fn equality_is_by_value_and_false_across_types() {
    all_hold(&[
        "c.n = 5.0",
        "c.n != '5'",
        "c.nothing = null",
        "c.n != null",
        "NOT (c.n = '5')",
        "c.list[2] = {'m': 4, 'k': 3}",
        "c.empty = []",
        "c.n <> 6",
        "NaN != NaN",
        "c.big = 9007199254740993",
        "c.big != 9007199254740992",
    ]);
    none_hold(&["c.n = '5'", "c.missing = null", "c.missing != 1", "c.missing = undefined"]);
    all_undefined(&["c.missing = 1", "c.missing != 1", "undefined = undefined"]);
}

#[test]
fn order_is_undefined_across_types_and_for_arrays_and_objects() {
    all_hold(&[
        "c.n > 4",
        "c.n <= 5",
        "c.text < 'a'",
        "c.no < c.yes",
        "null <= null",
        "NOT (null < null)",
        "'\\ud800\\udc00' < '\\ue000'",
        "(NaN < 1) = false",
    ]);
    all_undefined(&["c.n < '6'", "c.empty < []", "c.deep >= c.deep", "c.n > null", "true < 1"]);
}

#[test]
fn logic_has_three_values() {
    all_hold(&[
        "true OR c.missing = 1",
        "c.missing = 1 OR true",
        "NOT (c.missing = 1 AND false)",
        "NOT (false AND c.missing = 1)",
        "c.n = 5 AND c.yes AND NOT c.no",
        "c.missing = 1 OR 1 OR true",
        "false OR false OR true",
    ]);
    all_undefined(&[
        "true AND c.missing = 1",
        "false OR c.missing = 1",
        "NOT (c.missing = 1)",
        "NOT 5",
        "1 AND true",
        "'true' OR false",
    ]);
    none_hold(&["1", "'true'", "c.n", "null", "c"]);
}

#[test]
fn precedence_follows_the_service() {
    all_hold(&[
        // NOT binds like a sign: (NOT c.no) = true.
        "NOT c.no = true",
        "NOT c.no AND true",
        "1 + 2 * 3 = 7",
        "(1 + 2) * 3 = 9",
        "10 - 2 - 3 = 5",
        // One level for + and the bit operators: (1 | 2) + 3.
        "1 | 2 + 3 = 6",
        "(1 = 1 = true)",
        "'a' || 'b' = 'ab'",
        "true OR true AND false",
        "1 BETWEEN 0 AND 2 AND c.n = 5",
        "-c.n + 1 = -4",
        "- -c.n = 5",
        "2 * -3 = -6",
        "c.missing ?? c.n = 5",
        "false ? false : true ? true : false",
    ]);
}

#[test]
fn predicates_in_between_and_like() {
    all_hold(&[
        "c.n IN (1, 5.0, 'x')",
        "c.n NOT IN (1, 2)",
        "c.n IN (c.missing, 5)",
        "(c.n IN (c.missing)) = false",
        "c.n BETWEEN 5 AND 5",
        "c.n NOT BETWEEN 6 AND 7",
        "c.id BETWEEN 'a' AND 'b'",
        "c.text LIKE 'Stra%'",
        "c.text LIKE '_tra[a-z]e' OR c.text LIKE '%ß_'",
        "c.text NOT LIKE 'stra%'",
        "'10%' LIKE '10!%' ESCAPE '!'",
        "c.id LIKE c.id",
    ]);
    all_undefined(&[
        "c.missing IN (1)",
        "c.n BETWEEN 'a' AND 'b'",
        "c.n LIKE '5'",
        "c.text LIKE 5",
        "c.missing NOT IN (1)",
    ]);
    none_hold(&["(c.n BETWEEN 6 AND 'x')", "c.text LIKE 'traße'"]);
}

#[test]
fn arithmetic_needs_numbers_and_bits_are_32_wide() {
    all_hold(&[
        "7 % 4 = 3",
        "-7 % 4 = -3",
        "1 / 2 = 0.5",
        "6 / 3 = 2",
        "1 / 0 = Infinity",
        "9223372036854775807 + 1 = 9223372036854775808",
        "(100 >> 2) = 25",
        "(100 << 2) = 400",
        "(100 >>> 0) = 100",
        "(-1 >>> 0) = 4294967295",
        "(100 & 1000) = 96",
        "(100 | 1000) = 1004",
        "(100 ^ 1000) = 908",
        "~3.7 = -4",
        "0x1F = 31",
        ".5 = c.half",
    ]);
    all_undefined(&["1 + '1'", "'a' || 1", "-'a'", "+null", "~'x'", "c.list * 2", "null & 1"]);
}

#[test]
fn choices_stop_undefined() {
    all_hold(&[
        "(c.missing ?? 1) = 1",
        "(c.nothing ?? 1) = null",
        "(c.missing ?? c.gone ?? 3) = 3",
        "(c.yes ? 1 : 2) = 1",
        "(c.missing ? 1 : 2) = 2",
        "(1 ? 1 : 2) = 2",
    ]);
}

#[test]
fn literals_drop_what_is_undefined() {
    all_hold(&[
        "[1, c.missing, 2] = [1, 2]",
        "{'a': 1, 'b': c.missing} = {a: 1}",
        "{\"a\": {}} = {a: {}}",
    ]);
}

#[test]
fn type_functions_answer_for_undefined_too() {
    all_hold(&[
        "IS_DEFINED(c.nothing)",
        "IS_DEFINED(c.missing) = false",
        "is_null(c.nothing)",
        "IS_NULL(c.missing) = false",
        "IS_STRING(c.id)",
        "IS_NUMBER(c.n)",
        "IS_BOOL(c.no)",
        "IS_BOOLEAN(c.no)",
        "IS_ARRAY(c.empty)",
        "IS_OBJECT(c.deep)",
        "IS_OBJECT(c.list) = false",
    ]);
}

#[test]
fn string_array_and_number_functions() {
    all_hold(&[
        "CONTAINS(c.text, 'raß')",
        "CONTAINS(c.text, '')",
        "CONTAINS(c.text, 'STRA', true)",
        "CONTAINS(c.text, 'STRA', false) = false",
        "STARTSWITH(c.text, 'Str')",
        "ENDSWITH(c.text, 'SSE', true) = false",
        "ENDSWITH(c.text, 'e')",
        "ARRAY_CONTAINS(c.list, 'two')",
        "ARRAY_CONTAINS(c.list, {k: 3}) = false",
        "ARRAY_CONTAINS(c.list, {k: 3}, true)",
        "ARRAY_CONTAINS(c.list, {k: 3}, c.missing) = false",
        "LOWER('ÄB') = 'äb'",
        "UPPER('äb') = 'ÄB'",
        "LENGTH('a\\ud83d\\ude00') = 3",
        "ABS(-2.5) = 2.5",
        "ABS(-9223372036854775807) = 9223372036854775807",
    ]);
    all_undefined(&[
        "CONTAINS(c.n, '5')",
        "CONTAINS(c.text, c.missing)",
        "CONTAINS(c.text, 'a', 1)",
        "CONTAINS(c.text, 'a', c.missing)",
        "ARRAY_CONTAINS(c.text, 'a')",
        "ARRAY_CONTAINS(c.list, c.missing)",
        "ARRAY_CONTAINS(c.list, 1, 'x')",
        "LOWER(1)",
        "LENGTH(c.list)",
        "ABS('1')",
    ]);
}

#[test]
fn the_queries_that_clients_send_for_offers() {
    let offer =
        r#"{"resource":"dbs/AAAAAA==/colls/AAAAAIAAAAA=/","offerResourceId":"AAAAAIAAAAA="}"#;
    let offer = Value::parse(offer.as_bytes()).unwrap();
    let link = "dbs/AAAAAA==/colls/AAAAAIAAAAA=/";
    let parameters =
        [("@link".to_owned(), Value::from(link)), ("@rid".to_owned(), Value::from("AAAAAIAAAAA="))];
    for text in [
        "SELECT * FROM root r WHERE r.resource=@link",
        "SELECT * from root where root.resource = \"dbs/AAAAAA==/colls/AAAAAIAAAAA=/\"",
        "SELECT * FROM c WHERE c.offerResourceId = @rid",
        "select value r from root as r where r.resource = @link",
        "SELECT * FROM c",
    ] {
        let filter = Filter::parse_query(text, &parameters).unwrap();
        assert!(filter.matches(&offer).unwrap(), "{text}");
    }
    let other = [("@link".to_owned(), Value::from("dbs/x/"))];
    let filter = Filter::parse_query("SELECT * FROM root r WHERE r.resource=@link", &other);
    assert!(!filter.unwrap().matches(&offer).unwrap());
}

#[test]
fn a_condition_without_where_always_holds() {
    let filter = Filter::parse_condition("from c").unwrap();
    assert!(filter.matches(&Value::Null).unwrap());
}
