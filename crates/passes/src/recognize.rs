//! Pattern matching: finds ops that a program wrote out in terms of others, where a device claims the op.
//!
//! The [`Pattern`]s stand with the ops in the table; this file matches them and replaces what they match.

use crate::{Claims, Rewriter, prune, splice};
use ir::{FlatNode, Graph, Literal, Meaning, Op, Result, Slot};
use rustc_hash::{FxHashMap, FxHashSet};

/// A way to write an op.
#[derive(Clone, Copy)]
pub struct Pattern {
    /// The op.
    pub op: &'static Op,
    /// The name of the op that stands where the search begins.
    pub from: &'static str,
    /// Whether it is only worth it on devices that claim the op. Without, it is a step towards
    /// another pattern.
    pub claimed: bool,
    /// What to put in place of the pattern that this node belongs to, if it is one.
    pub find: fn(&Matcher, Slot) -> Result<Option<Match>>,
}

/// A pattern that was found.
pub struct Match {
    /// What it takes.
    pub inputs: Vec<Slot>,
    /// Computes, from the inputs, the values that replace those of `outs`.
    pub body: Graph,
    /// The values that are replaced. All inputs are computed before the first of them.
    pub outs: Vec<Slot>,
}

/// A graph to look into.
pub struct Matcher<'a> {
    /// The graph.
    pub graph: &'a Graph,
    users: Vec<Vec<u32>>,
}

impl<'a> Matcher<'a> {
    fn new(graph: &'a Graph) -> Matcher<'a> {
        let mut users = vec![Vec::new(); graph.nodes.len()];
        for (i, n) in graph.nodes.iter().enumerate() {
            n.inputs.iter().for_each(|s| users[s.node as usize].push(i as u32));
        }
        // A result of the graph has one user more, which is no node.
        graph.outputs.iter().for_each(|s| users[s.node as usize].push(u32::MAX));
        Matcher { graph, users }
    }
    /// The inputs of a value's node, if it is of the op with this name and takes as many.
    pub fn inputs<const N: usize>(&self, s: Slot, op: &str) -> Option<[Slot; N]> {
        let n = self.node(s, op)?;
        n.inputs[..].try_into().ok()
    }
    /// The node of a value, if it is of the op with this name.
    pub fn node(&self, s: Slot, op: &str) -> Option<&'a FlatNode> {
        Some(self.graph.node(s)).filter(|n| n.op.name == op)
    }
    /// The nodes that take a value, each as often as it does so; a number beyond all nodes if it is
    /// a result of the graph.
    pub fn users(&self, s: Slot) -> &[u32] {
        &self.users[s.node as usize]
    }
    /// The first user of a value that is of the op with this name.
    pub fn user(&self, s: Slot, op: &str) -> Option<Slot> {
        let is_it = |i: &&u32| self.graph.nodes.get(**i as usize).is_some_and(|n| n.op.name == op);
        self.users(s).iter().find(is_it).map(|&i| Slot { node: i, out: 0 })
    }
    /// The number that every element of a value is, if it is a constant, seen through views.
    pub fn number(&self, s: Slot) -> Option<f64> {
        let n = self.graph.node(s);
        if let Meaning::View(_) = n.op.meaning {
            return self.number(n.inputs[0]);
        }
        self.graph.constant(s).filter(|c| c.count() == 1).map(|c: &Literal| c.to_f64()[0])
    }
    /// What a view that only swaps the last two dimensions looks at.
    pub fn swapped(&self, s: Slot) -> Option<Slot> {
        let n = self.graph.node(s);
        let Meaning::View(f) = n.op.meaning else { return None };
        let types = self.graph.input_types(n);
        let whole = ir::Layout::contiguous(&types[0].shape);
        let rank = types[0].shape.rank();
        let seen = f(&ir::Call { types: &types, attrs: &n.attrs }, &whole).ok()??;
        let mut transposed = whole;
        if rank < 2 {
            return None;
        }
        transposed.shape.dims_mut().swap(rank - 1, rank - 2);
        transposed.strides.swap(rank - 1, rank - 2);
        (seen == transposed).then_some(n.inputs[0])
    }
}

/// Replaces the patterns that are found, one kind after the other.
pub fn recognize(graph: &Graph, patterns: &[Pattern], claims: Claims) -> Result<Graph> {
    replaced(graph, patterns, claims, false)
}

/// The same where nodes are to be computed on several devices: a pattern lies in one place.
pub fn recognize_placed(graph: &Graph, patterns: &[Pattern], claims: Claims) -> Result<Graph> {
    replaced(graph, patterns, claims, true)
}

fn replaced(graph: &Graph, patterns: &[Pattern], claims: Claims, is_placed: bool) -> Result<Graph> {
    let mut graph = graph.clone();
    for pattern in patterns {
        if graph.nodes.iter().any(|n| n.op.name == pattern.from)
            && let Some(next) = replace(&graph, pattern, claims, is_placed)?
        {
            graph = prune(&next);
        }
    }
    Ok(graph)
}

/// The graph without what one kind of pattern finds; `None` if that is nothing.
fn replace(graph: &Graph, pattern: &Pattern, claims: Claims, is_placed: bool) -> Result<Option<Graph>> {
    let look = Matcher::new(graph);
    let mut found: Vec<Match> = Vec::new();
    // Which find a value belongs to, and the number of its replacement.
    let mut taken: FxHashMap<Slot, (usize, usize)> = FxHashMap::default();
    for (i, n) in graph.nodes.iter().enumerate().filter(|(_, n)| n.op.name == pattern.from) {
        let Some(f) = (pattern.find)(&look, Slot::new(i, 0)).map_err(|e| e.in_op(pattern.op.name).at(n.site))? else {
            continue;
        };
        let first = f.outs.iter().map(|s| s.node).min().unwrap_or(0);
        let is_sound = f.inputs.iter().all(|s| s.node < first)
            && f.outs.iter().all(|s| !taken.contains_key(s) && look.graph.node(*s).outs.len() == 1)
            && f.outs.iter().zip(&f.body.outputs).all(|(&s, &t)| graph.ty(s) == f.body.ty(t));
        let is_sound = is_sound && (!is_placed || is_in_one_place(graph, &f));
        if is_sound && (!pattern.claimed || is_claimed(&f.body, pattern.op, claims)) {
            taken.extend(f.outs.iter().enumerate().map(|(k, &s)| (s, (found.len(), k))));
            found.push(f);
        }
    }
    if found.is_empty() {
        return Ok(None);
    }
    let mut placed: Vec<Vec<Slot>> = vec![Vec::new(); found.len()];
    let mut rw = Rewriter::new(graph);
    for (i, n) in graph.nodes.iter().enumerate() {
        let Some(&(which, out)) = taken.get(&Slot::new(i, 0)) else {
            rw.keep(n);
            continue;
        };
        if placed[which].is_empty() {
            let f = &found[which];
            let args: Vec<Slot> = f.inputs.iter().map(|&s| rw.at(s)).collect();
            let from = rw.new.nodes.len();
            placed[which] = splice(&mut rw.new, &f.body, &args);
            if is_placed {
                rw.new.nodes[from..].iter_mut().for_each(|new| {
                    (new.site.place, new.site.origin, new.site.is_gradient) =
                        (n.site.place, n.site.origin, n.site.is_gradient);
                });
            }
        }
        rw.replace([placed[which][out]]);
    }
    Ok(Some(rw.finish()))
}

/// Whether everything between the inputs of a pattern and what it replaces is to be computed in one place.
fn is_in_one_place(graph: &Graph, f: &Match) -> bool {
    let Some(place) = f.outs.first().map(|s| graph.node(*s).site.place) else { return true };
    let mut seen: FxHashSet<u32> = f.inputs.iter().map(|s| s.node).collect();
    let mut stack: Vec<u32> = f.outs.iter().map(|s| s.node).filter(|&i| seen.insert(i)).collect();
    while let Some(i) = stack.pop() {
        let n = &graph.nodes[i as usize];
        let is_given = matches!(n.op.meaning, Meaning::Const) || n.op == &ir::INPUT;
        if !is_given && n.site.place != place {
            return false;
        }
        stack.extend(n.inputs.iter().map(|s| s.node).filter(|&i| seen.insert(i)));
    }
    true
}

/// Whether a device runs every node of the op in a graph.
fn is_claimed(body: &Graph, op: &'static Op, claims: Claims) -> bool {
    body.nodes.iter().filter(|n| n.op == op).all(|n| claims(n, &body.input_types(n)))
}
