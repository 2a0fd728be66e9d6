//! The client's half of HybridRow: writes operations, reads results. Written apart from the
//! server's half, with a checksum of its own, so that the two can be held against each other.

/// An operation as a client would write it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Wanted {
    pub(crate) operation_type: i32,
    pub(crate) partition_key: Option<String>,
    pub(crate) id: Option<String>,
    pub(crate) body: Option<Vec<u8>>,
    pub(crate) indexing_directive: Option<String>,
    pub(crate) if_match: Option<String>,
    pub(crate) if_none_match: Option<String>,
    pub(crate) ttl_seconds: Option<i32>,
    pub(crate) minimal: Option<bool>,
}

/// A result as a client reads it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Told {
    pub(crate) status: i32,
    pub(crate) substatus: i32,
    pub(crate) etag: Option<String>,
    pub(crate) body: Option<Vec<u8>>,
    pub(crate) retry_after_ms: Option<u32>,
    pub(crate) charge: Option<f64>,
}

/// How sparse paths are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paths {
    Tokens,
    #[allow(dead_code, reason = "the tests of the reader write them")]
    Names,
}

impl Wanted {
    pub(crate) fn new(operation_type: i32) -> Wanted {
        Wanted { operation_type, ..Wanted::default() }
    }

    pub(crate) fn key(mut self, key: &str) -> Wanted {
        self.partition_key = Some(key.to_owned());
        self
    }

    pub(crate) fn id(mut self, id: &str) -> Wanted {
        self.id = Some(id.to_owned());
        self
    }

    pub(crate) fn body(mut self, body: impl AsRef<[u8]>) -> Wanted {
        self.body = Some(body.as_ref().to_vec());
        self
    }

    pub(crate) fn row(&self, paths: Paths) -> Vec<u8> {
        let columns = [self.partition_key.as_ref(), None, self.id.as_ref(), None]
            .map(|c| c.map(|t| t.as_bytes()));
        let columns = [&columns[..], &[self.body.as_deref()]].concat();
        let present = (2..).zip(&columns).filter(|(_, column)| column.is_some());
        let presence = present.fold(3_u8, |bits, (bit, _)| bits | 1 << bit);
        let mut row = b"\x81\x70\x54\xE1\x7F".to_vec();
        row.push(presence);
        row.extend(self.operation_type.to_le_bytes());
        row.extend(2_i32.to_le_bytes());
        for column in columns.into_iter().flatten() {
            put_bytes(&mut row, column);
        }
        let mut field = |code: u8, token: u8, name: &str, value: &[u8]| {
            row.push(code);
            match paths {
                Paths::Tokens => row.push(token),
                Paths::Names => {
                    put_varuint(&mut row, 13 + name.len());
                    row.extend(name.as_bytes());
                }
            }
            row.extend(value);
        };
        let texts = [
            (8, "indexingDirective", &self.indexing_directive),
            (9, "ifMatch", &self.if_match),
            (10, "ifNoneMatch", &self.if_none_match),
        ];
        for (token, name, text) in texts {
            if let Some(text) = text {
                let mut value = Vec::new();
                put_bytes(&mut value, text.as_bytes());
                field(20, token, name, &value);
            }
        }
        if let Some(seconds) = self.ttl_seconds {
            field(7, 11, "timeToLiveInSeconds", &seconds.to_le_bytes());
        }
        if let Some(minimal) = self.minimal {
            field(2 + u8::from(minimal), 12, "minimalReturnPreference", &[]);
        }
        row
    }
}

/// A stream of these rows.
pub(crate) fn stream(rows: &[Vec<u8>]) -> Vec<u8> {
    let mut stream = b"\x81\xF0\xD8\xFF\x7F\x01\x0A\x00\x00\x00".to_vec();
    for row in rows {
        stream.extend(b"\x81\xF1\xD8\xFF\x7F");
        stream.extend(u32::try_from(row.len()).unwrap().to_le_bytes());
        stream.extend(crc(row).to_le_bytes());
        stream.extend(row);
    }
    stream
}

/// A request with these operations.
pub(crate) fn request(operations: &[Wanted]) -> Vec<u8> {
    let rows: Vec<Vec<u8>> = operations.iter().map(|wanted| wanted.row(Paths::Tokens)).collect();
    stream(&rows)
}

/// The results of an answer. As strict as the client: it takes nothing that is a little wrong.
pub(crate) fn results(body: &[u8]) -> Vec<Told> {
    let mut rest = body.strip_prefix(b"\x81\xF0\xD8\xFF\x7F\x01\x0A\x00\x00\x00").unwrap();
    let mut results = Vec::new();
    while !rest.is_empty() {
        rest = rest.strip_prefix(b"\x81\xF1\xD8\xFF\x7F").unwrap();
        let length = u32::from_le_bytes(take(&mut rest));
        let sum = u32::from_le_bytes(take(&mut rest));
        let (row, after) = rest.split_at(length as usize);
        assert_eq!(crc(row), sum);
        results.push(result(row));
        rest = after;
    }
    results
}

fn result(row: &[u8]) -> Told {
    let mut rest = row.strip_prefix(b"\x81\x71\x54\xE1\x7F").unwrap();
    let [presence] = take(&mut rest);
    assert_eq!(presence & 3, 3);
    let mut told = Told {
        status: i32::from_le_bytes(take(&mut rest)),
        substatus: i32::from_le_bytes(take(&mut rest)),
        ..Told::default()
    };
    if presence & 4 != 0 {
        told.etag = Some(String::from_utf8(bytes(&mut rest)).unwrap());
    }
    if presence & 8 != 0 {
        told.body = Some(bytes(&mut rest));
    }
    while !rest.is_empty() {
        match take(&mut rest) {
            [11, 5] => told.retry_after_ms = Some(u32::from_le_bytes(take(&mut rest))),
            [16, 6] => told.charge = Some(f64::from_le_bytes(take(&mut rest))),
            other => panic!("a sparse field {other:?}"),
        }
    }
    told
}

fn take<const N: usize>(rest: &mut &[u8]) -> [u8; N] {
    let (taken, after) = rest.split_first_chunk().unwrap();
    *rest = after;
    *taken
}

/// Bytes with their length before them.
pub(crate) fn bytes(rest: &mut &[u8]) -> Vec<u8> {
    let mut length = 0;
    for shift in (0..).step_by(7) {
        let [byte] = take(rest);
        length |= usize::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    let (bytes, after) = rest.split_at(length);
    *rest = after;
    bytes.to_vec()
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varuint(out, bytes.len());
    out.extend(bytes);
}

fn put_varuint(out: &mut Vec<u8>, mut number: usize) {
    while number > 0x7F {
        out.push(u8::try_from(number & 0x7F).unwrap() | 0x80);
        number >>= 7;
    }
    out.push(u8::try_from(number).unwrap());
}

/// Bit by bit.
fn crc(bytes: &[u8]) -> u32 {
    let mut crc = !0_u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xEDB8_8320 * (crc & 1));
        }
    }
    !crc
}
