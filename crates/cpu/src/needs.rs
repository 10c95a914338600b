//! What a program made for one plan must link, by the names of [`ir::is_linked`].

use crate::program::Compiled;
use crate::tile::{has_vector_loop, texts};
use ir::{DType, Error, FlatNode, Meaning, Out, Result, Slot};
use passes::{Plan, Region, Step};
use std::collections::BTreeSet;

/// The names that a program made for this plan alone must link: element types, ops with a kernel and texts of loops.
/// Fails with the list of all ops that only the slow reference can run.
pub fn needs(program: &Compiled) -> Result<BTreeSet<String>> {
    let plan = program.plan();
    let graph = &plan.fused.graph;
    let mut found = Needs::default();
    // A kernel need not write an unread result, such as the places of max pooling.
    let (read, mut unread) = (plan.read(), BTreeSet::new());
    for region in &plan.fused.regions {
        if let Region::Call { node, .. } = region {
            unread.extend((0..graph.nodes[*node].outs.len()).map(|o| Slot::new(*node, o)));
        }
    }
    for (i, n) in graph.nodes.iter().enumerate() {
        let is_there = |o: usize| !unread.contains(&Slot::new(i, o)) || read.contains(&Slot::new(i, o));
        (0..n.outs.len()).filter(|&o| is_there(o)).for_each(|o| found.dtype(n.outs[o].dtype));
    }
    for region in &plan.fused.regions {
        match region {
            Region::Call { node, .. } => found.name(graph.nodes[*node].op.name),
            Region::Loop(l) => {
                l.producer.iter().for_each(|p| found.name(graph.nodes[p.node].op.name));
                l.steps.iter().for_each(|s| found.step(s, plan));
            }
        }
    }
    program.links().into_iter().for_each(|name| found.name(name));
    let slow = program.slow_regions()?;
    let calls = slow.iter().filter_map(|&r| plan.fused.call(r)).map(|(node, ..)| describe(&graph.nodes[node]));
    let mut slow: Vec<String> = calls.chain(found.slow).collect();
    slow.dedup();
    if slow.is_empty() {
        return Ok(found.names);
    }
    Err(Error::value(format!("the CPU has no kernel, but a slow reference, for {}", slow.join(", "))))
}

fn describe(n: &FlatNode) -> String {
    let outs: Vec<String> = n.outs.iter().map(|t| t.to_string()).collect();
    format!("{} → {}", n.op.name, outs.join(", "))
}

#[derive(Default)]
struct Needs {
    names: BTreeSet<String>,
    /// Elementwise ops without a loop.
    slow: Vec<String>,
}

impl Needs {
    fn name(&mut self, name: &str) {
        self.names.insert(name.to_string());
    }
    fn dtype(&mut self, d: DType) {
        self.name(d.name());
        // What values of the type are computed in.
        match d {
            DType::Bool => self.name("u8"),
            _ if d.is_float() && d.size() < 4 => self.name("f32"),
            _ => {}
        }
    }
    fn step(&mut self, step: &Step, plan: &Plan) {
        let graph = &plan.fused.graph;
        match step {
            Step::Load { .. } | Step::Reduce { .. } => {}
            Step::Const(c) => self.dtype(c.dtype()),
            Step::Scalar { node, .. } => {
                let n = &graph.nodes[*node as usize];
                let Meaning::Scalar(s) = n.op.meaning else { return };
                texts(s.code).iter().for_each(|t| self.name(t));
                let Some(given) = n.inputs.last().map(|&i| graph.ty(i).dtype) else { return };
                // Functions of integers are computed in `f64`, those of bool as integers.
                match given {
                    DType::Bool => self.name("i32"),
                    _ if s.out == Out::Float && given != DType::F32 => self.name("f64"),
                    _ => {}
                }
                if !has_vector_loop(&s, given) {
                    self.slow.push(describe(n));
                }
            }
        }
    }
}
