//! Replaces composites by their definition, unless the device claims them.

use crate::Rewriter;
use ir::{Call, Collect, FlatNode, Graph, INPUT, Meaning, Result, Slot, Type, Value, collect};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

/// Whether a device runs a node itself, given the types of its inputs.
pub type Claims<'a> = &'a dyn Fn(&FlatNode, &[Type]) -> bool;

/// Replaces every composite that is not claimed.
pub fn decompose(graph: &Graph, claims: Claims) -> Result<Graph> {
    let mut rw = Rewriter::new(graph);
    for n in &graph.nodes {
        let types = graph.input_types(n);
        match n.op.meaning {
            Meaning::Composite(expand) if !claims(n, &types) => {
                let body = expansion(n, &types, expand)?;
                let body = decompose(&body, claims)?;
                let args: SmallVec<[Slot; 3]> = n.inputs.iter().map(|&s| rw.at(s)).collect();
                let outs = splice(&mut rw.new, &body, &args);
                rw.replace(outs);
            }
            _ => rw.keep(n),
        }
    }
    Ok(rw.finish())
}

/// The flat graph of one composite, with an input for each of the node's inputs.
pub(crate) fn expansion(
    n: &FlatNode,
    types: &[Type],
    expand: fn(&Call, &[Value]) -> Result<Vec<Value>>,
) -> Result<Graph> {
    n.site.scope(|| {
        let args: Vec<Value> = types.iter().map(|t| Value::placeholder("", t.clone(), n.site)).collect();
        let outs = expand(&Call { types, attrs: &n.attrs }, &args).map_err(|e| e.in_op(n.op.name).at(n.site))?;
        graph_of(&args, &outs)
    })
}

/// The flat graph that computes `outs` from `args` (placeholders), inputs in the order of `args`.
pub fn graph_of(args: &[Value], outs: &[Value]) -> Result<Graph> {
    bind(collect(outs, Collect::Later)?, args)
}

/// What functions traced over the same `args` use beside them: everything made before the mark
/// `since` that is reached, and every other leaf. Each value is named once.
pub fn captures_of(args: &[Value], outs: &[Value], since: u64) -> Result<Vec<Value>> {
    let leaves = collect(outs, Collect::Trace { since })?.leaves;
    let key = |v: &Value| (v.node().id(), v.out());
    let given: FxHashSet<(u64, usize)> = args.iter().map(key).collect();
    Ok(leaves.into_iter().filter(|l| !given.contains(&key(l))).collect())
}

/// The flat graph of a traced function; its inputs are `args`, which include what it captured.
pub fn body_of(args: &[Value], outs: &[Value], since: u64) -> Result<Graph> {
    bind(collect(outs, Collect::Trace { since })?, args)
}

/// A collected graph with its leaves bound to `args`; computed leaves that are not among them
/// become constants.
fn bind(c: ir::Collected, args: &[Value]) -> Result<Graph> {
    let mut graph = Graph::new();
    let mut slots: FxHashMap<(u64, usize), Slot> = FxHashMap::default();
    for a in args {
        let name = if let ir::Source::Placeholder(n) = a.node().source() { n.to_string() } else { String::new() };
        slots.insert((a.node().id(), a.out()), graph.input(&name, a.ty(), a.node().site()));
    }
    let mut map: Vec<SmallVec<[Slot; 1]>> = Vec::with_capacity(c.graph.nodes.len());
    let mut leaves = c.leaves.iter();
    for n in &c.graph.nodes {
        if n.op == &INPUT {
            let leaf = leaves.next().ok_or_else(|| ir::Error::bug("inputs and leaves differ"))?;
            let slot = match (slots.get(&(leaf.node().id(), leaf.out())), leaf.buffer()) {
                (Some(&s), _) => s,
                (None, Some(b)) => {
                    let attrs = ir::Attrs::new().with("value", b.read()?);
                    graph.push(&ir::CONST, &[], attrs, n.site)?
                }
                (None, None) => {
                    return Err(ir::Error::new(
                        ir::ErrorKind::Feed,
                        format!("the function uses {leaf:?}, which is not among its inputs"),
                    )
                    .at(leaf.node().site()));
                }
            };
            map.push(SmallVec::from_iter([slot]));
        } else {
            let inputs = n.inputs.iter().map(|s| map[s.node as usize][s.out as usize]).collect();
            let at = graph.push_typed(n.op, inputs, n.attrs.clone(), n.outs.clone(), n.site);
            map.push((0..n.outs.len()).map(|o| Slot { node: at.node, out: o as u32 }).collect());
        }
    }
    graph.outputs = c.graph.outputs.iter().map(|s| map[s.node as usize][s.out as usize]).collect();
    Ok(graph)
}

/// Appends `body` to `graph` with its inputs bound to `args`; returns where its outputs are.
pub fn splice(graph: &mut Graph, body: &Graph, args: &[Slot]) -> Vec<Slot> {
    assert_eq!(args.len(), body.inputs.len(), "one argument for each input");
    let mut map: Vec<SmallVec<[Slot; 1]>> = Vec::with_capacity(body.nodes.len());
    let mut next = args.iter();
    for n in &body.nodes {
        if n.op == &INPUT {
            map.push(SmallVec::from_iter(next.next().copied()));
        } else {
            let inputs = n.inputs.iter().map(|s| map[s.node as usize][s.out as usize]).collect();
            let at = graph.push_typed(n.op, inputs, n.attrs.clone(), n.outs.clone(), n.site);
            map.push((0..n.outs.len()).map(|o| Slot { node: at.node, out: o as u32 }).collect());
        }
    }
    body.outputs.iter().map(|s| map[s.node as usize][s.out as usize]).collect()
}
