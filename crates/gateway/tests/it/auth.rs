//! Signatures as the SDKs make them, and as they must not be.

use partita_gateway::auth::{AuthError, Key, KeyError, Keys, Principal, Signed, string_to_sign};
use serde_json::Value;

const VECTORS: &str = include_str!("../data/auth-vectors.json");
/// Thu, 27 Apr 2017 00:51:12 GMT, the date of all vectors.
const NOW: u64 = 1_493_254_272;
const SKEW: u64 = 15 * 60;

fn vectors() -> (String, Vec<Value>) {
    let all: Value = serde_json::from_str(VECTORS).unwrap();
    let key = all["key"].as_str().unwrap().to_string();
    (key, all["vectors"].as_array().unwrap().clone())
}

fn text<'a>(row: &'a Value, name: &str) -> &'a str {
    row[name].as_str().unwrap_or_else(|| panic!("{name} in {row}"))
}

fn signed<'a>(row: &'a Value, links: &'a [&'a str]) -> Signed<'a> {
    Signed {
        verb: text(row, "verb"),
        resource_type: text(row, "resourceType"),
        links,
        date: text(row, "x-ms-date"),
        http_date: "",
    }
}

fn primary(key: &str) -> Keys {
    Keys { primary: Some(Key::parse(key).unwrap()), ..Keys::default() }
}

#[test]
fn every_recorded_request_is_verified() {
    let (key, rows) = vectors();
    assert_eq!(rows.len(), 14);
    for row in &rows {
        let links = [text(row, "resourceLinkSigned")];
        let signed = signed(row, &links);
        assert_eq!(string_to_sign(&signed, links[0]), text(row, "stringToSign"), "{row}");

        let header = text(row, "authorization");
        let raw = header.replace("%3D", "=").replace("%26", "&").replace("%2F", "/");
        let raw = raw.replace("%2B", "+");
        for header in [header, &header.to_ascii_lowercase_escapes(), &raw] {
            let verified = primary(&key).verify(Some(header), &signed, NOW, SKEW);
            assert_eq!(verified, Ok(Principal::ReadWrite), "{header} of {row}");
        }
    }
}

trait LowerEscapes {
    fn to_ascii_lowercase_escapes(&self) -> String;
}

impl LowerEscapes for str {
    /// `%2F` as `%2f`: both are percent-encoding.
    fn to_ascii_lowercase_escapes(&self) -> String {
        self.replace("%3D", "%3d").replace("%2F", "%2f").replace("%2B", "%2b")
    }
}

#[test]
fn a_plus_in_a_raw_signature_stays_a_plus() {
    let (key, rows) = vectors();
    let row = rows.iter().find(|row| text(row, "authorization").contains("%2B")).unwrap();
    let links = [text(row, "resourceLinkSigned")];
    let raw = text(row, "authorization").replace("%2B", "+");
    assert!(primary(&key).verify(Some(&raw), &signed(row, &links), NOW, SKEW).is_ok());
    let spaced = raw.replace('+', " ");
    let refused = primary(&key).verify(Some(&spaced), &signed(row, &links), NOW, SKEW);
    assert!(matches!(refused, Err(AuthError::Malformed(_))), "{refused:?}");
}

#[test]
fn the_key_that_signed_decides_what_may_be_done() {
    let (key, rows) = vectors();
    let other = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    let (key, other) = (Key::parse(&key).unwrap(), Key::parse(other).unwrap());
    let links = [text(&rows[1], "resourceLinkSigned")];
    let signed = signed(&rows[1], &links);
    let header = Some(text(&rows[1], "authorization"));

    let secondary =
        Keys { primary: Some(other.clone()), secondary: Some(key.clone()), ..Keys::default() };
    assert_eq!(secondary.verify(header, &signed, NOW, SKEW), Ok(Principal::ReadWrite));
    let readonly =
        Keys { primary: Some(other.clone()), secondary_readonly: Some(key), ..Keys::default() };
    assert_eq!(readonly.verify(header, &signed, NOW, SKEW), Ok(Principal::ReadOnly));
    let neither = Keys { primary: Some(other), ..Keys::default() };
    let refused = neither.verify(header, &signed, NOW, SKEW);
    let string_to_sign = text(&rows[1], "stringToSign").to_string();
    assert_eq!(refused, Err(AuthError::Mismatch { string_to_sign }));
}

#[test]
fn any_of_the_links_may_have_been_signed() {
    let (key, rows) = vectors();
    let link = text(&rows[12], "resourceLinkSigned");
    let header = Some(text(&rows[12], "authorization"));
    let links = ["dbs/AAAAAQ==/colls/AAAAAYAAAAE=", link];
    assert!(primary(&key).verify(header, &signed(&rows[12], &links), NOW, SKEW).is_ok());
    let refused = primary(&key).verify(header, &signed(&rows[12], &links[..1]), NOW, SKEW);
    assert!(matches!(refused, Err(AuthError::Mismatch { .. })));
}

#[test]
fn a_changed_request_does_not_match() {
    let (key, rows) = vectors();
    let row = &rows[5];
    let links = [text(row, "resourceLinkSigned")];
    let right = signed(row, &links);
    let upper = [links[0].to_ascii_uppercase()];
    let upper = [upper[0].as_str()];
    for wrong in [
        Signed { verb: "PUT", ..right },
        Signed { resource_type: "colls", ..right },
        Signed { links: &upper, ..right },
        Signed { links: &[], ..right },
        Signed { date: "Thu, 27 Apr 2017 00:51:13 GMT", ..right },
    ] {
        let refused = primary(&key).verify(Some(text(row, "authorization")), &wrong, NOW, SKEW);
        assert!(matches!(refused, Err(AuthError::Mismatch { .. })), "{wrong:?}");
    }
}

#[test]
fn the_date_header_counts_where_there_is_no_x_ms_date() {
    let (key, _) = vectors();
    let date = "Thu, 27 Apr 2017 00:51:12 GMT";
    let sign = |message: &str| {
        let signature = Key::parse(&key).unwrap().sign(message.as_bytes());
        format!("type=master&ver=1.0&sig={signature}")
    };
    let only_date =
        Signed { verb: "GET", resource_type: "dbs", links: &[""], date: "", http_date: date };
    let header = sign("get\ndbs\n\n\nthu, 27 apr 2017 00:51:12 gmt\n");
    assert!(primary(&key).verify(Some(&header), &only_date, NOW, SKEW).is_ok());

    // A proxy may add a `date`: the signature covers x-ms-date alone, or both.
    let both = Signed { date, ..only_date };
    let lower = date.to_ascii_lowercase();
    for message in [format!("get\ndbs\n\n{lower}\n\n"), format!("get\ndbs\n\n{lower}\n{lower}\n")] {
        assert!(primary(&key).verify(Some(&sign(&message)), &both, NOW, SKEW).is_ok());
    }

    let neither = Signed { http_date: "", ..only_date };
    let refused = primary(&key).verify(Some(&sign("get\ndbs\n\n\n\n")), &neither, NOW, SKEW);
    assert_eq!(refused, Err(AuthError::BadDate(String::new())));
}

#[test]
fn a_signature_is_good_for_the_skew_and_no_longer() {
    let (key, rows) = vectors();
    let links = [text(&rows[0], "resourceLinkSigned")];
    let verify = |now, skew| {
        let header = Some(text(&rows[0], "authorization"));
        primary(&key).verify(header, &signed(&rows[0], &links), now, skew)
    };
    assert!(verify(NOW + SKEW, SKEW).is_ok());
    assert!(verify(NOW - SKEW, SKEW).is_ok());
    for now in [NOW + SKEW + 1, NOW - SKEW - 1] {
        let Err(AuthError::Expired { apart_seconds, .. }) = verify(now, SKEW) else {
            panic!("accepted at {now}")
        };
        assert_eq!(apart_seconds, SKEW + 1);
    }
    assert!(verify(NOW * 2, u64::MAX).is_ok());
}

#[test]
fn what_is_no_authorization_says_why() {
    let (key, rows) = vectors();
    let links = [text(&rows[0], "resourceLinkSigned")];
    let verify =
        |header: Option<&str>| primary(&key).verify(header, &signed(&rows[0], &links), NOW, SKEW);
    assert_eq!(verify(None), Err(AuthError::Missing));
    for (header, reason) in [
        ("", "\"\" has no value"),
        ("Bearer", "\"Bearer\" has no value"),
        ("user=me&password=x", "unknown part \"user\""),
        ("cmVhZG9ubHktcmVhZG9ubHk=", "unknown part \"…\""),
        ("cmVhZG9ubHktcmVhZG9ubHkx", "\"…\" has no value"),
        ("type=master", "it has no ver="),
        ("ver=1.0&sig=AAAA", "it has no type="),
        ("type=master&ver=1.0", "it has no sig="),
        ("type=master&ver=2.0&sig=AAAA", "ver=\"2.0\" is not 1.0"),
        ("type=master&ver=1.0&sig=!!!!", "sig is not base64"),
        ("type=master&ver=1.0&sig=AAAA", "sig has 3 bytes, not 32"),
        ("type%3Dmaster%2", "a % is not followed by two hex digits"),
        ("type%3Dmaster%zz", "a % is not followed by two hex digits"),
        ("%ff%fe", "it is not UTF-8"),
    ] {
        assert_eq!(verify(Some(header)), Err(AuthError::Malformed(reason.into())), "{header}");
    }
    for kind in ["aad", "resource"] {
        let header = format!("type%3D{kind}%26ver%3D1.0%26sig%3Dabc");
        assert_eq!(verify(Some(&header)), Err(AuthError::UnknownKind(kind.into())));
    }
}

#[test]
fn a_text_that_is_no_key_says_why() {
    assert_eq!(Key::parse(" ").unwrap_err(), KeyError::Empty);
    assert_eq!(Key::parse("secret!").unwrap_err(), KeyError::NotBase64);
    let short = Key::parse("c2hvcnQ=").unwrap_err();
    assert_eq!(short, KeyError::TooShort { bytes: 5, bytes_min: 16 });
    let key = Key::parse("AAECAwQFBgcICQoLDA0ODw==\n").unwrap();
    assert_eq!(format!("{key:?}"), "Key(…)");
}
