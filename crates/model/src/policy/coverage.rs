//! Is the value at this place of an item indexed? Asked for every leaf of every write.
//!
//! The paths of an indexing policy are laid into a tree of steps. A place is followed down from
//! the root and the last verdict met on the way holds: deeper paths are more precise, and at the
//! end of the place a `/?` verdict is more precise than a `/*` one.
//!
//! ```text
//! included /*, /a/b/?        (root) *: yes
//! excluded /a/*               └─ a   *: no
//!                                 └─ b   ?: yes
//! ```

use crate::document::Step;
use crate::path::{IndexEnd, IndexPath, IndexStep};

/// The paths of a policy, laid out for lookup.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Coverage {
    /// The verdict on the value here, `/?`.
    value: Option<bool>,
    /// The verdict on everything from here down, `/*`.
    subtree: Option<bool>,
    /// The members below, sorted by name.
    members: Vec<(String, Coverage)>,
    /// The elements below.
    element: Option<Box<Coverage>>,
}

impl Coverage {
    pub(super) fn new(included: &[IndexPath], excluded: &[IndexPath]) -> Coverage {
        let mut root = Coverage::default();
        included.iter().for_each(|path| root.insert(path, true));
        excluded.iter().for_each(|path| root.insert(path, false));
        root
    }

    /// The verdict on a place; what no path speaks of is not indexed.
    pub(super) fn covers(&self, place: &[Step<'_>]) -> bool {
        let mut node = self;
        let mut verdict = node.subtree;
        for step in place {
            match node.below(step) {
                Some(next) => node = next,
                None => return verdict.unwrap_or(false),
            }
            verdict = node.subtree.or(verdict);
        }
        node.value.or(verdict).unwrap_or(false)
    }

    fn below(&self, step: &Step<'_>) -> Option<&Coverage> {
        match step {
            Step::Element => self.element.as_deref(),
            Step::Member(name) => {
                let found =
                    self.members.binary_search_by(|(other, _)| other.as_str().cmp(name)).ok()?;
                self.members.get(found).map(|(_, below)| below)
            }
        }
    }

    fn insert(&mut self, path: &IndexPath, verdict: bool) {
        let mut node = self;
        for step in path.steps() {
            node = match step {
                IndexStep::Element => node.element.get_or_insert_default(),
                IndexStep::Member(name) => node.member(name),
            };
        }
        match path.end() {
            IndexEnd::Value => node.value = Some(verdict),
            IndexEnd::Subtree => node.subtree = Some(verdict),
        }
    }

    fn member(&mut self, name: &str) -> &mut Coverage {
        let at = match self.members.binary_search_by(|(other, _)| other.as_str().cmp(name)) {
            Ok(found) => found,
            Err(free) => {
                self.members.insert(free, (name.to_owned(), Coverage::default()));
                free
            }
        };
        &mut self.members[at].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(texts: &[&str]) -> Vec<IndexPath> {
        texts.iter().map(|text| IndexPath::parse(text).unwrap()).collect()
    }

    /// `a.[].b` as steps.
    fn place(text: &str) -> Vec<Step<'_>> {
        text.split('.')
            .map(|step| if step == "[]" { Step::Element } else { Step::Member(step.into()) })
            .collect()
    }

    #[track_caller]
    fn check(included: &[&str], excluded: &[&str], yes: &[&str], no: &[&str]) {
        let coverage = Coverage::new(&paths(included), &paths(excluded));
        yes.iter().for_each(|at| assert!(coverage.covers(&place(at)), "{at} is indexed"));
        no.iter().for_each(|at| assert!(!coverage.covers(&place(at)), "{at} is not indexed"));
    }

    #[test]
    fn everything_but_the_excluded_is_indexed() {
        check(&["/*"], &["/\"_etag\"/?"], &["a", "a.b.[].c", "_etag.x"], &["_etag"]);
        check(&["/*"], &["/a/*"], &["b", "aa"], &["a", "a.b", "a.[].b"]);
    }

    #[test]
    fn nothing_but_the_included_is_indexed() {
        check(&["/a/?", "/b/*"], &["/*"], &["a", "b", "b.c.[]"], &["c", "a.b", "a.[]"]);
    }

    #[test]
    fn deeper_paths_are_more_precise() {
        // The documentation's own example.
        check(
            &["/food/ingredients/nutrition/*"],
            &["/*", "/food/ingredients/*"],
            &["food.ingredients.nutrition.fat"],
            &["food.ingredients.salt", "food", "x"],
        );
        check(
            &["/*", "/a/b/*"],
            &["/a/*", "/a/b/c/*"],
            &["x", "a.b", "a.b.x"],
            &["a", "a.x", "a.b.c", "a.b.c.d"],
        );
    }

    #[test]
    fn the_value_is_more_precise_than_the_subtree_at_the_same_depth() {
        check(&["/*", "/a/b/?"], &["/a/b/*"], &["a.b", "a"], &["a.b.c", "a.b.[]"]);
        check(&["/a/b/*"], &["/*", "/a/b/?"], &["a.b.c"], &["a.b", "a"]);
    }

    #[test]
    fn elements_of_arrays_are_a_step_of_their_own() {
        check(
            &["/tags/[]/?", "/lines/[]/sku/?"],
            &["/*"],
            &["tags.[]", "lines.[].sku"],
            &["tags", "tags.[].x", "lines.sku", "lines.[].price"],
        );
    }

    #[test]
    fn without_paths_nothing_is_indexed() {
        check(&[], &[], &[], &["a"]);
    }
}
