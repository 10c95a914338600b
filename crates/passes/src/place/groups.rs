//! Nodes that are computed on one device: those of an op that was expanded, those that a program colocates, and the
//! update of a variable with its optimizer state.

use super::{Request, is_given};
use ir::{Error, ErrorKind, FlatNode, Graph, Meaning, Result};
use rustc_hash::FxHashMap;

/// Disjoint sets of nodes, each with the devices that all of its nodes allow.
pub(super) struct Groups {
    parent: Vec<u32>,
    mask: Vec<u64>,
    /// Nodes that hold a variable, or update one.
    pub is_variable: Vec<bool>,
    /// The first forward node of an op.
    pub forward: FxHashMap<u32, u32>,
}

impl Groups {
    /// The set of a node.
    pub fn find(&mut self, i: u32) -> u32 {
        let mut root = i;
        while self.parent[root as usize] != root {
            root = self.parent[root as usize];
        }
        let mut at = i;
        while self.parent[at as usize] != root {
            at = std::mem::replace(&mut self.parent[at as usize], root);
        }
        root
    }
    /// The devices that a set allows.
    pub fn allowed(&self, root: u32) -> u64 {
        self.mask[root as usize]
    }
    /// Joins two sets, unless no device is allowed for both. The earlier node stays the root.
    fn join(&mut self, a: u32, b: u32) -> bool {
        let (a, b) = (self.find(a), self.find(b));
        let mask = self.mask[a as usize] & self.mask[b as usize];
        if a == b || mask == 0 {
            return a == b;
        }
        let (root, other) = (a.min(b), a.max(b));
        self.parent[other as usize] = root;
        self.mask[root as usize] = mask;
        self.is_variable[root as usize] |= self.is_variable[other as usize];
        true
    }
}

pub(super) fn groups(graph: &Graph, request: &Request) -> Result<Groups> {
    let count = request.devices.len();
    let all = if count >= 64 { u64::MAX } else { (1 << count) - 1 };
    let n = graph.nodes.len();
    let mut g = Groups {
        parent: (0..n as u32).collect(),
        mask: vec![all; n],
        is_variable: vec![false; n],
        forward: FxHashMap::default(),
    };
    for (&i, held) in graph.inputs.iter().zip(request.inputs) {
        if held.is_variable {
            g.is_variable[i as usize] = true;
            g.mask[i as usize] = held.home.map_or(all, |h| 1 << h);
        }
    }
    for (i, node) in graph.nodes.iter().enumerate().filter(|(_, n)| !is_given(n)) {
        g.mask[i] = allowed(graph, node, all, request)?;
    }
    colocate(graph, request, &mut g)?;
    for (i, node) in graph.nodes.iter().enumerate() {
        if is_given(node) || node.site.origin == 0 || node.site.is_gradient {
            continue;
        }
        let first = *g.forward.entry(node.site.origin).or_insert(i as u32);
        g.join(first, i as u32);
    }
    variables(graph, request, &mut g);
    Ok(g)
}

/// The devices that a node's constraint allows and that run it.
fn allowed(graph: &Graph, node: &FlatNode, all: u64, request: &Request) -> Result<u64> {
    let place = (node.site.place as usize).checked_sub(1).and_then(|p| request.places.get(p));
    let wanted = place.map_or(all, |p| p.allowed);
    let Some(refuses) = request.refuses else { return Ok(wanted) };
    let types = graph.input_types(node);
    let (mut mask, mut why) = (wanted, String::new());
    for d in (0..request.devices.len()).filter(|d| wanted >> d & 1 == 1) {
        if let Some(reason) = refuses(d, node, &types) {
            mask &= !(1 << d);
            why = format!("{} does not run it: {reason}", request.devices[d].name);
        }
    }
    if mask == 0 {
        let text = place.map_or("no constraint".to_string(), |p| p.text.clone());
        let e = format!("{text} leaves no device: {why}");
        return Err(Error::new(ErrorKind::Device, e).in_op(node.op.name).at(node.site));
    }
    Ok(mask)
}

/// Joins what the program colocates.
fn colocate(graph: &Graph, request: &Request, g: &mut Groups) -> Result<()> {
    let mut first: FxHashMap<u32, u32> = FxHashMap::default();
    for (i, n) in graph.nodes.iter().enumerate() {
        let Some(place) = (n.site.place as usize).checked_sub(1).and_then(|p| request.places.get(p)) else { continue };
        if !place.is_one || n.op == &ir::CONST {
            continue;
        }
        let with = *first.entry(n.site.place).or_insert(i as u32);
        if !g.join(with, i as u32) {
            let names = |mask: u64| {
                let list = request.devices.iter().enumerate().filter(|(d, _)| mask >> d & 1 == 1);
                list.map(|(_, c)| c.name.as_str()).collect::<Vec<_>>().join(" or ")
            };
            let (mine, theirs) = (g.find(i as u32), g.find(with));
            let e = format!(
                "{}: it must be on {}, and what it is colocated with at {} on {}",
                place.text,
                names(g.allowed(mine)),
                graph.nodes[with as usize].site,
                names(g.allowed(theirs))
            );
            return Err(Error::new(ErrorKind::Device, e).in_op(n.op.name).at(n.site));
        }
    }
    Ok(())
}

/// Joins each variable with its update, and with the optimizer's state: variables of as many elements that the update
/// reads, and the elementwise nodes between.
fn variables(graph: &Graph, request: &Request, g: &mut Groups) {
    let mut is_seen = vec![false; graph.nodes.len()];
    let mut is_state = vec![false; graph.nodes.len()];
    for (&i, held) in graph.inputs.iter().zip(request.inputs) {
        is_state[i as usize] = held.is_variable;
    }
    for &(k, o) in &graph.updates {
        let variable = graph.inputs[k as usize];
        let last = graph.outputs[o as usize].node;
        if is_given(&graph.nodes[last as usize]) || !g.join(variable, last) {
            continue;
        }
        g.is_variable[last as usize] = true;
        let count = graph.nodes[variable as usize].outs[0].shape.count();
        let mut stack = vec![last];
        while let Some(i) = stack.pop() {
            if std::mem::replace(&mut is_seen[i as usize], true) {
                continue;
            }
            for s in &graph.nodes[i as usize].inputs {
                let n = &graph.nodes[s.node as usize];
                if n.site.is_gradient || graph.ty(*s).shape.count() != count || n.op == &ir::CONST {
                    continue;
                }
                let is_between = matches!(n.op.meaning, Meaning::Scalar(_) | Meaning::View(_));
                if is_state[s.node as usize] {
                    g.join(variable, s.node);
                } else if is_between && n.op != &ir::INPUT && g.join(variable, s.node) {
                    g.is_variable[s.node as usize] = true;
                    stack.push(s.node);
                }
            }
        }
    }
}
