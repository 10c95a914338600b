//! File names that were read from a graph instead of coming from the compiler.

use parking_lot::Mutex;
use std::collections::BTreeSet;

/// Bytes kept at most, each name counted with what it costs to remember: names live as long as
/// the program.
const BYTES_MAX: usize = 16 << 20;
const BYTES_PER_NAME: usize = 64;

static NAMES: Mutex<(BTreeSet<&'static str>, usize)> = Mutex::new((BTreeSet::new(), 0));

/// A name that lives as long as the program; `None` when there are too many of them already.
pub(crate) fn intern(name: &str) -> Option<&'static str> {
    let (names, bytes) = &mut *NAMES.lock();
    if let Some(known) = names.get(name) {
        return Some(known);
    }
    let more = name.len() + BYTES_PER_NAME;
    if *bytes + more > BYTES_MAX {
        return None;
    }
    *bytes += more;
    let name: &'static str = Box::leak(name.into());
    names.insert(name);
    Some(name)
}
