//! Weight folding: what a graph computes from weights alone is computed once, when a size is compiled, and not at each
//! run. Batch normalization in inference mode is the usual case: its scale and shift are functions of four weights.

use ir::{Graph, INPUT, Meaning, Slot};

/// A graph in two parts.
pub struct Folded {
    /// Computes what depends on weights alone; takes the inputs that `reads` lists.
    pub once: Graph,
    /// Inputs of the graph, by number.
    pub reads: Vec<usize>,
    /// Computes the rest; takes the inputs of the graph, then the results of `once`.
    pub each: Graph,
}

/// What is known of a node whose inputs are weights and constants.
#[derive(Clone, Copy, Default)]
struct Fixed {
    /// Whether something is computed on the way from the weights to it. Views and constants cost nothing.
    is_computed: bool,
    /// Bytes of the weights that it reads.
    weight_bytes: usize,
}

/// Results may be this many times as large as the weights that they come from: a cast from 16 to 32 bits.
const GROWTH_MAX: usize = 2;

/// Splits a graph; `is_weight` says which of its inputs are weights. `None` if there is nothing to fold.
pub fn fold(graph: &Graph, is_weight: &[bool]) -> Option<Folded> {
    let mut split = Split { graph, fixed: fixed(graph, is_weight), taken: Vec::new(), is_kept: Vec::new() };
    split.is_kept = vec![false; graph.nodes.len()];
    graph.outputs.iter().for_each(|&s| split.need(s));
    if split.taken.is_empty() {
        return None;
    }
    split.taken.sort_unstable();
    let mut computes = vec![false; graph.nodes.len()];
    split.taken.iter().for_each(|s| computes[s.node as usize] = true);
    for i in (0..graph.nodes.len()).rev().filter(|&i| graph.nodes[i].op != &INPUT) {
        if computes[i] {
            graph.nodes[i].inputs.iter().for_each(|s| computes[s.node as usize] = true);
        }
    }
    let reads: Vec<usize> = (0..graph.inputs.len()).filter(|&i| computes[graph.inputs[i] as usize]).collect();
    let all: Vec<usize> = (0..graph.inputs.len()).collect();
    let once = part(graph, &reads, &computes, &[], &split.taken);
    let each = part(graph, &all, &split.is_kept, &split.taken, &graph.outputs);
    Some(Folded { once, reads, each })
}

fn fixed(graph: &Graph, is_weight: &[bool]) -> Vec<Option<Fixed>> {
    let mut out: Vec<Option<Fixed>> = Vec::with_capacity(graph.nodes.len());
    let weights: Vec<u32> = graph.inputs.iter().zip(is_weight).filter(|(_, is)| **is).map(|(i, _)| *i).collect();
    for (i, n) in graph.nodes.iter().enumerate() {
        let of_inputs = || -> Option<Fixed> {
            let inputs = n.inputs.iter().map(|s| out[s.node as usize]).collect::<Option<Vec<Fixed>>>()?;
            let weight_bytes = inputs.iter().map(|f| f.weight_bytes).sum();
            let costs = !matches!(n.op.meaning, Meaning::View(_) | Meaning::Recast) && weight_bytes > 0;
            Some(Fixed { is_computed: costs || inputs.iter().any(|f| f.is_computed), weight_bytes })
        };
        out.push(match n.op.meaning {
            Meaning::Input if weights.contains(&(i as u32)) => {
                Some(Fixed { is_computed: false, weight_bytes: n.outs[0].bytes() })
            }
            Meaning::Input => None,
            Meaning::Const => Some(Fixed::default()),
            _ if n.is_ordered() || n.inputs.is_empty() => None,
            _ => of_inputs(),
        });
    }
    out
}

struct Split<'a> {
    graph: &'a Graph,
    fixed: Vec<Option<Fixed>>,
    taken: Vec<Slot>,
    is_kept: Vec<bool>,
}

impl Split<'_> {
    /// Notes how the rest of the graph comes by a value: taken out, or computed where it is.
    fn need(&mut self, s: Slot) {
        let mut waiting = vec![s];
        while let Some(s) = waiting.pop() {
            let node = s.node as usize;
            let is_worth = |f: &Fixed| f.is_computed && self.graph.ty(s).bytes() <= f.weight_bytes * GROWTH_MAX;
            if self.fixed[node].as_ref().is_some_and(is_worth) {
                if !self.taken.contains(&s) {
                    self.taken.push(s);
                }
            } else if !std::mem::replace(&mut self.is_kept[node], true) {
                waiting.extend(&self.graph.nodes[node].inputs);
            }
        }
    }
}

/// The graph of some nodes: takes some inputs of the graph, then `given`.
fn part(graph: &Graph, inputs: &[usize], is_kept: &[bool], given: &[Slot], outputs: &[Slot]) -> Graph {
    let mut out = Graph::new();
    let mut moved: Vec<Option<u32>> = vec![None; graph.nodes.len()];
    for i in inputs.iter().map(|&k| graph.inputs[k]) {
        let n = &graph.nodes[i as usize];
        let at = out.push_typed(n.op, n.inputs.clone(), n.attrs.clone(), n.outs.clone(), n.site);
        out.inputs.push(at.node);
        moved[i as usize] = Some(at.node);
    }
    let values: Vec<Slot> = given.iter().map(|&s| out.input("folded", graph.ty(s), graph.node(s).site)).collect();
    let find = |moved: &[Option<u32>], s: &Slot| match given.binary_search(s) {
        Ok(k) => values[k],
        Err(_) => Slot { node: moved[s.node as usize].expect("a value before its use"), out: s.out },
    };
    for (i, n) in graph.nodes.iter().enumerate().filter(|(i, n)| is_kept[*i] && n.op != &INPUT) {
        let inputs = n.inputs.iter().map(|s| find(&moved, s)).collect();
        moved[i] = Some(out.push_typed(n.op, inputs, n.attrs.clone(), n.outs.clone(), n.site).node);
    }
    out.outputs = outputs.iter().map(|s| find(&moved, s)).collect();
    out
}
