//! CRC-32 as zlib has it: reflected, polynomial EDB88320.
//!
//! Eight bytes at a time by eight tables (Kounavis and Berry): a batch may have two megabytes, and
//! each of its rows is summed once on the way in and once on the way out.

const TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut byte = 0;
    while byte < 256 {
        let mut table = 1;
        while table < 8 {
            let before = tables[table - 1][byte];
            tables[table][byte] = before >> 8 ^ tables[0][(before & 0xFF) as usize];
            table += 1;
        }
        byte += 1;
    }
    tables
}

pub(super) fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, byte: u8| crc >> 8 ^ TABLES[0][usize::from(crc as u8 ^ byte)];
    let (chunks, rest) = bytes.as_chunks::<8>();
    let mut crc = !0;
    for chunk in chunks {
        let word = u64::from_le_bytes(*chunk) ^ u64::from(crc);
        let folded = word.to_le_bytes().into_iter().zip(TABLES.iter().rev());
        crc = folded.fold(0, |sum, (byte, table)| sum ^ table[usize::from(byte)]);
    }
    !rest.iter().fold(crc, |crc, byte| step(crc, *byte))
}

#[cfg(test)]
mod tests {
    use super::crc32;

    #[test]
    fn the_sums_are_those_of_zlib() {
        for (text, sum) in [
            ("", 0),
            ("a", 0xE8B7_BE43),
            ("123456789", 0xCBF4_3926),
            ("The quick brown fox jumps over the lazy dog", 0x414F_A339),
        ] {
            assert_eq!(crc32(text.as_bytes()), sum, "{text}");
        }
    }
}
