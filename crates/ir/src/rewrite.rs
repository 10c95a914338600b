//! From the flat graph back to the live one: to use it in a program, or to rewrite it value by value
//! with a rule that gives another in a value's place by ordinary calls of ops.

use crate::{Attrs, CONST, Collect, Error, Graph, INPUT, Result, Slot, Source, Value, collect, no_grad};
use smallvec::SmallVec;

impl Graph {
    /// Rebuilds the live form over the given inputs; the outputs' live values come back.
    pub fn inline(&self, args: &[Value]) -> Result<Vec<Value>> {
        if args.len() != self.inputs.len() {
            let e = format!("the graph takes {} inputs, but {} were given", self.inputs.len(), args.len());
            return Err(Error::value(e));
        }
        for (k, (&i, arg)) in self.inputs.iter().zip(args).enumerate() {
            let n = &self.nodes[i as usize];
            if arg.ty() != &n.outs[0] {
                let e = format!("input {k} of the graph is {}, but {} was given", n.outs[0], arg.ty());
                return Err(Error::shape(e).at(n.site));
            }
        }
        emit(self, args, |_| Ok(None))
    }

    /// The graph with other values in the place of those for which `rule` gives one. The rule sees
    /// every value once, in order, over inputs that are already rewritten; what it gives must be of
    /// the same type, and be made of the graph's own values and of numbers. Unused values
    /// any more are gone from the result. Sub-graphs of control flow are left alone.
    pub fn rewrite(&self, rule: impl FnMut(&Value) -> Result<Option<Value>>) -> Result<Graph> {
        no_grad(|| {
            let args: Vec<Value> = self.inputs.iter().map(|&i| stand_in(self, i)).collect();
            let outputs = emit(self, &args, rule)?;
            flatten(self, &args, &outputs)
        })
    }
}

fn stand_in(graph: &Graph, input: u32) -> Value {
    let n = &graph.nodes[input as usize];
    Value::placeholder(n.attrs.str("name").unwrap_or_default(), n.outs[0].clone(), n.site)
}

/// The live form of the outputs, after the rule.
fn emit(graph: &Graph, args: &[Value], mut rule: impl FnMut(&Value) -> Result<Option<Value>>) -> Result<Vec<Value>> {
    let mut live: Vec<SmallVec<[Value; 1]>> = Vec::with_capacity(graph.nodes.len());
    let mut args = args.iter();
    for n in &graph.nodes {
        let mut outs: SmallVec<[Value; 1]> = if n.op == &INPUT {
            args.next().cloned().into_iter().collect()
        } else if n.op == &CONST {
            SmallVec::from_iter([Value::constant(n.attrs.literal("value")?.clone(), n.site)])
        } else {
            let inputs = n.inputs.iter().map(|s| live[s.node as usize][s.out as usize].clone()).collect();
            Value::apply(n.op, inputs, n.attrs.clone(), n.site)?
        };
        if n.op != &INPUT {
            for v in &mut outs {
                let Some(new) = rule(v)? else { continue };
                if new.ty() != v.ty() {
                    let e = format!("{} stands for a value of type {}", new.ty(), v.ty());
                    return Err(Error::shape(e).in_op(n.op.name).at(n.site));
                }
                *v = new;
            }
        }
        live.push(outs);
    }
    Ok(graph.outputs.iter().map(|s| live[s.node as usize][s.out as usize].clone()).collect())
}

/// The flat form over the same inputs in the same order, used or not.
fn flatten(graph: &Graph, args: &[Value], outputs: &[Value]) -> Result<Graph> {
    let c = collect(outputs, Collect::Later)?;
    let mut out = Graph { updates: graph.updates.clone(), ..Graph::new() };
    for &i in &graph.inputs {
        let n = &graph.nodes[i as usize];
        let slot = out.push_typed(n.op, SmallVec::new(), n.attrs.clone(), n.outs.clone(), n.site);
        out.inputs.push(slot.node);
    }
    let mut leaves = c.leaves.iter();
    let mut place: Vec<u32> = Vec::with_capacity(c.graph.nodes.len());
    for n in &c.graph.nodes {
        let at = if n.op == &INPUT {
            let leaf = leaves.next().ok_or_else(|| Error::bug("an input without a leaf"))?;
            match args.iter().position(|a| a.is_same(leaf)) {
                Some(i) => out.inputs[i],
                None => constant(&mut out, leaf)?,
            }
        } else {
            let inputs = n.inputs.iter().map(|s| Slot { node: place[s.node as usize], out: s.out }).collect();
            out.push_typed(n.op, inputs, n.attrs.clone(), n.outs.clone(), n.site).node
        };
        place.push(at);
    }
    out.outputs = c.graph.outputs.iter().map(|s| Slot { node: place[s.node as usize], out: s.out }).collect();
    Ok(out)
}

/// A value from outside, which a graph that is run again and again can only hold as it is now.
fn constant(graph: &mut Graph, leaf: &Value) -> Result<u32> {
    let is_fixed = matches!(leaf.node().source(), Source::Data | Source::Apply(_));
    let (true, Some(buffer)) = (is_fixed, leaf.buffer()) else {
        let e = format!("the rule used {leaf:?}: it may use values of the graph and numbers, but no variables");
        return Err(Error::value(e).at(leaf.node().site()));
    };
    let attrs = Attrs::new().with("value", buffer.read()?);
    let outs = SmallVec::from_iter([leaf.ty().clone()]);
    Ok(graph.push_typed(&CONST, SmallVec::new(), attrs, outs, leaf.node().site()).node)
}
