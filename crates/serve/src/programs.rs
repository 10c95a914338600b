//! Programs of a model on an engine, by group: requests whose sizes are equal but for the rows. A model may be asked for any
//! number of lengths. So programs are bounded, those that were not used for the longest go first, and groups that neither
//! wait nor have programs are used again.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};

/// Programs that an engine keeps for a model.
pub(crate) const PROGRAMS_MAX: usize = 256;

struct Group<P> {
    /// Sizes of the free dimensions after the first, or all of them where requests are not joined.
    tail: Vec<usize>,
    /// Rows of the programs, in order.
    sizes: Vec<usize>,
    programs: BTreeMap<usize, P>,
    /// Held by every request of the group that waits.
    waiting: Weak<()>,
    used: u64,
}

impl<P> Group<P> {
    fn new(tail: &[usize]) -> Group<P> {
        Group { tail: tail.to_vec(), sizes: Vec::new(), programs: BTreeMap::new(), waiting: Weak::new(), used: 0 }
    }
    fn is_waiting(&self) -> bool {
        self.waiting.strong_count() > 0
    }
}

/// The programs of a model.
pub(crate) struct Programs<P> {
    groups: Vec<Group<P>>,
    by_tail: HashMap<Vec<usize>, usize>,
    count: usize,
    clock: u64,
}

impl<P> Default for Programs<P> {
    fn default() -> Programs<P> {
        Programs { groups: Vec::new(), by_tail: HashMap::new(), count: 0, clock: 0 }
    }
}

impl<P> Programs<P> {
    /// The group of a request, and what it holds while it waits.
    pub fn enter(&mut self, tail: &[usize]) -> (u64, Arc<()>) {
        let i = self.group(tail);
        self.clock += 1;
        let group = &mut self.groups[i];
        group.used = self.clock;
        let token = group.waiting.upgrade().unwrap_or_default();
        group.waiting = Arc::downgrade(&token);
        (i as u64, token)
    }
    /// Rows of the programs of a group, in order.
    pub fn sizes(&self, group: u64) -> &[usize] {
        &self.groups[group as usize].sizes
    }
    /// The program of a group for so many rows.
    pub fn get(&self, group: u64, rows: usize) -> Option<&P> {
        self.groups[group as usize].programs.get(&rows)
    }
    /// The sizes of a group besides the rows.
    pub fn tail(&self, group: u64) -> &[usize] {
        &self.groups[group as usize].tail
    }
    /// The largest program for these sizes besides the rows.
    pub fn largest(&self, tail: &[usize]) -> Option<usize> {
        self.groups[*self.by_tail.get(tail)?].sizes.last().copied()
    }
    /// Lives as long as a request waits for the first program of a group; `None` if the group has one.
    pub fn first_wanted(&self, group: u64) -> Option<Weak<()>> {
        let group = &self.groups[group as usize];
        group.programs.is_empty().then(|| group.waiting.clone())
    }

    /// Adds a program. Programs of groups that were not used for the longest make room.
    pub fn add(&mut self, tail: &[usize], rows: usize, program: P) {
        let own = self.group(tail);
        while self.count >= PROGRAMS_MAX {
            let others = self.groups.iter().enumerate().filter(|(i, _)| *i != own);
            let idle = others.filter(|(_, g)| !g.programs.is_empty() && !g.is_waiting());
            let Some((oldest, _)) = idle.min_by_key(|(_, g)| g.used) else { break };
            let group = &mut self.groups[oldest];
            self.count -= group.programs.len();
            (group.sizes, group.programs) = Default::default();
        }
        let group = &mut self.groups[own];
        if group.programs.insert(rows, program).is_none() {
            self.count += 1;
            group.sizes = group.programs.keys().copied().collect();
        }
    }

    fn group(&mut self, tail: &[usize]) -> usize {
        if let Some(i) = self.by_tail.get(tail) {
            return *i;
        }
        let is_over = self.groups.len() >= PROGRAMS_MAX;
        let is_unused = |g: &Group<P>| g.programs.is_empty() && !g.is_waiting();
        let free = if is_over { self.groups.iter().position(is_unused) } else { None };
        let i = match free {
            Some(i) => {
                self.by_tail.remove(&self.groups[i].tail);
                self.groups[i] = Group::new(tail);
                i
            }
            None => {
                self.groups.push(Group::new(tail));
                self.groups.len() - 1
            }
        };
        self.by_tail.insert(tail.to_vec(), i);
        i
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_lengths_that_nobody_asks_for_make_room() {
        let mut p = Programs::default();
        for length in 0..PROGRAMS_MAX {
            drop(p.enter(&[length]));
            p.add(&[length], 1, length);
        }
        let (_, waits) = p.enter(&[0]);
        drop(p.enter(&[1]));
        p.add(&[900], 1, 900);
        let has = |p: &Programs<usize>, length: usize| p.largest(&[length]).is_some();
        assert!(has(&p, 0) && has(&p, 1) && has(&p, 900) && !has(&p, 2), "the oldest that does not wait went");
        // Ten thousand lengths are no more groups than there are programs.
        for length in 1000..11_000 {
            drop(p.enter(&[length]));
            p.add(&[length], 1, length);
        }
        assert_eq!((p.count, p.by_tail.len(), p.groups.len()), (PROGRAMS_MAX, p.groups.len(), PROGRAMS_MAX + 1));
        assert!(has(&p, 0), "a request waits for it");
        drop(waits);
        for length in 20_000..30_000 {
            drop(p.enter(&[length]));
        }
        assert!(p.groups.len() <= PROGRAMS_MAX + 1, "lengths that never get a program leave nothing");
    }

    #[test]
    fn a_first_program_is_wanted_while_a_request_waits() {
        let mut p = Programs::default();
        let (group, token) = p.enter(&[7]);
        let wanted = p.first_wanted(group).unwrap();
        let (again, other) = p.enter(&[7]);
        drop(token);
        assert!(again == group && wanted.strong_count() > 0, "another one waits");
        drop(other);
        assert_eq!(wanted.strong_count(), 0);
        p.add(&[7], 2, ());
        assert!(p.first_wanted(group).is_none() && p.get(group, 2).is_some() && p.sizes(group) == [2]);
        assert_eq!((p.tail(group), p.largest(&[7]), p.largest(&[8])), (&[7][..], Some(2), None));
    }
}
