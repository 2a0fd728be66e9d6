//! The constants of an `IN`, made ready for many questions.
//!
//! Clients send lists of thousands of values. Each type has its own way to be found fast: strings
//! and the hashes of arrays and objects are hashed, numbers are sorted.

use std::collections::{HashMap, HashSet};

use partita_model::{Number, Value};

use crate::cell::Cell;
use crate::compare;
use crate::hash;

/// A set of values, with equality as the language has it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ConstantSet {
    values: Vec<Value>,
    has_null: bool,
    has_true: bool,
    has_false: bool,
    strings: HashSet<String>,
    /// In the order of doubles, without NaN: it equals nothing.
    numbers: Vec<Number>,
    trees: HashMap<u128, Vec<Value>>,
}

impl ConstantSet {
    pub(crate) fn new(values: Vec<Value>) -> ConstantSet {
        let mut set = ConstantSet {
            values: Vec::new(),
            has_null: false,
            has_true: false,
            has_false: false,
            strings: HashSet::new(),
            numbers: Vec::new(),
            trees: HashMap::new(),
        };
        for value in &values {
            match value {
                Value::Null => set.has_null = true,
                Value::Bool(true) => set.has_true = true,
                Value::Bool(false) => set.has_false = true,
                Value::String(text) => {
                    set.strings.insert(text.clone());
                }
                Value::Number(number) if number.as_f64().is_nan() => {}
                Value::Number(number) => set.numbers.push(*number),
                Value::Array(_) | Value::Object(_) => {
                    set.trees.entry(hash::of_value(value)).or_default().push(value.clone());
                }
            }
        }
        set.numbers.sort_by(|a, b| a.as_f64().total_cmp(&b.as_f64()));
        set.values = values;
        set
    }

    /// The values as they were written.
    pub(crate) fn values(&self) -> &[Value] {
        &self.values
    }

    pub(crate) fn contains(&self, cell: &Cell<'_>) -> bool {
        match cell {
            Cell::Null => self.has_null,
            Cell::Bool(true) => self.has_true,
            Cell::Bool(false) => self.has_false,
            Cell::String(text) => self.strings.contains(&**text),
            Cell::Number(number) => self.has_number(*number),
            Cell::Text(_) | Cell::Tree(_) => {
                let same = self.trees.get(&hash::of_cell(cell));
                same.is_some_and(|values| {
                    values.iter().any(|value| compare::equal(&Cell::from_ref(value), cell))
                })
            }
        }
    }

    fn has_number(&self, wanted: Number) -> bool {
        let double = wanted.as_f64();
        let start = self.numbers.partition_point(|number| number.as_f64() < double);
        let candidates = self.numbers.iter().skip(start);
        candidates
            .take_while(|number| number.as_f64() == double)
            .any(|number| compare::numbers(number, &wanted).is_some_and(|order| order.is_eq()))
    }
}
