//! How many bytes a rank of a pipeline has at once.

use super::{Item, Pipeline};
use ir::Slot;
use passes::stage::{Pass, Source};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// A value of a microbatch, and the stage that computes it.
type Key = (usize, Slot, usize);

/// The values of microbatches that a rank has, with how often they are still used.
#[derive(Default)]
struct Held {
    uses: FxHashMap<Key, usize>,
    now: usize,
}

impl Pipeline {
    /// The most bytes that this rank has at once: its inputs, what is computed once before, sums and values of
    /// microbatches in the order of the schedule, those that are being sent, and the memory of the part that runs.
    /// `after` is what the parts after all microbatches answer, and the largest of their arenas.
    pub fn planned_bytes(&self, before: usize, arena: &dyn Fn((usize, Pass)) -> usize, after: (usize, usize)) -> usize {
        let graph = &self.staged.graph;
        let of = |s: Slot| graph.ty(s).bytes();
        let input = |k: usize| of(Slot::new(graph.inputs[k] as usize, 0));
        let is_here = |k: &usize| self.needs(*k) || self.staged.owners[*k] == Some(self.rank);
        let given: usize = (0..graph.inputs.len()).filter(is_here).map(input).sum();
        let sums: usize = self.gathered.values().flatten().map(|g| of(g.into)).sum();
        let (mut held, mut peak) = (Held::default(), 0);
        let mut sent: VecDeque<Key> = VecDeque::new();
        for item in &self.list {
            let (micro, mut used, mut made, mut more) = (item.micro(), Vec::new(), Vec::new(), 0);
            match *item {
                Item::Send { passed, .. } => {
                    let p = &self.staged.passed[passed];
                    used.push((micro, p.value, p.stage));
                    if self.is_meanwhile {
                        // Another use, until the value is known to be sent.
                        held.use_once_more((micro, p.value, p.stage));
                        while sent.front().is_some_and(|(earlier, ..)| earlier + 1 < micro) {
                            used.extend(sent.pop_front());
                        }
                        sent.push_back((micro, p.value, p.stage));
                    }
                }
                Item::Receive { passed, .. } => {
                    made.push((self.staged.passed[passed].value, self.staged.passed[passed].stage));
                }
                Item::Run { stage, pass, .. } => {
                    let Some(part) = self.own().during.get(&(stage, pass)) else { continue };
                    for (source, &i) in part.inputs.iter().zip(&part.graph.inputs) {
                        match *source {
                            Source::Held(s, from) => used.push((micro, s, from)),
                            Source::Take(..) => more += part.graph.nodes[i as usize].outs[0].bytes(),
                            Source::Once(_) | Source::First(_) => {}
                        }
                    }
                    // Terms of sums are added where the sums are.
                    made.extend(part.outputs.iter().filter(|s| self.is_kept(**s, (stage, pass))).map(|&s| (s, stage)));
                    more += arena((stage, pass));
                }
            }
            let new: usize = made.iter().map(|(s, _)| of(*s)).sum();
            peak = peak.max(held.now + new + more);
            for key in made {
                if let Some(&uses) = self.uses.get(&key) {
                    held.uses.insert((micro, key.0, key.1), uses);
                    held.now += of(key.0);
                }
            }
            for key in used {
                held.use_it(key, of(key.1));
            }
        }
        given + before + sums + peak.max(after.0 + after.1)
    }
}

impl Held {
    fn use_once_more(&mut self, key: Key) {
        self.uses.entry(key).and_modify(|n| *n += 1);
    }
    fn use_it(&mut self, key: Key, bytes: usize) {
        if let Some(n) = self.uses.get_mut(&key) {
            *n -= 1;
            if *n == 0 {
                self.uses.remove(&key);
                self.now -= bytes;
            }
        }
    }
}
