//! Working memory that programs share: an arena belongs to a run, not to a program, so that a
//! function traced for many shapes keeps one arena and not one for each.

use ir::Bytes;
use parking_lot::Mutex;

/// A smaller arena stays with its program, which then takes no lock.
const SHARED_MIN: usize = 1 << 14;
/// A larger one that was made for a program's first run goes back to the system: much that a
/// program runs before it trains, such as drawing initial values, never runs again.
const FIRST_MAX: usize = 1 << 20;

/// Arenas that no run is using. There are never more than runs were under way at once: a run that
/// finds none large enough replaces one.
struct Arenas {
    /// By size.
    free: Vec<Bytes>,
}

static ARENAS: Mutex<Arenas> = Mutex::new(Arenas { free: Vec::new() });

/// Bytes of working memory that is kept for the next run.
pub fn kept_bytes() -> usize {
    ARENAS.lock().free.iter().map(|b| b.as_slice().len()).sum()
}

/// The arena of one run; it goes back when dropped.
pub(crate) struct Arena {
    memory: Bytes,
    /// Whether it is given back to the system.
    is_once: bool,
}

impl Arena {
    /// At least `bytes`, of any content; `is_first` at a program's first run.
    pub(crate) fn take(bytes: usize, is_first: bool) -> Arena {
        let is_once = is_first && bytes > FIRST_MAX;
        let found = if bytes < SHARED_MIN { Err(None) } else { ARENAS.lock().take(bytes, is_once) };
        match found {
            Ok(memory) => Arena { memory, is_once: false },
            Err(smaller) => {
                // Before the new one is asked for.
                smaller.into_iter().for_each(Bytes::release);
                Arena { memory: Bytes::any(bytes), is_once }
            }
        }
    }
    /// Whether it is to stay with its program.
    pub(crate) fn is_small(&self) -> bool {
        self.memory.as_slice().len() < SHARED_MIN
    }
    pub(crate) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.memory.as_mut().as_mut_ptr()
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let memory = std::mem::replace(&mut self.memory, Bytes::any(0));
        if self.is_once {
            memory.release();
        } else if memory.as_slice().len() >= SHARED_MIN {
            ARENAS.lock().give(memory);
        }
    }
}

impl Arenas {
    /// The smallest that fits. If none does, the largest, for the caller to release in exchange for
    /// a new one; all stay where the new one is for one run alone.
    fn take(&mut self, bytes: usize, is_once: bool) -> Result<Bytes, Option<Bytes>> {
        let at = self.free.partition_point(|b| b.as_slice().len() < bytes);
        match at < self.free.len() {
            true => Ok(self.free.remove(at)),
            false if is_once => Err(None),
            false => Err(self.free.pop()),
        }
    }
    fn give(&mut self, memory: Bytes) {
        let at = self.free.partition_point(|b| b.as_slice().len() < memory.as_slice().len());
        self.free.insert(at, memory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(a: &Arenas) -> Vec<usize> {
        a.free.iter().map(|b| b.as_slice().len()).collect()
    }

    #[test]
    fn one_arena_serves_programs_of_all_sizes() {
        let mut a = Arenas { free: Vec::new() };
        let mut run = |bytes: usize| {
            let memory = a.take(bytes, false).unwrap_or_else(|_| Bytes::any(bytes));
            assert!(memory.as_slice().len() >= bytes);
            a.give(memory);
            sizes(&a)
        };
        assert_eq!(run(100), [100]);
        for bytes in 101..200 {
            assert_eq!(run(bytes), [bytes], "the smaller one was replaced");
        }
        assert_eq!(run(50), [199]);
    }

    #[test]
    fn runs_at_the_same_time_have_their_own() {
        let mut a = Arenas { free: Vec::new() };
        let (outer, inner) = (Bytes::any(1000), Bytes::any(10));
        a.give(outer);
        a.give(inner);
        let outer = a.take(900, false).ok().unwrap();
        assert_eq!((outer.as_slice().len(), sizes(&a)), (1000, vec![10]));
        assert!(a.take(20, true).is_err_and(|gone| gone.is_none()), "what is for one run alone replaces nothing");
        assert!(a.take(20, false).is_err_and(|gone| gone.is_some()));
        a.give(outer);
        assert_eq!(sizes(&a), [1000]);
    }
}
