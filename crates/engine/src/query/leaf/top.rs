//! The first rows of an order, kept while others pass by.
//!
//! Holds no more rows than are wanted, and no more bytes than allowed (one row always). Once a row
//! had to go, nothing that comes behind it is taken any more, so what is left is always the
//! beginning of the order without a gap.

use std::cmp::Ordering;

use crate::query::position::{LeafRow, Order, Position, SortPosition};

/// Rows are put in order and cut when this many more than wanted have come together.
const SLACK: usize = 64;

pub(super) struct TopRows<'a> {
    order: &'a Order,
    after: Option<&'a SortPosition>,
    want: usize,
    bytes_max: usize,
    rows: Vec<LeafRow>,
    bytes: usize,
    /// The first row that had to go.
    cutoff: Option<SortPosition>,
}

impl<'a> TopRows<'a> {
    pub(super) fn new(
        order: &'a Order,
        after: Option<&'a SortPosition>,
        want: usize,
        bytes_max: usize,
    ) -> TopRows<'a> {
        TopRows { order, after, want, bytes_max, rows: Vec::new(), bytes: 0, cutoff: None }
    }

    pub(super) fn offer(&mut self, row: LeafRow) {
        let Some(at) = place(&row) else { return };
        if self.after.is_some_and(|after| self.order.compare(at, after).is_le()) {
            return;
        }
        if self.cutoff.as_ref().is_some_and(|cutoff| self.order.compare(at, cutoff).is_gt()) {
            return;
        }
        self.bytes += size(&row);
        self.rows.push(row);
        let many = self.rows.len() >= self.want.saturating_mul(2).saturating_add(SLACK);
        if many || self.bytes > self.bytes_max.saturating_mul(2) {
            self.cut();
        }
    }

    /// In the order of age: does an item come too late for its rows to be among the first?
    pub(super) fn is_beyond(&self, rid: u64) -> bool {
        self.cutoff.as_ref().is_some_and(|cutoff| rid > cutoff.rid)
    }

    /// The rows in order, and whether they are all that there are.
    pub(super) fn finish(mut self) -> (Vec<LeafRow>, bool) {
        self.cut();
        (self.rows, self.cutoff.is_none())
    }

    fn cut(&mut self) {
        let order = self.order;
        self.rows.sort_unstable_by(|a, b| match (place(a), place(b)) {
            (Some(a), Some(b)) => order.compare(a, b),
            _ => Ordering::Equal,
        });
        let mut bytes = 0;
        let mut keep = 0;
        for row in self.rows.iter().take(self.want) {
            bytes += size(row);
            if keep > 0 && bytes > self.bytes_max {
                bytes -= size(row);
                break;
            }
            keep += 1;
        }
        if let Some(gone) = self.rows.get(keep).and_then(place) {
            self.cutoff = Some(gone.clone());
        }
        self.rows.truncate(keep);
        self.bytes = bytes;
    }
}

fn place(row: &LeafRow) -> Option<&SortPosition> {
    match &row.position {
        Position::Sorted(position) => Some(position),
        Position::Key { .. } | Position::Rid { .. } => None,
    }
}

fn size(row: &LeafRow) -> usize {
    let keys = place(row).map_or(0, |at| at.keys.iter().map(Vec::len).sum());
    row.row.text.len() + keys + size_of::<LeafRow>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use partita_query::{Query, Row};

    fn order(text: &str) -> Order {
        Order::of(Query::parse(text, &[], &[]).unwrap().facts())
    }

    fn row(key: u8, rid: u64, text_bytes: usize) -> LeafRow {
        let row = Row { text: "x".repeat(text_bytes), keys: vec![vec![key]], hash: 0, ordinal: 0 };
        LeafRow::sorted(row, rid)
    }

    fn places(rows: &[LeafRow]) -> Vec<(u8, u64)> {
        rows.iter().filter_map(place).map(|at| (at.keys[0][0], at.rid)).collect()
    }

    #[test]
    fn the_first_rows_are_kept_whatever_the_order_of_their_coming() {
        let up = order("SELECT * FROM c ORDER BY c.a");
        let down = order("SELECT * FROM c ORDER BY c.a DESC");
        for order in [&up, &down] {
            let mut all: Vec<(u8, u64)> = (0..1_000).map(|n| ((n * 7 % 10) as u8, n)).collect();
            let mut top = TopRows::new(order, None, 5, usize::MAX);
            all.iter().for_each(|(key, rid)| top.offer(row(*key, *rid, 1)));
            let (rows, complete) = top.finish();
            all.sort();
            if order.rids_descend() {
                all.reverse();
            }
            assert_eq!(places(&rows), all[..5]);
            assert!(!complete);
        }
    }

    #[test]
    fn rows_that_are_too_large_together_leave_no_gap() {
        let order = order("SELECT * FROM c ORDER BY c.a");
        for seed in 0..50u64 {
            let mut top = TopRows::new(&order, None, 100, 4_000);
            let mut all = Vec::new();
            for n in 0..300u64 {
                let mixed = (n * 2_654_435_761 + seed * 97) % 251;
                all.push((mixed as u8, n));
                top.offer(row(mixed as u8, n, (mixed * 13 % 700) as usize));
            }
            let (rows, complete) = top.finish();
            all.sort();
            assert!(!rows.is_empty() && !complete);
            assert_eq!(places(&rows), all[..rows.len()], "{seed}");
        }
    }

    #[test]
    fn one_row_is_kept_however_large() {
        let order = order("SELECT * FROM c ORDER BY c.a");
        let mut top = TopRows::new(&order, None, 10, 10);
        top.offer(row(2, 1, 1_000));
        top.offer(row(1, 2, 1_000));
        assert_eq!(places(&top.finish().0), [(1, 2)]);
    }
}
