//! What a condition says about all components of the partition key together.
//!
//! A [`Region`] holds, for each component, the places it may have. Conditions joined by AND narrow
//! every component; conditions joined by OR are several regions. The answer may always be too
//! large, never too small: where exact regions would be too many, some of what is known is dropped.

use super::key_set::{Interval, KeySet};

/// More regions than this are not made by combining conditions.
const REGIONS_MAX: usize = 16_384;

/// Per component of the key, where it may be; `None` is anywhere.
pub(crate) type Region = Vec<Option<KeySet>>;

/// Where the partition keys of matching items may be.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Regions {
    /// Anywhere.
    All,
    /// In any of these; nowhere if there is none.
    These(Vec<Region>),
}

impl Regions {
    pub(crate) fn nothing() -> Regions {
        Regions::These(Vec::new())
    }

    /// One component of `width` is among the places.
    pub(crate) fn component(index: usize, width: usize, places: KeySet) -> Regions {
        if places.is_empty() {
            return Regions::nothing();
        }
        let mut region: Region = vec![None; width];
        if let Some(slot) = region.get_mut(index) {
            *slot = Some(places);
        }
        Regions::These(vec![region])
    }

    /// What all of them say.
    pub(crate) fn intersection(all: impl IntoIterator<Item = Regions>) -> Regions {
        all.into_iter().fold(Regions::All, Regions::and)
    }

    fn and(self, other: Regions) -> Regions {
        let (ours, theirs) = match (self, other) {
            (Regions::All, other) => return other,
            (this, Regions::All) => return this,
            (Regions::These(ours), Regions::These(theirs)) => (ours, theirs),
        };
        if ours.len().saturating_mul(theirs.len()) > REGIONS_MAX {
            return Regions::These(if ours.len() <= theirs.len() { ours } else { theirs });
        }
        let pairs = ours.iter().flat_map(|a| theirs.iter().map(move |b| narrowed(a, b)));
        Regions::These(pairs.flatten().collect())
    }

    /// What at least one of them says.
    pub(crate) fn union(all: impl IntoIterator<Item = Regions>) -> Regions {
        let mut regions: Vec<Region> = Vec::new();
        for one in all {
            match one {
                Regions::All => return Regions::All,
                Regions::These(more) => regions.extend(more),
            }
        }
        // Keys are ordered and hashed from the left. Where one says something of the first
        // component and another does not, all they say together leads nowhere in particular; the
        // service forgets it, too.
        let begins = |region: &Region| region.first().is_some_and(Option::is_some);
        if regions.iter().any(begins) && !regions.iter().all(begins) {
            return Regions::All;
        }
        match regions.first() {
            Some(first) if first.len() == 1 => Regions::These(merged(regions)),
            _ => Regions::These(regions),
        }
    }
}

/// The region in both, unless some component can be nowhere.
fn narrowed(a: &Region, b: &Region) -> Option<Region> {
    let both = |(a, b): (&Option<KeySet>, &Option<KeySet>)| match (a, b) {
        (Some(a), Some(b)) => Some(Some(a.intersect(b))).filter(|both| !is_nowhere(both)),
        (Some(one), None) | (None, Some(one)) => Some(Some(one.clone())),
        (None, None) => Some(None),
    };
    a.iter().zip(b).map(both).collect()
}

fn is_nowhere(places: &Option<KeySet>) -> bool {
    places.as_ref().is_some_and(KeySet::is_empty)
}

/// Regions of a single component are one region.
fn merged(regions: Vec<Region>) -> Vec<Region> {
    let mut intervals: Vec<Interval> = Vec::new();
    for component in regions.into_iter().flatten() {
        intervals.extend(component.map(KeySet::into_intervals).unwrap_or_default());
    }
    vec![vec![Some(KeySet::union(intervals))]]
}

/// Every way followed by every choice.
pub(crate) fn extended<T: Clone>(ways: &[Vec<T>], choices: &[T]) -> Vec<Vec<T>> {
    let longer = |way: &[T], choice: &T| way.iter().chain([choice]).cloned().collect();
    ways.iter().flat_map(|way| choices.iter().map(move |choice| longer(way, choice))).collect()
}
