//! What may be asked of a container's index.
//!
//! After a change of the indexing policy there are items whose entries were made under policies
//! before it, until all are indexed anew. A path can be searched only if every policy in use covers
//! it: a new index serves nobody before it is complete, and one that was dropped serves nobody from
//! that moment on.

use partita_model::{CompositeIndex, IndexStep, IndexingMode, IndexingPolicy, Step};

use super::{composite_id, indexes};

/// The part of a container's index that covers all its items.
#[derive(Clone, Debug)]
pub struct ServedPolicy<'a> {
    current: &'a IndexingPolicy,
    former: Vec<&'a IndexingPolicy>,
}

impl<'a> ServedPolicy<'a> {
    pub(crate) fn new(
        current: &'a IndexingPolicy,
        former: impl Iterator<Item = &'a IndexingPolicy>,
    ) -> ServedPolicy<'a> {
        ServedPolicy { current, former: former.collect() }
    }

    fn policies(&self) -> impl Iterator<Item = &'a IndexingPolicy> {
        std::iter::once(self.current).chain(self.former.iter().copied())
    }

    /// Does the index know all values at this path, and whether there is one?
    pub fn indexes(&self, path: &[IndexStep]) -> bool {
        let place: Vec<Step<'_>> = path
            .iter()
            .map(|step| match step {
                IndexStep::Member(name) => Step::Member(name.as_str().into()),
                IndexStep::Element => Step::Element,
            })
            .collect();
        self.policies().all(|policy| indexes(policy, &place))
    }

    /// The composite indexes that hold all items.
    pub fn composites(&self) -> impl Iterator<Item = &'a CompositeIndex> {
        let has = |policy: &IndexingPolicy, id| {
            policy.mode() != IndexingMode::None
                && policy.composite().iter().any(|index| composite_id(index) == id)
        };
        self.current.composite().iter().filter(move |index| {
            let id = composite_id(index);
            self.policies().all(|policy| has(policy, id))
        })
    }
}
