//! From expressions to lookups.
//!
//! [`Analysis::when`] answers for which items an expression has a wanted truth value. What it does
//! not know is [`Access::Unknown`], never a guess: a lookup that misses an item would be a wrong
//! answer, one that finds too many is only slower.

use partita_model::{IndexStep, Object, Value};

use super::each;
use super::interval::ValueSet;
use super::place::{Slots, is_single};
use super::values::{self, Accepted, Ordered};
use super::{Access, Kinds, Test};
use crate::ir::{BinaryOperator, Expr, Query, Source, SubqueryKind, UnaryOperator};

/// A constant object may have this many leaves before their lookups cost more than they tell.
const LEAVES_MAX: usize = 8;

/// The items that can have a row in a query.
pub(crate) fn access(query: &Query) -> Access {
    rows_of(query, &Slots::default())
}

/// The items for which a query or subquery has a row.
fn rows_of(query: &Query, outer: &Slots) -> Access {
    let slots = outer.with(query);
    let analysis = Analysis { slots: &slots };
    let mut parts: Vec<Access> =
        query.sources.iter().map(|source| analysis.rows_of_source(source)).collect();
    if let Some(filter) = &query.filter {
        parts.push(analysis.when(filter, true));
    }
    Access::and(parts)
}

/// Looks at the expressions of one query.
pub(super) struct Analysis<'s> {
    pub(super) slots: &'s Slots,
}

impl Analysis<'_> {
    /// The items for which a source of FROM has a row. One that has several rows makes the answer
    /// one about rows, not items, so it is not exact.
    fn rows_of_source(&self, source: &Source) -> Access {
        match source {
            Source::Value(Expr::Item) => Access::All,
            Source::Value(expr) => match self.slots.place(expr) {
                Some(place) if is_single(&place) => kinds(place, Kinds::DEFINED),
                _ => Access::Unknown,
            },
            Source::Elements(expr) => {
                let arrays = match self.slots.place(expr) {
                    Some(place) if is_single(&place) && !place.is_empty() => {
                        kinds(place, Kinds { array: true, ..Kinds::NONE })
                    }
                    _ => Access::Unknown,
                };
                Access::and(vec![arrays, Access::Unknown])
            }
            Source::Subquery(query) | Source::SubqueryElements(query) => {
                match query.grouping {
                    // Aggregates have a row of nothing, too.
                    Some(_) => Access::Unknown,
                    None => Access::and(vec![rows_of(query, self.slots), Access::Unknown]),
                }
            }
        }
    }

    /// The items for which the expression may have the wanted truth value.
    pub(super) fn when(&self, expr: &Expr, wanted: bool) -> Access {
        match expr {
            Expr::Undefined => Access::Nothing,
            Expr::Constant(value) => {
                if value.as_bool() == Some(wanted) {
                    Access::All
                } else {
                    Access::Nothing
                }
            }
            Expr::Unary { operator: UnaryOperator::Not, operand } => self.when(operand, !wanted),
            Expr::Chain { first, rest } => self.chain(expr, first, rest, wanted),
            Expr::Between { operand, low, high } => {
                let parts = vec![
                    self.compared(expr, Ordered::GreaterOrEqual, operand, low, wanted),
                    self.compared(expr, Ordered::LessOrEqual, operand, high, wanted),
                ];
                if wanted { Access::and(parts) } else { Access::or(parts) }
            }
            Expr::InConstants { operand, set } => {
                self.equal_to_any(expr, operand, set.values(), wanted)
            }
            Expr::In { operand, list } => match constants(list) {
                Some(values) => self.equal_to_any(expr, operand, &values, wanted),
                None => Access::Unknown,
            },
            Expr::Like { operand, pattern, .. } => self.like(expr, operand, pattern, wanted),
            Expr::Call { function, arguments } => self.call(expr, *function, arguments, wanted),
            Expr::Subquery { kind: SubqueryKind::Exists, query } if wanted => {
                match query.grouping {
                    Some(_) => Access::Unknown,
                    None => Access::and(vec![rows_of(query, self.slots), Access::Unknown]),
                }
            }
            _ => match self.slots.place(expr) {
                // A value on its own counts if it is the boolean.
                Some(place) => self.in_values(place, values::equal_to(&Value::Bool(wanted))),
                None => self.each(expr, wanted),
            },
        }
    }

    fn chain(
        &self,
        whole: &Expr,
        first: &Expr,
        rest: &[(BinaryOperator, Expr)],
        wanted: bool,
    ) -> Access {
        use BinaryOperator as Op;
        let Some((operator, second)) = rest.first() else { return Access::Unknown };
        match operator {
            Op::And | Op::Or => {
                let operands = std::iter::once(first).chain(rest.iter().map(|(_, e)| e));
                let parts = operands.map(|operand| self.when(operand, wanted)).collect();
                // AND is false as soon as one operand is; OR is false if all are.
                if (*operator == Op::And) == wanted {
                    Access::and(parts)
                } else {
                    Access::or(parts)
                }
            }
            _ if rest.len() > 1 => Access::Unknown,
            Op::Equal => self.equal(whole, first, second, wanted),
            Op::NotEqual => self.equal(whole, first, second, !wanted),
            Op::Less => self.compared(whole, Ordered::Less, first, second, wanted),
            Op::LessOrEqual => self.compared(whole, Ordered::LessOrEqual, first, second, wanted),
            Op::Greater => self.compared(whole, Ordered::Greater, first, second, wanted),
            Op::GreaterOrEqual => {
                self.compared(whole, Ordered::GreaterOrEqual, first, second, wanted)
            }
            _ => Access::Unknown,
        }
    }

    /// `a = b`, or `a != b` where it is wanted to be false.
    fn equal(&self, whole: &Expr, left: &Expr, right: &Expr, equal: bool) -> Access {
        let (operand, constant) = match (constant(left), constant(right)) {
            (None, Some(constant)) => (left, constant),
            (Some(constant), None) => (right, constant),
            (None, None) if [left, right].contains(&&Expr::Undefined) => return Access::Nothing,
            _ => return self.each(whole, equal != is_inequality(whole)),
        };
        self.equal_to_any(whole, operand, std::slice::from_ref(&constant), equal)
    }

    /// The operand equals one of the constants, or, if that is not wanted, none of them.
    fn equal_to_any(
        &self,
        whole: &Expr,
        operand: &Expr,
        constants: &[Value],
        wanted: bool,
    ) -> Access {
        let Some(place) = self.slots.place(operand) else {
            if let (Expr::Call { function, arguments }, [constant], true) =
                (operand, constants, wanted)
                && let Some(found) = self.inverted(*function, arguments, constant)
            {
                return found;
            }
            return self.each(whole, wanted != is_inequality(whole));
        };
        let mut accepted = Accepted::nothing();
        let mut trees = Vec::new();
        let mut intervals = Vec::new();
        for constant in constants {
            match values::equal_to(constant) {
                Some(found) => {
                    accepted.exact &= found.exact;
                    intervals.extend(found.values.into_list());
                }
                None => trees.push(constant),
            }
        }
        // All at once: lists have thousands of constants.
        accepted.values = ValueSet::from_list(intervals);
        if wanted {
            let mut parts: Vec<Access> =
                trees.into_iter().map(|tree| self.equal_to_tree(&place, tree)).collect();
            parts.push(self.in_values(place, Some(accepted)));
            return Access::or(parts);
        }
        let is_exact = accepted.exact && trees.is_empty();
        self.defined_but(place, accepted.values, is_exact)
    }

    /// The place has a value, and not one of these.
    fn defined_but(&self, place: Vec<IndexStep>, values: ValueSet, exact: bool) -> Access {
        if !is_single(&place) {
            return Access::Unknown;
        }
        let others = if exact {
            values.complement_in(&values::all_scalars())
        } else {
            values::all_scalars()
        };
        let trees = Kinds { array: true, object: true, ..Kinds::NONE };
        Access::or(vec![
            self.in_values(place.clone(), Some(Accepted { values: others, exact })),
            Access::condition(place, Test::Kinds(trees), exact),
        ])
    }

    /// A comparison by order with a constant on either side.
    fn compared(
        &self,
        whole: &Expr,
        comparison: Ordered,
        left: &Expr,
        right: &Expr,
        wanted: bool,
    ) -> Access {
        let (operand, comparison, constant) = match (constant(left), constant(right)) {
            (None, Some(constant)) => (left, comparison, constant),
            (Some(constant), None) => (right, comparison.mirrored(), constant),
            (None, None) if [left, right].contains(&&Expr::Undefined) => return Access::Nothing,
            _ => return self.each(whole, wanted),
        };
        let Some(place) = self.slots.place(operand) else {
            return self.each(whole, wanted);
        };
        let comparison = if wanted { comparison } else { comparison.negated() };
        match values::ordered(comparison, &constant) {
            Some(accepted) => self.in_values(place, Some(accepted)),
            // Arrays and objects have no order: the comparison is undefined.
            None => Access::Nothing,
        }
    }

    /// Items that have one of the values at the place.
    pub(super) fn in_values(&self, place: Vec<IndexStep>, accepted: Option<Accepted>) -> Access {
        let Some(Accepted { values, exact }) = accepted else { return Access::Unknown };
        if values.is_empty() {
            return Access::Nothing;
        }
        if place.is_empty() {
            // The item itself is an object and has no term.
            return Access::Unknown;
        }
        let exact = exact && is_single(&place);
        Access::condition(place, Test::Values(values.into_list()), exact)
    }

    /// The items that have all leaves of a constant array or object below a place.
    pub(super) fn equal_to_tree(&self, place: &[IndexStep], tree: &Value) -> Access {
        let mut leaves = Vec::new();
        collect_leaves(place, tree, &mut leaves);
        leaves.truncate(LEAVES_MAX);
        let mut parts = vec![Access::Unknown];
        parts.extend(leaves.into_iter().map(|(place, scalar)| {
            let accepted = values::equal_to(scalar);
            self.in_values(place, accepted.map(|found| Accepted { exact: false, ..found }))
        }));
        Access::and(parts)
    }

    /// The last resort: ask the expression for every value that the index has at its only place.
    pub(super) fn each(&self, expr: &Expr, wanted: bool) -> Access {
        each::test(self.slots, expr, wanted)
    }
}

/// Is the expression one that is true where its operands differ?
fn is_inequality(expr: &Expr) -> bool {
    matches!(expr, Expr::Chain { rest, .. }
        if matches!(rest.first(), Some((BinaryOperator::NotEqual, _))))
}

pub(super) fn kinds(place: Vec<IndexStep>, kinds: Kinds) -> Access {
    if place.is_empty() {
        // The item itself is always there, and always an object.
        return if kinds.object { Access::All } else { Access::Nothing };
    }
    Access::condition(place, Test::Kinds(kinds), true)
}

/// The value of an expression that is one.
pub(super) fn constant(expr: &Expr) -> Option<Value> {
    match expr {
        Expr::Constant(value) => Some(value.clone()),
        Expr::Array(elements) => constants(elements).map(Value::Array),
        Expr::Object(members) => {
            let mut object = Object::new();
            for (name, member) in members {
                object.insert(name.clone(), constant(member)?);
            }
            Some(Value::Object(object))
        }
        _ => None,
    }
}

fn constants(list: &[Expr]) -> Option<Vec<Value>> {
    list.iter().map(constant).collect()
}

fn collect_leaves<'v>(
    place: &[IndexStep],
    value: &'v Value,
    leaves: &mut Vec<(Vec<IndexStep>, &'v Value)>,
) {
    if leaves.len() >= LEAVES_MAX {
        return;
    }
    match value {
        Value::Array(elements) => {
            let mut below = place.to_vec();
            below.push(IndexStep::Element);
            elements.iter().for_each(|element| collect_leaves(&below, element, leaves));
        }
        Value::Object(members) => {
            for (name, member) in members.iter() {
                let mut below = place.to_vec();
                below.push(IndexStep::Member(name.to_owned()));
                collect_leaves(&below, member, leaves);
            }
        }
        scalar => leaves.push((place.to_vec(), scalar)),
    }
}
