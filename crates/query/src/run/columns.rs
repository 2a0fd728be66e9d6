//! Groups from columns: the values that items have at some paths, each under a number.
//!
//! Whoever has read an index knows of each item which of its values are where, as numbers, and each
//! value once as JSON. Where the keys and the aggregates of a query are values at these paths, or
//! constants, a row is gathered from its numbers: no document is made, and a group is looked for
//! once for each combination of keys.

use std::collections::HashMap;

use partita_model::{Document, IndexStep, Result};

use super::group::Table;
use crate::cell::Cell;
use crate::facts;
use crate::ir::{Expr, Grouping, Query, Source};

/// The values of one column by their numbers; None is undefined.
type Values<'v> = Vec<Option<Cell<'v>>>;

/// Gathers rows by the numbers of their values.
pub(crate) struct Columns<'v> {
    grouping: &'v Grouping,
    values: Vec<Values<'v>>,
    /// Which column each key is.
    keys: Vec<usize>,
    operands: Vec<Operand<'v>>,
    rows: RowNumbers,
}

enum Operand<'v> {
    Column(usize),
    Constant(Cell<'v>),
}

/// Groups by the numbers of their keys.
enum RowNumbers {
    /// One key: its number is the place here.
    One(Vec<Option<usize>>),
    Many {
        known: HashMap<Vec<u32>, usize>,
        wanted: Vec<u32>,
    },
}

impl<'v> Columns<'v> {
    /// The columns of a query at these paths, with the values as JSON; None if the query does more
    /// with its rows than this can.
    pub(crate) fn new<'t: 'v>(
        query: &'v Query,
        paths: &[Vec<IndexStep>],
        text: &dyn Fn(usize, usize) -> Option<&'t str>,
        lengths: &[usize],
    ) -> Option<Columns<'v>> {
        let grouping = query.grouping.as_ref()?;
        if query.sources != [Source::Value(Expr::Item)] {
            return None;
        }
        let column = |expr: &Expr| {
            let path = facts::members(expr.item_path()?)?;
            paths.iter().position(|known| *known == path)
        };
        let keys: Vec<usize> = grouping.keys.iter().map(column).collect::<Option<_>>()?;
        let operand = |(_, expr): &'v (_, Expr)| match expr {
            Expr::Constant(value) => Some(Operand::Constant(Cell::from_ref(value))),
            expr => column(expr).map(Operand::Column),
        };
        let operands = grouping.aggregates.iter().map(operand).collect::<Option<Vec<_>>>()?;
        let cell = |text: &'t str| Cell::from_raw(Document::new(text).raw());
        let values_of = |(column, length): (usize, &usize)| -> Values<'v> {
            (0..*length).map(|number| text(column, number).map(cell)).collect()
        };
        let values: Vec<Values<'v>> = lengths.iter().enumerate().map(values_of).collect();
        let rows = match keys.as_slice() {
            [one] => RowNumbers::One(vec![None; values.get(*one)?.len()]),
            _ => RowNumbers::Many { known: HashMap::new(), wanted: Vec::new() },
        };
        Some(Columns { grouping, values, keys, operands, rows })
    }

    /// Adds a row that has these values, one number for each column.
    pub(crate) fn gather(&mut self, table: &mut Table, numbers: &[u32]) -> Result<()> {
        let at = self.place(table, numbers);
        for (aggregate, operand) in self.operands.iter().enumerate() {
            let cell = match operand {
                Operand::Constant(cell) => Some(cell),
                Operand::Column(column) => cell_of(&self.values, *column, numbers),
            };
            if let Some(cell) = cell {
                table.add(at, aggregate, cell.clone(), 1)?;
            }
        }
        table.check()
    }

    fn place(&mut self, table: &mut Table, numbers: &[u32]) -> usize {
        let (grouping, values, keys) = (self.grouping, &self.values, &self.keys);
        let make = |table: &mut Table| {
            let cells = keys.iter().map(|key| cell_of(values, *key, numbers).cloned()).collect();
            table.place_of(grouping, cells)
        };
        match &mut self.rows {
            RowNumbers::One(rows) => {
                let number = keys.first().and_then(|key| numbers.get(*key));
                match number.and_then(|number| rows.get_mut(*number as usize)) {
                    Some(place) => *place.get_or_insert_with(|| make(table)),
                    None => make(table),
                }
            }
            RowNumbers::Many { known, wanted } => {
                wanted.clear();
                wanted.extend(keys.iter().filter_map(|key| numbers.get(*key)));
                if let Some(place) = known.get(wanted) {
                    return *place;
                }
                let place = make(table);
                known.insert(wanted.clone(), place);
                place
            }
        }
    }
}

fn cell_of<'c, 'v>(
    values: &'c [Values<'v>],
    column: usize,
    numbers: &[u32],
) -> Option<&'c Cell<'v>> {
    values.get(column)?.get(*numbers.get(column)? as usize)?.as_ref()
}
