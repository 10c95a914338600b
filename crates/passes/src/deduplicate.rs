//! Common subexpression elimination.

use crate::Rewriter;
use ir::{Attrs, FlatNode, Graph, INPUT, Op, Slot};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::hash::{Hash, Hasher};

/// A node's identity: what it computes from what.
struct Key {
    op: &'static Op,
    inputs: SmallVec<[Slot; 3]>,
    attrs: Attrs,
    place: u32,
}
impl PartialEq for Key {
    fn eq(&self, o: &Key) -> bool {
        (self.op, self.place) == (o.op, o.place) && self.inputs == o.inputs && self.attrs == o.attrs
    }
}
impl Eq for Key {}
impl Hash for Key {
    fn hash<H: Hasher>(&self, h: &mut H) {
        (self.op as *const Op as usize).hash(h);
        self.place.hash(h);
        self.inputs.hash(h);
        self.attrs.hash(h);
    }
}

/// Merges nodes with the same op, inputs and attributes. Random ops take their key as an input,
/// so equal nodes have equal values. What talks to other
/// processes is left as it is: they count how often.
pub fn deduplicate(graph: &Graph) -> Graph {
    merged(graph, |_| 0)
}

/// The same where nodes are to be computed on several devices: what is to be computed in two places is not merged.
pub fn deduplicate_placed(graph: &Graph) -> Graph {
    merged(graph, |n| n.site.place)
}

fn merged(graph: &Graph, place: impl Fn(&FlatNode) -> u32) -> Graph {
    let mut rw = Rewriter::new(graph);
    let mut seen: FxHashMap<Key, SmallVec<[Slot; 1]>> = FxHashMap::default();
    for n in &graph.nodes {
        if n.op == &INPUT || n.is_ordered() {
            rw.keep(n);
            continue;
        }
        let key = key(&rw, n, place(n));
        if let Some(outs) = seen.get(&key) {
            rw.replace(outs.clone());
            continue;
        }
        rw.keep(n);
        let at = rw.new.nodes.len() - 1;
        seen.insert(key, (0..n.outs.len()).map(|o| Slot::new(at, o)).collect());
    }
    rw.finish()
}

fn key(rw: &Rewriter, n: &FlatNode, place: u32) -> Key {
    Key { op: n.op, inputs: n.inputs.iter().map(|&s| rw.at(s)).collect(), attrs: n.attrs.clone(), place }
}
