//! Regions as code for a WebGPU device, decided without one: kernels as text, or the host.

use crate::claims::{Call, claim};
use crate::host::{self, HostGraph};
use crate::kernel::{Arg, Kernel};
use crate::kernels::is_small;
use crate::loops;
use ir::{Error, FlatNode, Graph, Layout, Meaning, Result, Type};
use passes::{Address, Fused, MemoryPlan, Operand, Plan, Region, Target, View, Watch};

/// How a region runs.
pub enum Code {
    /// Kernels in order.
    Kernels(Vec<Kernel>),
    /// On the host, by the CPU device.
    Host(Box<HostGraph>),
    /// Control flow by the op's own rule over programs of the device.
    Control {
        /// The node.
        node: usize,
        /// Its operands.
        args: Vec<Operand>,
        /// Its results.
        outs: Vec<Operand>,
    },
}

/// A planned graph with the code of its regions.
pub struct Lowered {
    /// Regions and memory.
    pub plan: Plan,
    /// By region.
    pub code: Vec<Code>,
}

impl Lowered {
    /// Plans and lowers a graph of primitive ops and claimed composites.
    pub fn new(graph: Graph, watch: &mut Watch) -> Result<Lowered> {
        let mut target = WebTarget { code: Vec::new() };
        let plan = passes::plan(graph, &mut target, watch)?;
        let code = target.code.into_iter().map(|(c, _)| c).collect();
        Ok(Lowered { plan, code })
    }
    /// Where a parameter of a region's kernel lies.
    pub fn address(&self, region: usize, arg: Arg) -> Address {
        match arg {
            Arg::Value(s) => self.plan.address(s),
            Arg::Scratch(at) => self.plan.scratch(region, at),
        }
    }
    /// The source of a kernel of a region.
    pub fn source(&self, region: usize, k: &Kernel) -> String {
        k.source(&|arg| self.address(region, arg).base)
    }
    /// The source of every kernel.
    pub fn sources(&self) -> String {
        let mut s = String::new();
        for (r, code) in self.code.iter().enumerate() {
            if let Code::Kernels(list) = code {
                for k in list {
                    s += &format!("// region {r}: {} workgroups\n{}\n", k.groups, self.source(r, k));
                }
            }
        }
        s
    }
    /// A line for each region, and the memory.
    pub fn explain(&self) -> String {
        runtime::explain(&self.plan, &|r| match (&self.plan.fused.regions[r], &self.code[r]) {
            (Region::Loop(l), Code::Kernels(k)) => format!("loop {}x{}, {} launches", l.rows(), l.columns(), k.len()),
            (_, Code::Kernels(k)) => format!("{} launches", k.len()),
            (_, Code::Host(_)) => "on the host".to_string(),
            (_, Code::Control { .. }) => "control flow over programs of the device".to_string(),
        })
    }
}

/// Whether a composite runs as one.
pub fn claims(n: &FlatNode, types: &[Type]) -> bool {
    claim(n.op.name).is_some_and(|c| (c.is_whole)(n, types))
}

/// A WebGPU device as a target of one compilation.
struct WebTarget {
    /// The code of each region and its scratch bytes.
    code: Vec<(Code, usize)>,
}

/// Rows up to this length may be reduced inside a kernel whose later steps use the result.
const ROW_MAX: usize = 1 << 16;

impl Target for WebTarget {
    fn row_max(&self, _: usize) -> usize {
        ROW_MAX
    }
    fn share_min(&self) -> usize {
        1 << 18
    }
    fn accepts(&self, n: &FlatNode, i: usize, l: &Layout) -> bool {
        match claim(n.op.name) {
            Some(c) if n.outs.iter().all(|t| crate::element::Class::of(t.dtype).is_some()) => (c.accepts)(n, i, l),
            _ => l.is_contiguous() && l.offset == 0,
        }
    }
    fn flops(&self, n: &FlatNode, args: &[View]) -> usize {
        claim(n.op.name).map_or_else(|| n.outs[0].shape.count(), |c| (c.flops)(n, args))
    }
    fn may_fail(&self, _: &Fused, region: usize) -> bool {
        !matches!(self.code[region].0, Code::Kernels(_))
    }
    fn select(&mut self, fused: &Fused) -> Result<()> {
        self.code = (0..fused.regions.len()).map(|r| select(fused, r)).collect::<Result<_>>()?;
        Ok(())
    }
    /// WebGPU forbids a launch that reads and writes one buffer through two bindings.
    fn restrict_donors(&self, _: &Fused, memory: &mut MemoryPlan) {
        memory.buffers.iter_mut().for_each(|b| b.donor = None);
    }
    fn lower(&mut self, _: &Fused, _: &MemoryPlan) -> Result<Vec<usize>> {
        Ok(self.code.iter().map(|(_, scratch)| *scratch).collect())
    }
}

/// Chooses how a region runs.
fn select(fused: &Fused, region: usize) -> Result<(Code, usize)> {
    let r = &fused.regions[region];
    if let Region::Loop(l) = r
        && let Some((kernels, scratch)) = loops::lower(l, &fused.graph)
    {
        return Ok((Code::Kernels(kernels), scratch));
    }
    if let Some((node, args, outs)) = fused.call(region) {
        let n = &fused.graph.nodes[node];
        if matches!(n.op.meaning, Meaning::Control(_)) {
            return Ok((Code::Control { node, args, outs }, 0));
        }
        let call = Call { attrs: &n.attrs, args: &args, outs: &outs };
        let is_fit = args.iter().chain(&outs).all(is_small);
        if let Some((kernels, scratch)) = claim(n.op.name).filter(|_| is_fit).and_then(|c| (c.kernels)(&call)) {
            return Ok((Code::Kernels(kernels), scratch));
        }
    }
    match host::graph_of(fused, r)? {
        Some(graph) => Ok((Code::Host(Box::new(graph)), 0)),
        None => {
            let n = &fused.graph.nodes[r.nodes()[0] as usize];
            Err(Error::bug("a region that neither the device nor the host can run").in_op(n.op.name).at(n.site))
        }
    }
}
