//! What a transaction wants to change in the index.
//!
//! Nine of ten changes of a transaction are entries of the index, and most transactions never read
//! those. So they are only gathered, operation by operation, and brought into order when somebody
//! asks, or at the end.
//!
//! At the end there is a way that costs little: operations on items of one sort have equally many
//! entries, the first of each is under the same path, so is the second, and so on. Laid out in that
//! order they are nearly sorted, and each is compared with a few others only.

use bytes::Bytes;
use partita_storage::{Batch, Space};

use super::overlay::{Written, put_all};

/// A write and its place in the order of all.
struct IndexWrite {
    key: Bytes,
    order: usize,
    /// None: the key is deleted.
    value: Option<Bytes>,
}

impl IndexWrite {
    fn place(&self) -> (&Bytes, usize) {
        (&self.key, self.order)
    }
}

/// Writes of the index space.
#[derive(Default)]
pub(super) struct IndexWrites {
    written: Written,
    /// Those that came since, in their order.
    fresh: Vec<IndexWrite>,
    /// How many of them the operations brought, if each brought equally many.
    width: Option<usize>,
    /// How many of them came from operations that have ended.
    ended: usize,
}

impl IndexWrites {
    pub(super) fn is_empty(&self) -> bool {
        self.written.is_empty() && self.fresh.is_empty()
    }

    pub(super) fn push(&mut self, key: Bytes, value: Option<Bytes>) {
        self.fresh.push(IndexWrite { key, order: self.fresh.len(), value });
    }

    /// Says that an operation has brought all of its writes.
    pub(super) fn end_operation(&mut self) {
        let brought = self.fresh.len() - self.ended;
        let is_first = self.ended == 0;
        self.width = self.width.filter(|width| *width == brought).or(is_first.then_some(brought));
        self.ended = self.fresh.len();
    }

    /// The last write of each key.
    pub(super) fn merged(&mut self) -> &Written {
        (self.width, self.ended) = (None, 0);
        let fresh = self.fresh.drain(..);
        self.written.extend(fresh.map(|write| ((Space::Index, write.key), write.value)));
        &self.written
    }

    /// What was merged so far.
    pub(super) fn written(&self) -> &Written {
        &self.written
    }

    /// Adds the last write of each key to a batch.
    pub(super) fn put_into(mut self, batch: &mut Batch) {
        if !self.written.is_empty() {
            self.merged();
            return put_all(batch, self.written);
        }
        let width = self.width.filter(|_| self.ended == self.fresh.len());
        let mut writes = by_columns(self.fresh, width.unwrap_or(0));
        writes.sort_by(|a, b| a.place().cmp(&b.place()));
        writes.dedup_by(|later, kept| {
            let is_same = later.key == kept.key;
            if is_same {
                std::mem::swap(later, kept);
            }
            is_same
        });
        batch.writes.reserve(writes.len());
        for IndexWrite { key, value, .. } in writes {
            match value {
                Some(value) => batch.put(Space::Index, key, value),
                None => batch.delete(Space::Index, key),
            }
        }
    }
}

/// The first writes of all operations, sorted, then the second ones, and so on.
fn by_columns(writes: Vec<IndexWrite>, width: usize) -> Vec<IndexWrite> {
    if width == 0 || width == writes.len() {
        return writes;
    }
    let mut columns: Vec<Vec<IndexWrite>> = Vec::new();
    columns.resize_with(width, || Vec::with_capacity(writes.len() / width));
    for (at, write) in writes.into_iter().enumerate() {
        columns[at % width].push(write);
    }
    for column in &mut columns {
        column.sort_by(|a, b| a.place().cmp(&b.place()));
    }
    columns.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use partita_storage::Write;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_last_write_of_a_key_counts_however_they_are_brought_into_order(
            operations in proptest::collection::vec(
                proptest::collection::vec((0..12_u8, any::<Option<u8>>()), 3),
                0..9,
            ),
            odd in proptest::collection::vec((0..12_u8, any::<Option<u8>>()), 0..2),
            asked_after in 0..12_usize,
        ) {
            let mut writes = IndexWrites::default();
            let mut expected = Written::new();
            for (at, operation) in operations.iter().chain([&odd]).enumerate() {
                for (key, value) in operation {
                    let key = Bytes::copy_from_slice(&[*key]);
                    let value = value.map(|value| Bytes::copy_from_slice(&[value]));
                    writes.push(key.clone(), value.clone());
                    expected.insert((Space::Index, key), value);
                }
                writes.end_operation();
                if at == asked_after {
                    prop_assert_eq!(writes.merged(), &expected);
                }
            }
            prop_assert_eq!(writes.is_empty(), expected.is_empty());
            let (mut batch, mut wanted) = (Batch::new(), Batch::new());
            writes.put_into(&mut batch);
            put_all(&mut wanted, expected);
            prop_assert_eq!(batch.writes, wanted.writes);
        }
    }

    #[test]
    fn a_write_set_that_was_never_asked_for_is_put_in_the_order_of_keys() {
        let mut writes = IndexWrites::default();
        for row in [[1, 5], [2, 4], [3, 3]] {
            row.iter().for_each(|key| writes.push(Bytes::copy_from_slice(&[*key]), None));
            writes.end_operation();
        }
        let mut batch = Batch::new();
        writes.put_into(&mut batch);
        let key = |write: &Write| match write {
            Write::Delete { key, .. } => key[0],
            other => panic!("{other:?}"),
        };
        assert_eq!(batch.writes.iter().map(key).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    }
}
