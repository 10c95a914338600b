//! What the planner asks of a GPU, and its own stages.

use crate::claims::claim;
use crate::dnn::{self, Network};
use crate::draw_in_loops::draw_in_loops;
use crate::emit::kernels::attention;
use crate::emit::{self, Arg};
use crate::failure_guard;
use crate::fuse_launches::fuse_launches;
use crate::launch_order::launch_order;
use crate::library::cublas::{self, Gemm, gemm_flops};
use crate::library::epilogue::Epilogue;
use crate::lower::{Code, lower, select};
use crate::rewrite::attention_layout::{heads_last, join_gradients};
use crate::rewrite::fp8::{self, transpose_operands};
use crate::rewrite::fuse_bias::fuse_bias;
use crate::rewrite::fuse_epilogue::{self, decompose_activations};
use crate::rewrite::fuse_fft::fuse_fft;
use crate::rewrite::join_pads::join_pads;
use crate::rewrite::nhwc::nhwc;
use crate::rewrite::pooling::pool_gradients;
use ir::{FlatNode, Layout, Result, Slot, Type};
use passes::{Fused, MemoryPlan, Stage, Target, View, rematerialize};

/// Whether cuDNN is present and has an engine for a network.
pub type Supports<'a> = &'a dyn Fn(&Network) -> bool;

/// Whether a GEMM with its epilogue is faster than with a loop after it.
pub type IsFaster<'a> = &'a dyn Fn(&Gemm) -> bool;

/// The GPU and its libraries, as far as a plan depends on them.
#[derive(Clone, Copy)]
pub struct Gpu<'a> {
    /// Its compute capability.
    pub capability: (u32, u32),
    /// What cuDNN supports.
    pub supports: Supports<'a>,
    /// Which epilogues pay.
    pub is_faster: IsFaster<'a>,
    /// Whether cuFFT is present.
    pub has_fft: bool,
}

/// Whether a composite runs as one on a GPU of this compute capability.
pub fn claims(n: &FlatNode, types: &[Type], capability: (u32, u32), supports: Supports) -> bool {
    claim(n.op.name).is_some_and(|c| (c.is_whole)(n, types))
        || attention::claims(n, types, capability.0)
        || fuse_epilogue::claims(n, types)
        || fp8::claims(n, types, capability)
        || (dnn::claims(n.op.name, types) && dnn::whole(n, types).is_some_and(|network| supports(&network)))
}

/// A GPU as a target of one compilation.
pub struct GpuTarget<'a> {
    gpu: Gpu<'a>,
    /// The code of each region; loops have none before memory is planned.
    pub code: Vec<Option<Code>>,
}

impl<'a> GpuTarget<'a> {
    /// For a GPU.
    pub fn new(gpu: Gpu<'a>) -> GpuTarget<'a> {
        GpuTarget { gpu, code: Vec::new() }
    }
}

impl Target for GpuTarget<'_> {
    fn graph_stages(&self) -> Vec<Stage<'_>> {
        let Gpu { supports, is_faster, has_fft, .. } = self.gpu;
        vec![
            Stage::graph_if("join_pads", join_pads),
            Stage::graph_if("fuse_fft", move |g| if has_fft { fuse_fft(g) } else { Ok(None) }),
            Stage::graph_if("transpose_fp8", transpose_operands),
            Stage::graph_if("fuse_bias", fuse_bias),
            Stage::graph_if("fuse_epilogue", move |g| fuse_epilogue::fuse_epilogue(g, is_faster)),
            Stage::graph_if("decompose_activations", decompose_activations),
            Stage::graph_if("heads_last", heads_last),
            Stage::graph_if("join_gradients", move |g| join_gradients(g, supports)),
            Stage::graph_if("nhwc", move |g| nhwc(g, supports)),
            Stage::graph_if("pool_gradients", pool_gradients),
        ]
    }
    fn region_stages(&self) -> Vec<Stage<'_>> {
        vec![
            Stage::regions("rematerialize", rematerialize),
            Stage::regions("launch_order", launch_order),
            Stage::regions("fuse_launches", |f| fuse_launches(f, self.gpu.capability.0)),
            Stage::regions("draw_in_loops", |f| draw_in_loops(f, self.gpu.capability.0)),
        ]
    }
    fn row_max(&self, rows: usize) -> usize {
        emit::row_max(rows)
    }
    fn share_min(&self) -> usize {
        emit::SHARE_MIN
    }
    fn accepts(&self, n: &FlatNode, i: usize, l: &Layout) -> bool {
        // fp8 operands are transposed into the layout that cuBLASLt wants.
        let is_gemm = || Epilogue::of(n.op.name, n.outs.len()).is_some_and(|e| e != Epilogue::Scales);
        match claim(n.op.name) {
            Some(c) => (c.accepts)(n, i, l),
            None => is_gemm() && i < 2 && cublas::accepts(l, &n.outs[0].shape),
        }
    }
    /// Kernels that begin with a copy of an operand, which is left out where both have the same memory.
    fn overwrites(&self, n: &FlatNode) -> Option<usize> {
        claim(n.op.name).and_then(|c| c.in_place)
    }
    fn flops(&self, n: &FlatNode, args: &[View]) -> usize {
        match claim(n.op.name) {
            Some(c) => (c.flops)(n, args),
            None if Epilogue::of(n.op.name, n.outs.len()).is_some() => gemm_flops(n, args),
            None => n.outs[0].shape.count(),
        }
    }
    /// A call of the host may fail. Kernels report bad indices later, see [`failure_guard`].
    fn may_fail(&self, _: &Fused, region: usize) -> bool {
        match &self.code[region] {
            Some(Code::Host { .. }) => true,
            Some(Code::Scan(s)) => s.leaves_device(),
            _ => false,
        }
    }

    fn select(&mut self, fused: &Fused) -> Result<()> {
        self.code = (0..fused.regions.len()).map(|r| select(fused, r, self.gpu)).collect::<Result<_>>()?;
        Ok(())
    }
    fn restrict_donors(&self, fused: &Fused, memory: &mut MemoryPlan) {
        let reports = |c: &Option<Code>| match c {
            Some(Code::Kernels(list)) => list.iter().any(|k| k.args.contains(&Arg::Report)),
            Some(Code::Scan(s)) => s.parts().iter().any(|l| l.reports()),
            _ => false,
        };
        failure_guard::defer(fused, &self.code.iter().map(reports).collect::<Vec<_>>(), memory);
        // A scan writes its results by copies too, which no status holds back.
        let is_scan = |r: usize| matches!(self.code[r], Some(Code::Scan(_)));
        let scanned = |s: Slot| (0..fused.regions.len()).any(|r| is_scan(r) && fused.regions[r].writes().contains(&s));
        memory.buffers.iter_mut().filter(|b| scanned(b.slot)).for_each(|b| b.donor = None);
    }
    fn lower(&mut self, fused: &Fused, memory: &MemoryPlan) -> Result<Vec<usize>> {
        lower(fused, memory, &mut self.code, self.gpu.capability.0)
    }
}
