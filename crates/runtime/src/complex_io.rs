//! The rim of a program without complex types: complex values go in and come out as pairs.

use crate::Program;
use ir::{Buffer, Graph, Literal, Result, Type};
use std::sync::Arc;

/// A program whose graph had complex inputs or outputs before it was compiled.
struct Paired {
    program: Arc<dyn Program>,
    /// The complex types among the inputs, by number.
    inputs: Vec<(usize, Type)>,
    /// The complex types among the outputs, by number.
    outputs: Vec<(usize, Type)>,
}

/// The program of a graph as the graph states its types.
pub(crate) fn around(graph: &Graph, program: Arc<dyn Program>) -> Arc<dyn Program> {
    let complex = |types: &mut dyn Iterator<Item = &Type>| -> Vec<(usize, Type)> {
        types.enumerate().filter(|(_, t)| t.dtype.is_complex()).map(|(i, t)| (i, t.clone())).collect()
    };
    let inputs = complex(&mut graph.inputs.iter().map(|&i| &graph.nodes[i as usize].outs[0]));
    let outputs = complex(&mut graph.outputs.iter().map(|&s| graph.ty(s)));
    if inputs.is_empty() && outputs.is_empty() {
        return program;
    }
    Arc::new(Paired { program, inputs, outputs })
}

/// Sees a value as another type; what was taken out of the list stays out.
fn retype(b: &mut Buffer, from: &Type, to: &Type) {
    let is_there = !matches!(&*b, Buffer::Host(l) if l.dtype() != from.dtype || *l.shape() != from.shape);
    if is_there {
        // Taken, so that the memory is not shared meanwhile.
        *b = std::mem::replace(b, Buffer::Host(Literal::nothing())).retyped(to);
    }
}

impl Program for Paired {
    fn run(&self, inputs: &mut [Buffer]) -> Result<Vec<Buffer>> {
        self.inputs.iter().for_each(|(i, t)| retype(&mut inputs[*i], t, &t.paired()));
        let done = self.program.run(inputs);
        self.inputs.iter().for_each(|(i, t)| retype(&mut inputs[*i], &t.paired(), t));
        let mut results = done?;
        self.outputs.iter().for_each(|(i, t)| retype(&mut results[*i], &t.paired(), t));
        Ok(results)
    }
    fn explain(&self) -> String {
        self.program.explain()
    }
    fn may_fail(&self) -> bool {
        self.program.may_fail()
    }
    fn work(&self) -> Option<crate::Work> {
        self.program.work()
    }
}
