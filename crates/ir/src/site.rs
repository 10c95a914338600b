//! File names that were read from a graph instead of coming from the compiler.

use parking_lot::Mutex;
use std::collections::BTreeSet;

/// Different file names kept at most, and the longest of them: they live as long as the program.
const NAMES_MAX: usize = 4096;
const NAME_BYTES_MAX: usize = 4096;

static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());

/// A name that lives as long as the program; `None` when there are too many of them already.
pub(crate) fn intern(name: &str) -> Option<&'static str> {
    let mut names = NAMES.lock();
    if let Some(known) = names.get(name) {
        return Some(known);
    }
    if names.len() >= NAMES_MAX || name.len() > NAME_BYTES_MAX {
        return None;
    }
    let name: &'static str = Box::leak(name.into());
    names.insert(name);
    Some(name)
}
