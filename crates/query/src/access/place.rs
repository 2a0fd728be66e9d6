//! Where in an item an expression looks.
//!
//! The item itself is a place, and so is any element of `/tags` that the slot of `t IN c.tags`
//! holds; a path behind a place is a place again. Anything else, such as the row of a subquery, is
//! nowhere in particular.

use partita_model::{IndexStep, UNINDEXED_NAMES};

use crate::ir::{Expr, Query, Source, Step};

/// What each slot of a query stands for, as far as it is a place in the item.
#[derive(Clone, Debug, Default)]
pub(super) struct Slots(Vec<Option<Vec<IndexStep>>>);

impl Slots {
    /// The slots of a query, in addition to those of the queries around it.
    pub(super) fn with(&self, query: &Query) -> Slots {
        let mut slots = self.clone();
        slots.0.resize(query.first_slot, None);
        for source in &query.sources {
            let place = match source {
                Source::Value(expr) => slots.place(expr),
                Source::Elements(expr) => slots.place(expr).map(|mut steps| {
                    steps.push(IndexStep::Element);
                    steps
                }),
                Source::Subquery(_) | Source::SubqueryElements(_) => None,
            };
            slots.0.push(place);
        }
        slots
    }

    /// The place that an expression names, if it names one that can have index terms.
    pub(super) fn place(&self, expr: &Expr) -> Option<Vec<IndexStep>> {
        match expr {
            Expr::Item => Some(Vec::new()),
            Expr::Slot(slot) => self.0.get(*slot)?.clone(),
            Expr::Computed { name, .. } => Some(vec![IndexStep::Member(name.clone())]),
            Expr::Path { base, steps } => {
                let mut place = self.place(base)?;
                for step in steps {
                    place.push(match step {
                        Step::Member(name) => IndexStep::Member(name.to_string()),
                        Step::Element(_) => IndexStep::Element,
                        Step::Nowhere => return None,
                    });
                }
                let system = matches!(place.first(),
                    Some(IndexStep::Member(name)) if UNINDEXED_NAMES.contains(&name.as_str()));
                (!system).then_some(place)
            }
            _ => None,
        }
    }
}

/// Does the place lead from member to member, so that it has at most one value in an item?
pub(super) fn is_single(place: &[IndexStep]) -> bool {
    place.iter().all(|step| matches!(step, IndexStep::Member(_)))
}
