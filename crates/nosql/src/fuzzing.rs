//! What the fuzz targets do with their input. Compiled for fuzzing only: what they try is private.

use crate::hybrid_row;

/// Reads a batch in HybridRow, which ends with operations or an error. The same bytes are read as a
/// row, too, as a fuzzer seldom guesses a checksum.
pub fn hybrid_row(body: &[u8]) {
    let refused = [hybrid_row::read(body).err(), hybrid_row::read_row(body).err()];
    for error in refused.into_iter().flatten() {
        assert!(error.message.ends_with(")."), "{error}");
    }
}
