//! The flat graph: nodes in topological order, what passes rewrite and devices compile.

use crate::{
    Attrs, Call, Effect, Error, ErrorKind, INPUT, Literal, Node, ORDERED, Op, Result, Shape, Site, Source, Type, Types,
    Value,
};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// One output of a flat node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Slot {
    /// Index of the node.
    pub node: u32,
    /// Which of its outputs.
    pub out: u32,
}
impl Slot {
    /// From its parts.
    pub fn new(node: usize, out: usize) -> Slot {
        Slot { node: node as u32, out: out as u32 }
    }
}

/// A node of a flat graph.
#[derive(Clone, Debug)]
pub struct FlatNode {
    /// Its op.
    pub op: &'static Op,
    /// Its inputs: outputs of earlier nodes.
    pub inputs: SmallVec<[Slot; 3]>,
    /// Its attributes.
    pub attrs: Attrs,
    /// Types of its outputs.
    pub outs: Types,
    /// The user's line.
    pub site: Site,
}

impl FlatNode {
    /// True if it must run in the order of the program among others of its kind.
    pub fn is_ordered(&self) -> bool {
        match self.op.effect {
            Effect::Ordered | Effect::StartsInOrder => true,
            Effect::Stated => self.attrs.bool(ORDERED).unwrap_or(false),
            Effect::None | Effect::Starts => false,
        }
    }
}

/// Nodes in topological order, which of them are inputs, and which outputs are asked for.
#[derive(Clone, Default, Debug)]
pub struct Graph {
    /// Nodes; each uses only earlier ones.
    pub nodes: Vec<FlatNode>,
    /// The [`INPUT`] nodes, in the order their values are given.
    pub inputs: Vec<u32>,
    /// What running the graph returns.
    pub outputs: Vec<Slot>,
    /// Inputs that hold a variable's old value, with the output that holds its new value, by
    /// number. Passes keep both numbers. Files do not carry it: the binding of variables sets it.
    pub updates: Vec<(u32, u32)>,
}

/// Equal structure: lines are not compared.
impl PartialEq for Graph {
    fn eq(&self, other: &Graph) -> bool {
        self.inputs == other.inputs
            && self.outputs == other.outputs
            && self.updates == other.updates
            && self.nodes.len() == other.nodes.len()
            && self
                .nodes
                .iter()
                .zip(&other.nodes)
                .all(|(a, b)| a.op == b.op && a.inputs == b.inputs && a.attrs == b.attrs && a.outs == b.outs)
    }
}
impl Hash for Graph {
    fn hash<H: Hasher>(&self, h: &mut H) {
        for n in &self.nodes {
            (n.op as *const Op as usize).hash(h);
            n.inputs.hash(h);
            n.attrs.hash(h);
            n.outs.hash(h);
        }
        self.inputs.hash(h);
        self.outputs.hash(h);
        self.updates.hash(h);
    }
}

impl Graph {
    /// An empty graph.
    pub fn new() -> Graph {
        Graph::default()
    }
    /// Appends an input.
    pub fn input(&mut self, name: &str, ty: &Type, site: Site) -> Slot {
        let attrs = Attrs::new().with("dtype", ty.dtype).with("shape", &ty.shape).with("name", name);
        let at = self.push_typed(&INPUT, SmallVec::new(), attrs, SmallVec::from_iter([ty.clone()]), site);
        self.inputs.push(at.node);
        at
    }
    /// Appends a node and checks its types.
    pub fn push(&mut self, op: &'static Op, inputs: &[Slot], attrs: Attrs, site: Site) -> Result<Slot> {
        let types: SmallVec<[Type; 3]> = inputs.iter().map(|&s| self.ty(s).clone()).collect();
        let outs = op.check(&Call { types: &types, attrs: &attrs }).map_err(|e| e.at(site))?;
        Ok(self.push_typed(op, SmallVec::from_slice(inputs), attrs, outs, site))
    }
    /// Appends a node whose types are known.
    pub fn push_typed(
        &mut self,
        op: &'static Op,
        inputs: SmallVec<[Slot; 3]>,
        attrs: Attrs,
        outs: Types,
        site: Site,
    ) -> Slot {
        self.nodes.push(FlatNode { op, inputs, attrs, outs, site });
        Slot::new(self.nodes.len() - 1, 0)
    }
    /// The type of a value.
    pub fn ty(&self, s: Slot) -> &Type {
        &self.nodes[s.node as usize].outs[s.out as usize]
    }
    /// The node of a value.
    pub fn node(&self, s: Slot) -> &FlatNode {
        &self.nodes[s.node as usize]
    }
    /// Types of a node's inputs.
    pub fn input_types(&self, node: &FlatNode) -> SmallVec<[Type; 3]> {
        node.inputs.iter().map(|&s| self.ty(s).clone()).collect()
    }
    /// The constant a value is, if its node is one.
    pub fn constant(&self, s: Slot) -> Option<&Literal> {
        let n = self.node(s);
        if n.op == &crate::CONST { n.attrs.literal("value").ok() } else { None }
    }
    /// For each node, how many times its outputs are used, the graph's outputs included.
    pub fn uses(&self) -> Vec<u32> {
        let mut uses = vec![0; self.nodes.len()];
        for s in self.nodes.iter().flat_map(|n| &n.inputs).chain(&self.outputs) {
            uses[s.node as usize] += 1;
        }
        uses
    }
}

/// Which leaves a collected graph has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Collect {
    /// The program as it stands: whatever is computed is a leaf, placeholders are an error.
    Now,
    /// A graph to be run later, many times: placeholders, variable reads and random keys are
    /// leaves to be bound at each run; computed values are captured.
    Later,
    /// The body of a function that was traced: whatever was made before the trace began (see
    /// [`crate::mark`]) is a leaf, computed or not; placeholders, keys and reads of variables are
    /// leaves too, except reads of values that the trace itself assigned.
    Trace {
        /// The mark taken before the trace.
        since: u64,
    },
}

/// A flat graph with the live values it came from.
pub struct Collected {
    /// The graph.
    pub graph: Graph,
    /// The live leaf behind each of the graph's inputs.
    pub leaves: Vec<Value>,
    /// The live node behind each flat node; `None` for inputs.
    pub nodes: Vec<Option<Arc<Node>>>,
    /// Reads of variables that were still uncomputed, with the value they stand for.
    pub reads: Vec<(Value, Slot)>,
}

/// Where a pending read leads: the value that the variable named then.
fn resolve(mut v: Value, reads: &mut Vec<(Value, Value)>) -> Value {
    while matches!(v.node().source(), Source::Read(_)) && !v.is_computed() {
        let Some(next) = v.node().inputs().into_iter().next() else { break };
        if let Some(b) = next.buffer() {
            v.node().fill(0, b);
            break;
        }
        reads.push((v, next.clone()));
        v = next;
    }
    v
}

/// The value behind a read of something that the trace itself assigned.
fn assigned_since(mut v: Value, since: u64) -> Value {
    while let Source::Read(_) = v.node().source() {
        match v.node().inputs().into_iter().next() {
            Some(next) if next.node().id() >= since => v = next,
            _ => break,
        }
    }
    v
}

/// Flattens everything that `fetches` need and that is not computed yet.
pub fn collect(fetches: &[Value], mode: Collect) -> Result<Collected> {
    let mut reads = Vec::new();
    let is_leaf = |v: &Value| match (mode, v.node().source()) {
        (Collect::Now, _) => v.is_computed(),
        (_, Source::Read(_) | Source::Placeholder(_) | Source::Key) => true,
        (Collect::Trace { since }, _) if v.node().id() < since => v.as_const().is_none(),
        _ => v.is_computed(),
    };
    let step = |v: Value, reads: &mut Vec<(Value, Value)>| match mode {
        Collect::Now => resolve(v, reads),
        Collect::Later => v,
        Collect::Trace { since } => assigned_since(v, since),
    };
    // Reach: every node once; ids give a topological order that is also the program's.
    let mut seen: FxHashSet<(u64, u32)> = FxHashSet::default();
    let mut found: Vec<(Value, bool, SmallVec<[Value; 2]>)> = Vec::new();
    let mut stack: Vec<Value> = fetches.iter().map(|v| step(v.clone(), &mut reads)).collect();
    let roots = stack.clone();
    while let Some(v) = stack.pop() {
        let leaf = is_leaf(&v);
        let key = (v.node().id(), if leaf { v.out() as u32 } else { u32::MAX });
        if !seen.insert(key) {
            continue;
        }
        if leaf {
            found.push((v, true, SmallVec::new()));
            continue;
        }
        if let Source::Placeholder(name) = v.node().source() {
            let e =
                format!("placeholder {name:?} of type {} has no value: run the graph in a Session and feed it", v.ty());
            return Err(Error::new(ErrorKind::Feed, e).at(v.node().site()));
        }
        let inputs: SmallVec<[Value; 2]> = v.node().inputs().into_iter().map(|i| step(i, &mut reads)).collect();
        stack.extend(inputs.iter().cloned());
        found.push((v, false, inputs));
    }
    found.sort_unstable_by_key(|(v, leaf, _)| (v.node().id(), if *leaf { v.out() as u32 } else { u32::MAX }));

    let mut out = Collected { graph: Graph::new(), leaves: Vec::new(), nodes: Vec::new(), reads: Vec::new() };
    out.graph.nodes.reserve(found.len());
    let mut place: FxHashMap<(u64, u32), u32> = FxHashMap::with_capacity_and_hasher(found.len(), Default::default());
    let lookup = |place: &FxHashMap<(u64, u32), u32>, v: &Value| {
        let id = v.node().id();
        match place.get(&(id, v.out() as u32)) {
            Some(&n) => Slot { node: n, out: 0 },
            None => Slot { node: place[&(id, u32::MAX)], out: v.out() as u32 },
        }
    };
    for (v, leaf, inputs) in found {
        let n = v.node();
        if leaf {
            let s = out.graph.input(&leaf_name(&v), v.ty(), n.site());
            place.insert((n.id(), v.out() as u32), s.node);
            out.leaves.push(v.clone());
            out.nodes.push(None);
        } else {
            let slots = inputs.iter().map(|i| lookup(&place, i)).collect();
            let lost = || Error::bug("the value was lost: the run that updated it in place panicked").at(n.site());
            let op = n.op().ok_or_else(lost)?;
            let s = out.graph.push_typed(op, slots, n.attrs().clone(), n.outs().into(), n.site());
            place.insert((n.id(), u32::MAX), s.node);
            out.nodes.push(Some(n.clone()));
        }
    }
    out.graph.outputs = roots.iter().map(|v| lookup(&place, v)).collect();
    // A read filled meanwhile through another path leads nowhere in this graph.
    for (read, target) in reads {
        let target = resolve(target, &mut Vec::new());
        if place.contains_key(&(target.node().id(), target.out() as u32))
            || place.contains_key(&(target.node().id(), u32::MAX))
        {
            out.reads.push((read, lookup(&place, &target)));
        }
    }
    Ok(out)
}

/// Inputs are named in text forms only by what binds them; data has no name, so that programs
/// that differ only in data share a plan.
fn leaf_name(v: &Value) -> String {
    match v.node().source() {
        Source::Placeholder(name) => name.to_string(),
        _ => String::new(),
    }
}

/// The shape two shapes broadcast to, as an error where they do not.
pub fn broadcast_shapes(shapes: &[&Shape]) -> Result<Shape> {
    let mut out = Shape::scalar();
    for s in shapes {
        out = out.broadcast(s).ok_or_else(|| {
            let all: Vec<String> = shapes.iter().map(|s| s.to_string()).collect();
            Error::shape(format!("shapes do not broadcast: {}", all.join(" and ")))
        })?;
    }
    Ok(out)
}
