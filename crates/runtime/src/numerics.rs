//! NaN hunting: a program that looks at every value in order and names the first bad one.

use crate::Program;
use ir::{Buffer, Error, ErrorKind, Graph, Meaning, Result, Site, Slot};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

static CHECK: AtomicBool = AtomicBool::new(false);

/// Whether every computed float is checked for NaN and infinity. Programs compiled while it is on
/// are slower: they keep and read every value. Returns whether it was on before.
pub fn check_numerics(on: bool) -> bool {
    CHECK.swap(on, Ordering::Relaxed)
}
/// True while checking is on.
pub(crate) fn is_checking() -> bool {
    CHECK.load(Ordering::Relaxed)
}

/// A graph as the user wrote it, with every float value among the results.
pub(crate) struct Checked {
    program: Arc<dyn Program>,
    outputs: usize,
    checked: Vec<(&'static str, Site)>,
}

impl Checked {
    /// Compiles it as usual.
    pub fn new(graph: &Graph, compile: impl Fn(&Graph) -> Result<Arc<dyn Program>>) -> Result<Checked> {
        let mut wide = graph.clone();
        let mut checked = Vec::new();
        for (i, n) in graph.nodes.iter().enumerate() {
            // A constant infinity is meant, as in a mask; so is a view of one.
            if matches!(n.op.meaning, Meaning::Input | Meaning::Const | Meaning::View(_)) {
                continue;
            }
            for (o, _) in n.outs.iter().enumerate().filter(|(_, t)| t.dtype.is_float()) {
                wide.outputs.push(Slot::new(i, o));
                checked.push((n.op.name, n.site));
            }
        }
        let program = compile(&wide)?;
        Ok(Checked { program, outputs: graph.outputs.len(), checked })
    }
}

impl Program for Checked {
    fn run(&self, inputs: &mut [Buffer]) -> Result<Vec<Buffer>> {
        // On copies: it may still fail when the program has run.
        let mut results = self.program.run(&mut inputs.to_vec())?;
        for (b, (op, site)) in results.drain(self.outputs..).zip(&self.checked) {
            if let Some(bad) = b.read()?.to_f64().into_iter().find(|x| !x.is_finite()) {
                let e = format!("the first value that is not finite is {bad}");
                return Err(Error::new(ErrorKind::Numerics, e).in_op(op).at(*site));
            }
        }
        Ok(results)
    }
    fn explain(&self) -> String {
        self.program.explain()
    }
}
