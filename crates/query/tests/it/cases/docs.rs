//! The samples and pages of the public documentation.

use partita_model::Value;

use super::{Tally, agree, check_all, data, documents, list, rows, same_bag, text};

const NOW: &str = "prints the time at which it was run";
const RANDOM: &str = "prints random numbers";
const NO_DOCUMENTS: &str = "shows rows of documents that are not published";
const OTHER_RESULT: &str = "is shown with the result of another query";
const NO_RID: &str = "shows the _rid that some container gave to the document";
const NO_RESULT: &str = "has no result";

#[test]
fn the_samples_have_their_results() {
    const EXCEPTIONS: &[(&str, &str)] = &[
        ("count-items", NO_RESULT),
        ("documentid", NO_RID),
        ("documentid-filter", NO_RID),
        ("getcurrentdatetime", NOW),
        ("getcurrentdatetimestatic", NOW),
        ("getcurrentticks", NOW),
        ("getcurrentticksstatic", NOW),
        ("getcurrenttimestamp", NOW),
        ("getcurrenttimestampstatic", NOW),
        ("order-by-multiple", NO_DOCUMENTS),
        ("rand", RANDOM),
        ("vectordistance", "is no sentence of the language: an alias in ORDER BY"),
    ];
    let file = data("cases-docs-samples");
    let cases = list(&file, "cases").iter().map(|case| (text(case, "name").to_owned(), case));
    let passed = check_all(cases, EXCEPTIONS, |case| {
        let items = documents(list(case, "documents"));
        agree(rows(text(case, "query"), &items), list(case, "expected"), same_bag)
    });
    assert_eq!(passed, Tally { agree: 123, refused: 6 });
}

#[test]
fn the_pages_have_their_results() {
    const EXCEPTIONS: &[(&str, &str)] = &[
        ("ago #2", NOW),
        ("computed-properties #24", OTHER_RESULT),
        ("computed-properties #26", OTHER_RESULT),
        ("computed-properties #27", OTHER_RESULT),
        ("contains-all-cs #31", "calls \"have\" a part of \"Have\" with regard to case"),
        ("distinct #50", NO_DOCUMENTS),
        ("distinct #51", NO_DOCUMENTS),
        ("documentid #52", NO_RID),
        ("documentid #53", NO_RID),
        ("get-started-json #62", "is not given in full"),
        ("get-started-json #63", OTHER_RESULT),
        ("get-started-json #66", OTHER_RESULT),
        ("get-started-json #67", OTHER_RESULT),
        ("get-started-json #68", NO_DOCUMENTS),
        ("get-started-json #72", NO_DOCUMENTS),
        ("get-started-json #73", NO_DOCUMENTS),
        ("get-started-json #74", NO_DOCUMENTS),
        ("get-started-json #75", "is not given in full"),
        ("getcurrentdatetime #77", NOW),
        ("getcurrentdatetimestatic #78", NOW),
        ("getcurrentticks #79", NOW),
        ("getcurrentticksstatic #80", NOW),
        ("getcurrenttimestamp #81", NOW),
        ("getcurrenttimestampstatic #82", NOW),
        ("group-by #83", NO_DOCUMENTS),
        ("max #120", NO_DOCUMENTS),
        ("min #121", NO_DOCUMENTS),
        ("now #123", NOW),
        ("offset-limit #127", NO_DOCUMENTS),
        ("order-by #132", NO_DOCUMENTS),
        ("rand #137", RANDOM),
        ("setintersect #161", NO_DOCUMENTS),
        ("setunion #163", NO_DOCUMENTS),
        ("subquery #185", NO_DOCUMENTS),
        ("subquery #186", NO_DOCUMENTS),
        ("subquery #187", NO_DOCUMENTS),
        ("subquery #188", NO_DOCUMENTS),
        ("subquery #192", NO_DOCUMENTS),
        ("subquery #193", NO_DOCUMENTS),
        ("subquery #194", NO_DOCUMENTS),
        ("subquery #195", NO_DOCUMENTS),
        ("where #209", NO_DOCUMENTS),
    ];
    let file = data("cases-docs-pages");
    let cases = list(&file, "cases").iter().enumerate();
    let named = cases.map(|(at, case)| (format!("{} #{at}", text(case, "page")), case));
    let passed = check_all(named, EXCEPTIONS, |case| {
        let items = documents(list(case, "documents"));
        let expected = match case.get("expected") {
            Some(Value::Array(rows)) => rows.clone(),
            _ => Vec::new(),
        };
        agree(rows(text(case, "query"), &items), &expected, same_bag)
    });
    assert_eq!(passed, Tally { agree: 157, refused: 12 });
}
