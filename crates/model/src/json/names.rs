//! Finds duplicate names in objects while they are read.
//!
//! The names of all open objects lie on one stack; an object that closes looks through its own and
//! takes them off. Few names are compared pair by pair. Many are sorted first, so that an object of
//! a hundred thousand members costs no more than its sorting.

use std::borrow::Cow;

/// Up to here, comparing all pairs is quicker than sorting.
const PAIRS_MAX: usize = 12;

/// The names of the objects that are open, outermost first, each with its position in the text.
#[derive(Default)]
pub(super) struct Names<'a>(Vec<(Cow<'a, str>, usize)>);

/// Where on the stack an object's names begin.
pub(super) struct Opened(usize);

impl<'a> Names<'a> {
    pub(super) fn open(&self) -> Opened {
        Opened(self.0.len())
    }

    pub(super) fn add(&mut self, name: Cow<'a, str>, position: usize) {
        self.0.push((name, position));
    }

    /// The name that occurs twice and where it does so first, if there is one.
    pub(super) fn close(&mut self, opened: Opened) -> Option<(Cow<'a, str>, usize)> {
        let names = self.0.get_mut(opened.0..)?;
        let found = if names.len() <= PAIRS_MAX { by_pairs(names) } else { by_sorting(names) };
        self.0.truncate(opened.0);
        found
    }
}

fn by_pairs<'a>(names: &[(Cow<'a, str>, usize)]) -> Option<(Cow<'a, str>, usize)> {
    let is_repeated = |&(at, (name, _)): &(usize, &(Cow<'a, str>, usize))| {
        names.iter().take(at).any(|(earlier, _)| earlier == name)
    };
    names.iter().enumerate().find(is_repeated).map(|(_, found)| found.clone())
}

fn by_sorting<'a>(names: &mut [(Cow<'a, str>, usize)]) -> Option<(Cow<'a, str>, usize)> {
    names.sort_unstable();
    let pairs = names.iter().zip(names.iter().skip(1));
    let repeated = pairs.filter(|(earlier, later)| earlier.0 == later.0).map(|(_, later)| later);
    repeated.min_by_key(|(_, position)| *position).cloned()
}
