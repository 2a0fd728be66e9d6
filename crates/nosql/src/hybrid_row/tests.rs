//! Bytes that clients sent and accepted, what is refused, and every row there and back.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should stop there")]

use partita_model::binary_json;
use proptest::prelude::*;

use super::*;

#[path = "../../tests/it/hybrid_row/wire.rs"]
#[allow(dead_code, reason = "shared with the tests of the door, which use all of it")]
mod wire;

use self::wire::{Paths, Told, Wanted};

/// A batch of a create and a conditional replace, by Microsoft's own reader.
const EXAMPLE_A: &str = "\
    81f0d8ff7f010a00000081f1d8ff7f230000003b547906817054e17f430000000002000000147b226964223a\
    226131222c22706b223a2278227d81f1d8ff7f2f000000289f3dfc817054e17f530500000002000000026132\
    147b226964223a226132222c22706b223a2278227d14090422653722030c";

/// An answer of 201 and 412, by the same.
const EXAMPLE_B: &str = "\
    81f0d8ff7f010a00000081f1d8ff7f43000000b72e8283817154e17f0fc9000000000000000422653822257b\
    226964223a226131222c22706b223a2278222c225f65746167223a225c2265385c22227d1006d7a3703d0ad7\
    164081f1d8ff7f1e000000769cbc02817154e17f039c010000000000000b05000000001006000000000000f0\
    3f";

/// Create, create, upsert, replace, patch, read and delete, by the .NET SDK 3.64.
const REAL_BATCH: &str = "\
    81f0d8ff7f010a00000081f1d8ff7f62000000352c8fa5817054e17f430000000002000000537b226964223a\
    226231222c22706b223a227062222c226e223a302c2276223a302e302c22636174223a6e756c6c2c22746167\
    73223a6e756c6c2c2274657874223a6e756c6c2c225f65746167223a6e756c6c7d81f1d8ff7f62000000d362\
    1d7a817054e17f430000000002000000537b226964223a226232222c22706b223a227062222c226e223a302c\
    2276223a302e302c22636174223a6e756c6c2c2274616773223a6e756c6c2c2274657874223a6e756c6c2c22\
    5f65746167223a6e756c6c7d81f1d8ff7f62000000db1cf81c817054e17f431400000002000000537b226964\
    223a226233222c22706b223a227062222c226e223a302c2276223a302e302c22636174223a6e756c6c2c2274\
    616773223a6e756c6c2c2274657874223a6e756c6c2c225f65746167223a6e756c6c7d81f1d8ff7f65000000\
    b918ea59817054e17f530500000002000000026231537b226964223a226231222c22706b223a227062222c22\
    6e223a352c2276223a302e302c22636174223a6e756c6c2c2274616773223a6e756c6c2c2274657874223a6e\
    756c6c2c225f65746167223a6e756c6c7d81f1d8ff7f45000000b14e9a78817054e17f530100000002000000\
    026232337b226f7065726174696f6e73223a5b7b226f70223a22736574222c2270617468223a222f6e222c22\
    76616c7565223a397d5d7d81f1d8ff7f11000000ebc0897f817054e17f13020000000200000002623381f1d8\
    ff7f11000000a80a3c97817054e17f130400000002000000026233";

/// A replace and a read with all options, by the same.
const REAL_OPTIONS: &str = "\
    81f0d8ff7f010a00000081f1d8ff7f9a0000008168968e817054e17f53050000000200000002626f537b2269\
    64223a22626f222c22706b223a227062222c226e223a352c2276223a302e302c22636174223a6e756c6c2c22\
    74616773223a6e756c6c2c2274657874223a6e756c6c2c225f65746167223a6e756c6c7d140807496e636c75\
    64651409262234353463326130342d363932652d306539632d303030302d3661666439326235303030302203\
    0c81f1d8ff7f3a000000e614d93a817054e17f13020000000200000002626f140a262234353463326130342d\
    363932652d306539632d303030302d36616664393262353030303022";

/// A bulk's upsert under a hierarchical key, by the same.
const REAL_BULK_TEXT: &str = "\
    81f0d8ff7f010a00000081f1d8ff7f65000000ca89767e817054e17f471400000002000000105b225431222c\
    225531222c225331225d437b226964223a226862756c6b222c2254656e616e744964223a225431222c225573\
    65724964223a225531222c2253657373696f6e4964223a225331222c224e223a307d030c";

/// The same with an item in binary JSON.
const REAL_BULK_BINARY: &str = "\
    81f0d8ff7f010a00000081f1d8ff7f52000000bf4bbf82817054e17f471400000002000000105b225431222c\
    225531222c225331225d3080ea2d2c856862756c6b8854656e616e7449648254318655736572496482553189\
    53657373696f6e4964825331814e00030c";

/// An answer of 424 and 409 that the same accepted.
const REAL_ANSWER: &str = "\
    81f0d8ff7f010a00000081f1d8ff7f18000000630d9486817154e17f03a80100000000000010060000000000\
    00f03f81f1d8ff7f18000000aa5f231a817154e17f0399010000000000001006000000000000f03f";

fn unhex(text: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).unwrap() as u8;
    text.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

fn text<'a>(operation: &Operation<'a>) -> &'a str {
    std::str::from_utf8(operation.body.unwrap()).unwrap()
}

#[test]
fn the_examples_are_read() {
    let body = unhex(EXAMPLE_A);
    let [create, replace] = read(&body).unwrap().try_into().unwrap();
    assert_eq!(create.operation_type, OperationType::Create);
    assert_eq!((create.id, text(&create)), (None, r#"{"id":"a1","pk":"x"}"#));
    assert_eq!((create.if_match, create.minimal), (None, None));
    assert_eq!(replace.operation_type, OperationType::Replace);
    assert_eq!((replace.id, text(&replace)), (Some("a2"), r#"{"id":"a2","pk":"x"}"#));
    assert_eq!((replace.if_match, replace.minimal), (Some("\"e7\""), Some(true)));
}

#[test]
fn the_requests_of_a_real_client_are_read() {
    let body = unhex(REAL_BATCH);
    let operations = read(&body).unwrap();
    let types: Vec<OperationType> = operations.iter().map(|o| o.operation_type).collect();
    use OperationType::{Create, Delete, Patch, Read, Replace, Upsert};
    assert_eq!(types, [Create, Create, Upsert, Replace, Patch, Read, Delete]);
    let ids: Vec<Option<&str>> = operations.iter().map(|operation| operation.id).collect();
    assert_eq!(ids, [None, None, None, Some("b1"), Some("b2"), Some("b3"), Some("b3")]);
    let patch = r#"{"operations":[{"op":"set","path":"/n","value":9}]}"#;
    assert_eq!(text(&operations[4]), patch);
    assert_eq!(operations[5].body, None);

    let body = unhex(REAL_OPTIONS);
    let [replace, look] = read(&body).unwrap().try_into().unwrap();
    let etag = "\"454c2a04-692e-0e9c-0000-6afd92b50000\"";
    assert_eq!((replace.indexing_directive, replace.if_match), (Some("Include"), Some(etag)));
    assert_eq!((replace.minimal, replace.if_none_match), (Some(true), None));
    assert_eq!((look.operation_type, look.if_none_match), (Read, Some(etag)));

    let item = r#"{"id":"hbulk","TenantId":"T1","UserId":"U1","SessionId":"S1","N":0}"#;
    for (hex, binary) in [(REAL_BULK_TEXT, false), (REAL_BULK_BINARY, true)] {
        let body = unhex(hex);
        let [upsert] = read(&body).unwrap().try_into().unwrap();
        assert_eq!(upsert.operation_type, Upsert);
        assert_eq!(upsert.partition_key, Some(r#"["T1","U1","S1"]"#));
        assert_eq!(upsert.minimal, Some(true));
        assert_eq!(binary_json::is_binary(upsert.body.unwrap()), binary);
        let read = if binary {
            binary_json::to_text(upsert.body.unwrap()).unwrap()
        } else {
            text(&upsert).to_owned()
        };
        assert_eq!(read, item);
    }
}

#[test]
fn answers_are_the_bytes_that_clients_accept() {
    let mut writer = Writer::new(2, 0);
    for status in [424, 409] {
        let nothing = ResultRow {
            status,
            substatus: 0,
            etag: None,
            body: None,
            retry_after_ms: 0,
            charge: 1.0,
        };
        writer.push(&nothing);
    }
    assert_eq!(writer.finish(), unhex(REAL_ANSWER));

    // The example's second row also says that there is nothing to wait for, which is left out here.
    let item = br#"{"id":"a1","pk":"x","_etag":"\"e8\""}"#;
    let mut writer = Writer::new(1, 0);
    writer.push(&ResultRow {
        status: 201,
        substatus: 0,
        etag: Some("\"e8\""),
        body: Some(item),
        retry_after_ms: 0,
        charge: 5.71,
    });
    let written = writer.finish();
    assert!(unhex(EXAMPLE_B).starts_with(&written), "{written:?}");
    assert_eq!(wire::results(&unhex(EXAMPLE_B))[1].retry_after_ms, Some(0));
}

#[test]
fn both_forms_of_paths_and_what_nobody_knows_are_read() {
    let wanted = Wanted {
        if_match: Some("e".to_owned()),
        ttl_seconds: Some(-1),
        minimal: Some(false),
        ..Wanted::new(4).id("x")
    };
    let mut unknown = wanted.row(Paths::Tokens);
    // A float64 at the path "abc", a null ifNoneMatch, and a varint at the empty path.
    unknown.extend(b"\x10\x10abc\0\0\0\0\0\0\0\0\x01\x0A\x0D\x00\x85\x01");
    for row in [wanted.row(Paths::Tokens), wanted.row(Paths::Names), unknown] {
        // A second segment header, with a comment.
        let mut body = wire::stream(&[row]);
        body.extend(b"\x81\xF0\xD8\xFF\x7F\x01\x0E\0\0\0\x14\x01\x01c");
        let [delete] = read(&body).unwrap().try_into().unwrap();
        assert_eq!((delete.id, delete.if_match), (Some("x"), Some("e")));
        assert_eq!((delete.ttl_seconds, delete.minimal), (Some(-1), Some(false)));
    }
}

#[test]
fn what_is_no_batch_is_refused_with_the_byte() {
    let good = unhex(EXAMPLE_A);
    let changed = |at: usize, byte: u8| {
        let mut body = good.clone();
        body[at] = byte;
        body
    };
    let row = |from: usize, byte: u8| {
        let mut row = Wanted::new(0).body("{}").row(Paths::Tokens);
        row[from] = byte;
        wire::stream(&[row])
    };
    let sparse = |field: &[u8]| {
        wire::stream(&[[Wanted::new(0).body("{}").row(Paths::Tokens), field.to_vec()].concat()])
    };
    let text_of = |body: &[u8]| read(body).unwrap_err().message;
    for (body, expected) in [
        (Vec::new(), "expected 1 more bytes, found 0 (byte 0)"),
        (vec![0x81, 0, 0], "expected 4 more bytes, found 2 (byte 1)"),
        (good[..50].to_vec(), "expected 35 more bytes, found 27 (byte 23)"),
        (
            changed(1, 0xEE),
            "expected a segment header, found the unknown schema 2147473646 (byte 0)",
        ),
        (changed(5, 0), "does not tell its length (byte 0)"),
        (changed(6, 9), "does not tell its length (byte 0)"),
        (changed(10, b'['), "expected a row (0x81), found 0x5b (byte 10)"),
        (changed(11, 0xEE), "found the unknown schema 2147473646 (byte 10)"),
        (changed(18, 0xFF), "is no length (byte 15)"),
        (changed(40, b'x'), "the row's checksum is"),
        (row(1, 0x71), "expected an operation, found the unknown schema 2145473649 (byte 23)"),
        (row(5, 0x42), "an operation has no operationType (byte 29)"),
        (row(6, 3), "unknown operationType 3 (byte 29)"),
        (row(10, 7), "a batch is for documents (2), not for the resource 7 (byte 33)"),
        (row(14, 0x80), "expected 15744 more bytes, found 1 (byte 39)"),
        (sparse(b"\x14\x05\x01x"), "'id' is no sparse field (byte 40)"),
        (sparse(b"\x03\x09"), "'ifMatch' cannot be of the type 3 (byte 40)"),
        (sparse(b"\x14\x09\x01\xFF"), "invalid UTF-8 in a text (byte 43)"),
        (sparse(b"\x1E\x09"), "a sparse field has the type 30"),
        (
            sparse(&[0x0E, 0, 255, 255, 255, 255, 255, 255, 255, 255, 255, 2]),
            "a number is too large",
        ),
    ] {
        let message = text_of(&body);
        assert!(message.contains(expected), "'{expected}' is not in: {message}");
    }
}

prop_compose! {
    fn wanted()(
        operation_type in prop::sample::select(vec![0, 1, 2, 4, 5, 20]),
        texts in prop::array::uniform5(prop::option::of("\\PC{0,200}")),
        body in prop::option::of(prop::collection::vec(any::<u8>(), 0..300)),
        ttl_seconds in any::<Option<i32>>(),
        minimal in any::<Option<bool>>(),
    ) -> Wanted {
        let [partition_key, id, indexing_directive, if_match, if_none_match] = texts;
        Wanted {
            operation_type,
            partition_key,
            id,
            body,
            indexing_directive,
            if_match,
            if_none_match,
            ttl_seconds,
            minimal,
        }
    }
}

prop_compose! {
    fn any_result()(
        status in 1..=599,
        substatus in 0..=6000,
        etag in prop::option::of("\\PC{0,40}"),
        body in prop::option::of(prop::collection::vec(any::<u8>(), 0..300)),
        retry_after_ms in prop::option::of(1..=u32::MAX),
        charge in 0.0..1e6,
    ) -> Told {
        Told { status, substatus, etag, body, retry_after_ms, charge: Some(charge) }
    }
}

fn number(operation_type: OperationType) -> i32 {
    match operation_type {
        OperationType::Create => 0,
        OperationType::Patch => 1,
        OperationType::Read => 2,
        OperationType::Delete => 4,
        OperationType::Replace => 5,
        OperationType::Upsert => 20,
    }
}

proptest! {
    #[test]
    fn operations_arrive_as_they_were_written(
        sent in prop::collection::vec(wanted(), 0..6),
        names in any::<bool>(),
    ) {
        let paths = if names { Paths::Names } else { Paths::Tokens };
        let rows: Vec<Vec<u8>> = sent.iter().map(|wanted| wanted.row(paths)).collect();
        let body = wire::stream(&rows);
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let arrived = read(&body).unwrap().into_iter().map(|operation| Wanted {
            operation_type: number(operation.operation_type),
            partition_key: owned(operation.partition_key),
            id: owned(operation.id),
            body: operation.body.map(<[u8]>::to_vec),
            indexing_directive: owned(operation.indexing_directive),
            if_match: owned(operation.if_match),
            if_none_match: owned(operation.if_none_match),
            ttl_seconds: operation.ttl_seconds,
            minimal: operation.minimal,
        });
        prop_assert_eq!(arrived.collect::<Vec<_>>(), sent);
    }

    #[test]
    fn results_arrive_as_they_were_written(sent in prop::collection::vec(any_result(), 0..6)) {
        let mut writer = Writer::new(sent.len(), 0);
        for result in &sent {
            writer.push(&ResultRow {
                status: u16::try_from(result.status).unwrap(),
                substatus: u32::try_from(result.substatus).unwrap(),
                etag: result.etag.as_deref(),
                body: result.body.as_deref(),
                retry_after_ms: result.retry_after_ms.unwrap_or(0),
                charge: result.charge.unwrap(),
            });
        }
        prop_assert_eq!(wire::results(&writer.finish()), sent);
    }

    /// Rows with the right sum, of which some bytes are anything: the sum keeps no damage away.
    #[test]
    fn no_bytes_make_the_reader_panic(
        wanted in wanted(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        cut in any::<prop::sample::Index>(),
        outside in any::<bool>(),
    ) {
        let damaged = |mut bytes: Vec<u8>| {
            for (at, byte) in &damage {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            bytes.truncate(cut.index(bytes.len() + 1));
            bytes
        };
        let row = wanted.row(Paths::Tokens);
        let body = if outside {
            damaged(wire::stream(&[row]))
        } else {
            wire::stream(&[damaged(row)])
        };
        let _ = read(&body);
    }
}
