//! Which property of the item an expression reads.
//!
//! The first name of a FROM clause is the item. Others may stand for a property of it:
//! `FROM c.address a` makes `a.city` the path `/address/city`. Elements of arrays and rows of
//! subqueries are no such thing.

use std::collections::HashMap;

use crate::sql::ast::{Collection, Expr, From, PathStep, Source, SourceKind};
use crate::sql::lower::{self, Parameters};
use crate::sql::naming::step_name;

/// What names stand for: a path from the item's root.
#[derive(Default)]
pub(super) struct ItemNames(HashMap<String, Vec<String>>);

impl ItemNames {
    /// The names of the outermost FROM clause.
    pub(super) fn of(from: &From) -> ItemNames {
        let mut names = ItemNames::default();
        if let SourceKind::Whole { collection: Collection::Path { root, .. }, .. } =
            &from.first.kind
        {
            names.0.insert(root.clone(), Vec::new());
            let path = names.path_of(&from.first);
            names.0.clear();
            names.0.extend(from.first.name().map(str::to_owned).zip(path));
        }
        from.joins.iter().for_each(|join| names.add(join));
        names
    }

    /// The names of members to follow from the item's root, if the expression does just that.
    pub(super) fn path(&self, expr: &Expr, parameters: &Parameters) -> Option<Vec<String>> {
        let Expr::Path { base, steps, .. } = expr else { return None };
        let Expr::Name { name, .. } = &**base else { return None };
        let mut path = self.0.get(name)?.clone();
        for step in steps {
            path.push(match step {
                PathStep::Member(name) => name.clone(),
                PathStep::Index { index, .. } => {
                    lower::constant(index, parameters)?.as_str()?.to_owned()
                }
            });
        }
        Some(path)
    }

    fn add(&mut self, source: &Source) {
        let Some(name) = source.name() else { return };
        match self.path_of(source) {
            Some(path) => self.0.insert(name.to_owned(), path),
            None => self.0.remove(name),
        };
    }

    fn path_of(&self, source: &Source) -> Option<Vec<String>> {
        let SourceKind::Whole { collection: Collection::Path { root, steps, .. }, .. } =
            &source.kind
        else {
            return None;
        };
        let mut path = self.0.get(root)?.clone();
        for step in steps {
            path.push(step_name(step)?.to_owned());
        }
        Some(path)
    }
}
