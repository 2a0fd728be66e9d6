//! Single expressions, answered by the offline engine of the .NET client.

use partita_model::Value;

use super::{agree, check_all, data, documents, list, rows, same_list, text};

#[test]
fn the_offline_engine_and_we_agree() {
    let file = data("cases-offline-engine");
    let cases = list(&file, "cases").iter().map(|case| (text(case, "expression").to_owned(), case));
    let passed = check_all(cases, &[], |case| {
        let expected = match case.get("expectedValue") {
            Some(value) if value.get("$undefined").is_none() => vec![value.clone()],
            _ => Vec::<Value>::new(),
        };
        agree(rows(text(case, "query"), &documents(list(case, "documents"))), &expected, same_list)
    });
    assert_eq!(passed.agree, 93);
}
