//! SELECT: what is made of a row, and how its members are called.

use super::Lowering;
use crate::ir::{Expr, Projection};
use crate::sql::ast::{SelectItem, Selection};
use crate::sql::error::{SqlError, SqlResult};
use crate::sql::naming::select_names;

/// `check` tells it in other words if there are several sources.
const NO_STAR: &str = "Invalid query. 'SELECT *' is not valid if FROM clause is omitted.";

impl Lowering<'_> {
    pub(super) fn projection(
        &mut self,
        selection: &Selection,
        star: Option<Expr>,
    ) -> SqlResult<Projection> {
        match selection {
            Selection::Everything(_) => {
                star.map(Projection::Value).ok_or_else(|| SqlError::Plain(NO_STAR.to_owned()))
            }
            Selection::Value(expr) => Ok(Projection::Value(self.expr(expr)?)),
            Selection::List(items) => self.members(items).map(Projection::Members),
        }
    }

    fn members(&mut self, items: &[SelectItem]) -> SqlResult<Vec<(String, Expr)>> {
        let named = select_names(items).into_iter().zip(items);
        let members = named.map(|(name, item)| Ok((name, self.expr(&item.expr)?)));
        members.collect::<SqlResult<_>>().map(distinct)
    }
}

/// Of several members with one name the last one counts.
pub(super) fn distinct(members: Vec<(String, Expr)>) -> Vec<(String, Expr)> {
    let mut last_of = std::collections::HashMap::new();
    for (at, (name, _)) in members.iter().enumerate() {
        last_of.insert(name.clone(), at);
    }
    let numbered = members.into_iter().enumerate();
    let kept = numbered.filter(|(at, (name, _))| last_of.get(name) == Some(at));
    kept.map(|(_, member)| member).collect()
}
