//! Regions as code for a GPU, decided without one: kernels as text, library calls, calls of the host. Each region is
//! lowered once; the regions of a wave become one launch.

use crate::claims::{claim, op};
use crate::dnn::{self, Network};
use crate::emit::kernels::{self, Operand, recurrent};
use crate::emit::{self, Arg, Kernel, gemv, horizontal, skinny_gemm};
use crate::failure_guard;
use crate::fuse_launches::{self, OwnGemm};
use crate::library::cublas::{self, Gemm};
use crate::library::cufft::{self, Transform};
use crate::library::epilogue::Epilogue;
use crate::scan::{self, ScanCode};
use crate::target::{Gpu, GpuTarget};
use ir::{Error, Graph, Layout, Meaning, Result, Slot};
use passes::{Address, Fused, Loop, MemoryPlan, Plan, Region, Step, Watch, view_of};
use std::ops::Range;

/// How a region runs.
pub enum Code {
    /// Kernels in order.
    Kernels(Vec<Kernel>),
    /// A GEMM: a, b, the result, and the bias and auxiliary tensor of its epilogue (or the scales of a and b).
    Gemm(Gemm, Box<[Operand; 5]>),
    /// A graph for cuDNN.
    Network {
        /// The graph.
        network: Network,
        /// Its operands and results.
        given: Vec<Operand>,
        /// Launches before and after it.
        around: [Vec<Kernel>; 2],
    },
    /// A Fourier transform.
    Fft {
        /// The transform.
        transform: Transform,
        /// Its operand and its result.
        operands: Box<[Operand; 2]>,
        /// Of 16-bit floats: the kernels that widen and narrow them; the transform is one of the scratch space.
        around: [Vec<Kernel>; 2],
    },
    /// A scan.
    Scan(Box<ScanCode>),
    /// The node's own rule: a reference on copies of its operands on the host, or control flow over programs of the
    /// device.
    Host {
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
    /// Kernels after the last region, which restore old values after a failure.
    pub after: Vec<Kernel>,
}

impl Lowered {
    /// Plans and lowers a graph of primitive ops and claimed composites.
    pub fn new(graph: Graph, gpu: Gpu, watch: &mut Watch) -> Result<Lowered> {
        let mut target = GpuTarget::new(gpu);
        let plan = passes::plan(graph, &mut target, watch)?;
        let missing = || Error::bug("a region without code");
        let code = target.code.into_iter().map(|c| c.ok_or_else(missing)).collect::<Result<_>>()?;
        let mut lowered = Lowered { plan, code, after: Vec::new() };
        failure_guard::guard(&mut lowered);
        Ok(lowered)
    }

    /// The first byte of an operand.
    pub fn address(&self, o: &Operand) -> Address {
        let a = self.plan.address(o.slot);
        Address { offset: a.offset + o.offset(), ..a }
    }
    /// Where a kernel's pointer points to; `None` if it does not point into a buffer.
    pub fn pointer(&self, region: usize, arg: Arg) -> Option<Address> {
        match arg {
            Arg::Value(s) => Some(self.plan.address(s)),
            Arg::Scratch(at) => Some(self.plan.scratch(region, at)),
            Arg::Report | Arg::Launch | Arg::Status => None,
        }
    }
    /// Every kernel, with the region it belongs to; those after the last have no region.
    pub fn kernels(&self) -> impl Iterator<Item = (usize, &Kernel)> {
        let after = self.after.iter().map(|k| (self.code.len(), k));
        let of_regions = self.code.iter().enumerate().flat_map(|(r, c)| {
            let lists: [&[Kernel]; 2] = match c {
                Code::Kernels(k) => [k, &[]],
                Code::Network { around: [before, behind], .. } | Code::Fft { around: [before, behind], .. } => {
                    [before, behind]
                }
                _ => [&[], &[]],
            };
            lists.into_iter().flatten().map(move |k| (r, k))
        });
        of_regions.chain(after)
    }

    /// The scans among the regions.
    fn scans(&self) -> impl Iterator<Item = (usize, &ScanCode)> {
        self.code.iter().enumerate().filter_map(|(r, c)| if let Code::Scan(s) = c { Some((r, &**s)) } else { None })
    }
    /// Bytes of working memory of the scans, which run one after the other.
    pub fn loop_bytes(&self) -> usize {
        self.scans().map(|(_, s)| s.bytes).max().unwrap_or(0)
    }
    /// Every kernel, with those of scans.
    pub fn every_kernel(&self) -> Vec<&Kernel> {
        let inner = self.scans().flat_map(|(_, s)| s.parts()).flat_map(Lowered::every_kernel);
        self.kernels().map(|(_, k)| k).chain(inner).collect()
    }
    /// Whether a kernel reports bad indices.
    pub fn reports(&self) -> bool {
        self.every_kernel().iter().any(|k| k.args.contains(&Arg::Report))
    }

    /// The source of every kernel.
    pub fn sources(&self) -> String {
        let show = |(r, k): (usize, &Kernel)| {
            format!("// region {r}: {} blocks of {} threads, {:?}\n{}\n", k.grid, k.block, k.args, k.source)
        };
        let own: String = self.kernels().map(show).collect();
        let inner = |(r, s): (usize, &ScanCode)| {
            format!(
                "// region {r}: before the scan\n{}// region {r}: an iteration\n{}",
                s.once.sources(),
                s.each.sources()
            )
        };
        own + &self.scans().map(inner).collect::<String>()
    }
    fn is_control(&self, node: usize) -> bool {
        matches!(self.plan.fused.graph.nodes[node].op.meaning, Meaning::Control(_))
    }
    /// A line for each region, and the memory.
    pub fn explain(&self) -> String {
        let own = runtime::explain(&self.plan, &|r| match (&self.plan.fused.regions[r], &self.code[r]) {
            (Region::Loop(l), Code::Kernels(k)) => format!("loop {}x{}, {} launches", l.rows(), l.columns(), k.len()),
            (_, Code::Kernels(k)) => format!("{} launches", k.len()),
            (_, Code::Gemm(..)) => "cuBLASLt".to_string(),
            (_, Code::Network { around: [before, behind], .. }) if before.len() + behind.len() > 0 => {
                format!("cuDNN with {} launches around it", before.len() + behind.len())
            }
            (_, Code::Network { .. }) => "cuDNN".to_string(),
            (_, Code::Fft { .. }) => "cuFFT".to_string(),
            (_, Code::Scan(s)) => format!("{} iterations on the device", s.iterations.length()),
            (_, Code::Host { node, .. }) if self.is_control(*node) => {
                "control flow over programs of the device".to_string()
            }
            (_, Code::Host { .. }) => "on the host".to_string(),
        });
        let inner = |(r, s): (usize, &ScanCode)| {
            let before = if s.once.code.is_empty() { String::new() } else { s.once.explain() };
            format!("region {r}, before the scan:\n{before}region {r}, each iteration:\n{}", s.each.explain())
        };
        own + &self.scans().map(inner).collect::<String>()
    }
}

/// Chooses how a call runs; `None` for a loop.
pub fn select(fused: &Fused, region: usize, gpu: Gpu) -> Result<Option<Code>> {
    let Some((node, args, outs)) = fused.call(region) else { return Ok(None) };
    let n = &fused.graph.nodes[node];
    if let Some(epilogue) = Epilogue::of(n.op.name, n.outs.len())
        && let Some(gemm) = cublas::gemm(&args[0], &args[1], &outs[0], epilogue)
    {
        return Ok(Some(gemm_code(gemm, &args, &outs)));
    }
    if gpu.has_fft
        && let Some(transform) = claim(n.op.name).and_then(|c| (c.transform)(&n.attrs, &args))
    {
        let operands = Box::new([args[0].clone(), outs[0].clone()]);
        return Ok(Some(Code::Fft { transform, around: cufft::around(&operands), operands }));
    }
    if n.op.name == op::SCAN {
        let body = scan::optimized(n.attrs.graph("body")?, gpu)?;
        if let Some(code) = recurrent::persistent(&n.attrs, &body, &args, &outs, gpu.capability.0) {
            return Ok(Some(Code::Kernels(code)));
        }
        return Ok(Some(Code::Scan(Box::new(ScanCode::new(n, &args, &outs, gpu)?))));
    }
    let own = || {
        kernels::kernels(n, &args, &outs, gpu.capability.0, [read(fused, &outs), given(fused, &args)])
            .map(Code::Kernels)
    };
    if claim(n.op.name).is_some_and(|c| c.is_kernel_first || (c.is_kernel_better)(&n.attrs, &args, &outs))
        && let Some(code) = own()
    {
        return Ok(Some(code));
    }
    if let Some(network) = dnn::network(n.op.name, &n.attrs, &args, &outs)
        && (gpu.supports)(&network)
    {
        let given = dnn::given(n.op.name, &n.attrs, &args, &outs);
        let around = dnn::around(n.op.name, &args, &outs).unwrap_or_default();
        return Ok(Some(Code::Network { network, given, around }));
    }
    // Loops compute indices without reading them.
    if claim(n.op.name).is_some_and(|c| c.is_index) && is_only_in_loops(fused, Slot::new(node, 0)) {
        return Ok(Some(Code::Kernels(Vec::new())));
    }
    match own() {
        Some(code) => Ok(Some(code)),
        None if matches!(n.op.meaning, Meaning::Kernel(_) | Meaning::Control(_)) => {
            Ok(Some(Code::Host { node, args, outs }))
        }
        None => Err(Error::bug("neither a loop nor a kernel").in_op(n.op.name).at(n.site)),
    }
}

fn gemm_code(gemm: Gemm, args: &[Operand], outs: &[Operand]) -> Code {
    let (third, second) = (args.get(2), outs.get(1));
    let is_backward = third.is_none() || gemm.epilogue().is_backward();
    let [bias, aux] = if is_backward { [second, third] } else { [third, args.get(3).or(second)] };
    let operands = [Some(&args[0]), Some(&args[1]), Some(&outs[0]), bias, aux];
    Code::Gemm(gemm, Box::new(operands.map(|o| o.unwrap_or(&outs[0]).clone())))
}

/// The results of a call that a region or the caller reads; a bit each.
fn read(fused: &Fused, outs: &[Operand]) -> u32 {
    if outs.len() < 2 {
        return 1;
    }
    let results = fused.results();
    let is_read = |s: Slot| results.contains(&s) || fused.regions.iter().any(|r| r.reads().contains(&s));
    outs.iter().enumerate().fold(0, |bits, (i, o)| bits | u32::from(is_read(o.slot)) << i)
}

/// The operands that nothing of the run computes; a bit each.
fn given(fused: &Fused, args: &[Operand]) -> u32 {
    let is_given = |o: &Operand| matches!(fused.graph.node(o.slot).op.meaning, Meaning::Input | Meaning::Const);
    args.iter().take(32).enumerate().fold(0, |bits, (i, o)| bits | u32::from(is_given(o)) << i)
}

/// True if nothing but loops reads a value.
fn is_only_in_loops(fused: &Fused, s: Slot) -> bool {
    let is_result = fused.graph.outputs.iter().any(|&o| view_of(&fused.views, o).root == s);
    let is_called = |r: &Region| matches!(r, Region::Call { args, .. } if args.iter().any(|p| p.root == s));
    !is_result && !fused.regions.iter().any(is_called)
}

/// Lowers loops and makes each wave one launch, as the code of its first region. Returns the scratch bytes of each
/// region.
pub fn lower(fused: &Fused, memory: &MemoryPlan, code: &mut [Option<Code>], major: u32) -> Result<Vec<usize>> {
    let mut l = Lowering { fused, memory, code, major, scratch: vec![0; fused.regions.len()] };
    let mut last: Option<Range<usize>> = None;
    for wave in &fused.waves {
        let launches = match fuse_launches::own_gemm(fused, wave, major) {
            Some((gemm, own)) => Some(l.gemm_launches(wave, gemm, own, last.is_some())),
            None if wave.len() > 1 => Some(fuse_launches::histogram(fused, wave).unwrap_or_else(|| l.horizontal(wave))),
            None => last.as_ref().and_then(|before| l.cached_attention(wave.start, before)),
        };
        match launches {
            Some(kernels) => {
                l.code[wave.clone()].iter_mut().for_each(|c| *c = Some(Code::Kernels(Vec::new())));
                l.code[wave.start] = Some(Code::Kernels(kernels));
            }
            None => wave.clone().for_each(|r| l.region(r)),
        }
        if l.is_launched(wave) {
            last = Some(wave.clone());
        }
    }
    Ok(l.scratch)
}

struct Lowering<'a> {
    fused: &'a Fused,
    memory: &'a MemoryPlan,
    code: &'a mut [Option<Code>],
    major: u32,
    scratch: Vec<usize>,
}

impl<'a> Lowering<'a> {
    fn a_loop(&self, r: usize) -> Option<&'a Loop> {
        if let Region::Loop(l) = &self.fused.regions[r] { Some(l) } else { None }
    }
    fn kernels(&self, r: usize) -> &[Kernel] {
        if let Some(Code::Kernels(list)) = &self.code[r] { list } else { &[] }
    }
    fn is_launched(&self, wave: &Range<usize>) -> bool {
        self.code[wave.clone()].iter().flatten().any(|c| match c {
            Code::Kernels(list) => list.iter().any(|k| !k.is_move),
            Code::Gemm(..) | Code::Network { .. } | Code::Fft { .. } | Code::Scan(_) => true,
            Code::Host { .. } => false,
        })
    }

    /// A region that is a launch of its own.
    fn region(&mut self, r: usize) {
        let graph = &self.fused.graph;
        if let Some(l) = self.a_loop(r) {
            let lowered = emit::lower(l, graph, self.is_in_place(l), self.major);
            self.scratch[r] = lowered.scratch;
            self.code[r] = Some(Code::Kernels(lowered.kernels));
        } else if let Some((node, args, _)) = self.fused.call(r) {
            self.scratch[r] = match &self.code[r] {
                Some(Code::Network { network, .. }) => network.scratch,
                Some(Code::Fft { operands, .. }) => cufft::scratch(operands),
                Some(Code::Kernels(_)) => kernels::scratch(&graph.nodes[node], &args),
                _ => 0,
            };
        }
    }

    /// A GEMM with the loops around it: the copies that come first, and the rest as one launch.
    fn gemm_launches(&mut self, wave: &Range<usize>, gemm: usize, own: OwnGemm, is_later: bool) -> Vec<Kernel> {
        let (fused, graph) = (self.fused, &self.fused.graph);
        let Some((_, args, outs)) = fused.call(gemm) else { unreachable!("a GEMM is a call") };
        let (y, behind) = (&outs[0], gemm + 1..wave.end);
        if own == OwnGemm::Gemv {
            let made = (wave.start < gemm).then_some(wave.start).and_then(|r| self.a_loop(r));
            let behind = (!behind.is_empty()).then_some(behind.start).and_then(|r| self.a_loop(r));
            return vec![gemv::lower(&gemv::Chain { graph, before: made, args: &args, y, behind, is_later })];
        }
        let extreme = (!behind.is_empty()).then(|| fuse_launches::extreme(fused, behind.clone(), y)).flatten();
        let takes = match &extreme {
            Some((y, is_least)) => skinny_gemm::Behind::Extreme { y, is_least: *is_least },
            None => skinny_gemm::Behind::Loops(fuse_launches::parts(fused, behind.clone()).expect("it was looked at")),
        };
        if extreme.is_some() {
            self.scratch[wave.start] = skinny_gemm::scratch(y);
        }
        let chain = skinny_gemm::Chain { graph, args: &args, y, behind: takes, is_later };
        let moves = behind.clone().flat_map(|r| self.kernels(r)).filter(|k| k.is_move).cloned();
        moves.chain(skinny_gemm::lower(&chain)).collect()
    }

    /// Regions that do not depend on each other: the copies that come first, and the rest as one launch.
    fn horizontal(&mut self, wave: &Range<usize>) -> Vec<Kernel> {
        let (fused, graph) = (self.fused, &self.fused.graph);
        let mut parts = Vec::new();
        let mut launches = Vec::new();
        let source = |r: usize| fuse_launches::source_of(fused, wave, r);
        let taken: Vec<usize> = wave.clone().filter_map(|r| Some(source(r)?.0)).collect();
        for r in wave.clone().filter(|r| !taken.contains(r)) {
            if let Some(l) = self.a_loop(r) {
                parts.push(horizontal::Part::of_loop(l, graph, self.is_in_place(l)));
                continue;
            }
            let (moves, rest): (Vec<&Kernel>, Vec<&Kernel>) = self.kernels(r).iter().partition(|k| k.is_move);
            launches.extend(moves.into_iter().cloned());
            match source(r).and_then(|(_, l)| self.scatter(r, l)) {
                Some(part) => parts.push(part),
                None => parts.extend(rest.into_iter().filter_map(horizontal::Part::of_kernel)),
            }
        }
        launches.push(horizontal::lower(parts));
        launches
    }

    /// A loop whose result is scattered into another value, or written to a KV cache, as it is computed.
    fn scatter(&self, region: usize, l: &Loop) -> Option<horizontal::Part> {
        let (node, args, outs) = self.fused.call(region)?;
        if self.fused.graph.nodes[node].op.name == op::PAGED_WRITE {
            return Some(horizontal::Part::of_paged_write(l, &self.fused.graph, &args[2], &outs[0]));
        }
        let axis = self.fused.graph.nodes[node].attrs.size("axis").ok()?;
        Some(horizontal::Part::of_put(l, &self.fused.graph, &args, &outs[0], axis))
    }

    /// The launch of an attention over a KV cache that was just updated, if the cache's index and the mask were known
    /// before the last launch, which is that of the wave `before`.
    fn cached_attention(&self, r: usize, before: &Range<usize>) -> Option<Vec<Kernel>> {
        let regions = &self.fused.regions;
        let (node, args, outs) = self.fused.call(r)?;
        let n = &self.fused.graph.nodes[node];
        if !claim(n.op.name).is_some_and(|c| c.is_kernel_first) || !matches!(self.code[r], Some(Code::Kernels(_))) {
            return None;
        }
        let (index, same) = (self.scatter_index(&args[1])?, self.scatter_index(&args[2])?);
        let is_made = |s: Slot| (before.start..r).any(|b| regions[b].writes().contains(&s));
        let [batch, kept, _, width] = *args[1].layout.shape.dims() else { return None };
        let is_one = index.slot == same.slot && index.ty.shape.dims() == [batch, kept, 1, width];
        if !is_one || is_made(index.slot) || args[3..].iter().any(|m| is_made(m.slot)) {
            return None;
        }
        let call = kernels::Call {
            attrs: &n.attrs,
            args: &args,
            outs: &outs,
            major: self.major,
            put: Some(&index),
            read: 1,
            given: 0,
        };
        kernels::attention::attention(&call)
    }

    /// The index of the scatter along the third axis that computed a value.
    fn scatter_index(&self, o: &Operand) -> Option<Operand> {
        let region = self.fused.regions.iter().position(|r| r.writes().contains(&o.slot))?;
        let (node, mut args, _) = self.fused.call(region)?;
        let n = &self.fused.graph.nodes[node];
        if n.op.name != op::SCATTER || n.attrs.size("axis") != Ok(2) {
            return None;
        }
        let index = args.swap_remove(1);
        let is_whole = |l: &Layout| l.is_contiguous() && l.offset == 0;
        (is_whole(&o.layout) && is_whole(&index.layout)).then_some(index)
    }

    /// True if a loop's result is stored, or may be stored, in the memory of one of its operands.
    fn is_in_place(&self, l: &Loop) -> bool {
        let load = |s: &Step| if let Step::Load { root, .. } = s { Some(*root) } else { None };
        let loads: Vec<Slot> = l.steps.iter().filter_map(load).collect();
        l.stores.iter().any(|s| loads.iter().any(|&root| self.memory.shares(s.slot, root)))
    }
}
