//! `scan` on the device. An iteration is a program of its own, compiled once. All iterations are put on the stream one
//! after the other; nothing is read back, so a captured run holds them too.

use crate::emit::kernels::Operand;
use crate::lower::{Code, Lowered};
use crate::target::{Gpu, claims};
use ir::{FlatNode, Graph, Result, Type};
use passes::{ALIGN, Iterations, LoopMemory, Source, Watch};
use runtime::reference;
use std::sync::Arc;

/// A lowered scan.
pub struct ScanCode {
    /// What is the same in every iteration.
    pub once: Arc<Lowered>,
    /// An iteration.
    pub each: Arc<Lowered>,
    /// Where the iterations read and write.
    pub iterations: Iterations,
    /// The scan's operands.
    pub args: Vec<Operand>,
    /// Its results.
    pub outs: Vec<Operand>,
    /// Of operands that are not aligned: where they are copied to.
    pub staged: Vec<Option<usize>>,
    /// Where the results of `once` lie in the loop's memory.
    pub once_at: Vec<usize>,
    /// Where the arenas of `once` and `each` lie.
    pub arenas_at: [usize; 2],
    /// Where the memory of the scans inside lies.
    pub inner_at: usize,
    /// Bytes of the loop's memory.
    pub bytes: usize,
}

impl ScanCode {
    /// Lowers a scan.
    pub fn new(n: &FlatNode, args: &[Operand], outs: &[Operand], gpu: Gpu) -> Result<ScanCode> {
        let fixed = n.attrs.size("carried")? + n.attrs.size("rows")?;
        let body = optimized(n.attrs.graph("body")?, gpu)?;
        let same: Vec<bool> = (0..args.len()).map(|i| i >= fixed).collect();
        let split = passes::hoist_invariants(&body, &same);
        let lowered = |g: Graph| Lowered::new(g, gpu, &mut Watch::none()).map(Arc::new);
        let (once, each) = (lowered(split.once)?, lowered(split.each)?);
        let mut memory = LoopMemory::default();
        let buffers = |l: &Lowered| l.plan.memory.buffers.iter().map(|b| b.bytes).collect::<Vec<usize>>();
        let once_at = buffers(&once).into_iter().map(|bytes| memory.reserve(bytes)).collect();
        let types = [args, outs].map(|list| list.iter().map(|o| o.ty.clone()).collect::<Vec<Type>>());
        let sources: Vec<Source> = each.plan.results.iter().map(|(s, _)| *s).collect();
        let inputs = args.len() + once.plan.results.len();
        let types = [&types[0][..], &types[1][..]];
        let iterations = Iterations::new(&n.attrs, types, inputs, sources, &buffers(&each), ALIGN, &mut memory)?;
        let is_aligned = |o: &Operand| o.offset().is_multiple_of(ALIGN);
        let staged = args.iter().map(|o| (!is_aligned(o)).then(|| memory.reserve(o.ty.bytes()))).collect();
        let arenas_at = [&once, &each].map(|l| memory.reserve(l.plan.memory.arena_bytes));
        let inner_at = memory.reserve(once.loop_bytes().max(each.loop_bytes()));
        let (args, outs) = (args.to_vec(), outs.to_vec());
        Ok(ScanCode { once, each, iterations, args, outs, staged, once_at, arenas_at, inner_at, bytes: memory.bytes })
    }
    /// Its programs.
    pub fn parts(&self) -> [&Lowered; 2] {
        [&self.once, &self.each]
    }
    /// Whether it calls the host.
    pub fn leaves_device(&self) -> bool {
        self.parts().iter().any(|l| {
            l.code.iter().any(|c| match c {
                Code::Host { .. } => true,
                Code::Scan(s) => s.leaves_device(),
                _ => false,
            })
        })
    }
}

/// A sub-graph after every pass.
pub fn optimized(g: &Graph, gpu: Gpu) -> Result<Graph> {
    passes::optimize(g, &|n, t| claims(n, t, gpu.capability, gpu.supports), &reference::run_node)
}
