//! A graph as work for a GPU, decided without one: kernels as text, products, calls of the host,
//! and where everything lies.

use crate::dnn::{self, Network};
use crate::emit::kernels::{self, Operand};
use crate::emit::{self, Arg, Kernel, gemv, horizontal, skinny_gemm};
use crate::failure_guard;
use crate::fuse_launches::{self, OwnGemm, fuse_launches};
use crate::launch_order::launch_order;
use crate::library::cublas::{self, Gemm};
use crate::library::epilogue::Epilogue;
use crate::rewrite::attention_layout::{heads_last, join_gradients};
use crate::rewrite::fp8::transpose_operands;
use crate::rewrite::fuse_bias::fuse_bias;
use crate::rewrite::fuse_epilogue::fuse_epilogue;
use crate::rewrite::nhwc::nhwc;
use ir::{Error, FlatNode, Graph, Layout, Literal, Meaning, Result, Slot, Type};
use passes::{
    Fused, Location, Loop, MemoryPlan, Region, Step, Target, View, fuse, plan_memory, rematerialize, view_of,
};
use std::ops::Range;

/// A byte of one of a run's blocks: inputs, results, constants and the arena, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// Which block.
    pub base: usize,
    /// Bytes from its start.
    pub offset: usize,
}

/// How a region runs.
pub enum Work {
    /// Kernels one after the other.
    Kernels(Vec<Kernel>),
    /// A matrix product; places of a, b, the result, what is added, and what an activation is
    /// taken of; or the scales of a and b in place of these two.
    Gemm(Gemm, [Spot; 5]),
    /// A graph for cuDNN.
    Network {
        /// The graph.
        network: Network,
        /// Views of operands and results.
        given: Vec<Spot>,
        /// Of its scratch space.
        scratch: Spot,
        /// Launches before it and behind it.
        around: [Vec<Kernel>; 2],
    },
    /// The node's own rule, on the host.
    Host {
        /// The node.
        node: usize,
        /// Its operands.
        args: Vec<(Spot, Type)>,
        /// Its results.
        outs: Vec<(Spot, Type)>,
    },
}

/// Where a result of the graph comes from.
pub enum Answer {
    /// An input.
    Input(usize),
    /// A constant, by its number.
    Const(usize),
    /// A value without elements.
    Empty,
    /// A result buffer.
    Result(usize),
}

/// A planned graph.
pub struct Plan {
    /// The graph cut into regions.
    pub fused: Fused,
    /// Where values lie.
    pub memory: MemoryPlan,
    /// What each region does.
    pub work: Vec<Work>,
    /// Types of the inputs.
    pub inputs: Vec<Type>,
    /// Constants that are read from memory, with their nodes.
    pub consts: Vec<(usize, Literal)>,
    /// The results.
    pub answers: Vec<(Answer, Type)>,
    /// Kernels behind the last region: what brings old values back after a failure.
    pub after: Vec<Kernel>,
}

fn accepts(n: &FlatNode, i: usize, l: &Layout) -> bool {
    let out = &n.outs[0];
    match n.op.name {
        "matmul" => !cublas::has(out.dtype) || cublas::accepts(l, &out.shape),
        // What is multiplied with scales is brought into the form the library wants.
        "scaled_product" => false,
        name if Epilogue::of(name, n.outs.len()).is_some() => i < 2 && cublas::accepts(l, &out.shape),
        // Logarithms of sums lie one after the other, and so does what comes behind the rest.
        "attention" | "attention_turned" => i < 3 && dnn::accepts(l, out.dtype.size()),
        "attention_grad" | "attention_grad_turned" | "attention_grad_joined" => {
            i < 6 && i != 4 && dnn::accepts(l, out.dtype.size())
        }
        "concat" => l.strides.iter().all(|&s| s >= 0),
        _ => false,
    }
}

/// Kernels that begin with a copy of an operand, which they leave out where it lies there already.
fn overwrites(n: &FlatNode) -> Option<usize> {
    matches!(n.op.name, "scatter" | "scatter_add" | "index_add").then_some(0)
}

/// The operands and results of a node.
pub(crate) fn operands(graph: &Graph, node: usize, args: &[View]) -> (Vec<Operand>, Vec<Operand>) {
    let arg = |p: &View| Operand {
        slot: p.root,
        ty: Type::new(graph.ty(p.root).dtype, p.layout.shape.clone()),
        layout: p.layout.clone(),
    };
    let out = |(o, ty): (usize, &Type)| Operand {
        slot: Slot::new(node, o),
        layout: Layout::contiguous(&ty.shape),
        ty: ty.clone(),
    };
    (args.iter().map(arg).collect(), graph.nodes[node].outs.iter().enumerate().map(out).collect())
}

/// Whether cuDNN is there and has a way to compute a network.
pub type Supports<'a> = &'a dyn Fn(&Network) -> bool;

/// Whether a GEMM with its epilogue is faster than with a loop after it.
pub type IsFaster<'a> = &'a dyn Fn(&Gemm) -> bool;

/// What a plan has to know of the GPU.
#[derive(Clone, Copy)]
pub struct Chip<'a> {
    /// The first number of its compute capability.
    pub major: u32,
    /// What its libraries can compute.
    pub has: Supports<'a>,
    /// What of it is faster.
    pub wins: IsFaster<'a>,
}

/// How a call runs, before it is known where everything lies.
enum Way {
    Gemm(Gemm),
    Network(Network),
    Kernels(Vec<Kernel>),
    Host,
}

fn way(n: &FlatNode, args: &[Operand], outs: &[Operand], chip: Chip) -> Way {
    if let Some(epilogue) = Epilogue::of(n.op.name, n.outs.len())
        && let Some(p) = cublas::gemm(&args[0], &args[1], &outs[0], epilogue)
    {
        return Way::Gemm(p);
    }
    // One query needs no library.
    if matches!(n.op.name, "attention" | "attention_turned")
        && let Some(kernels) = kernels::kernels(n, args, outs, chip.major)
    {
        return Way::Kernels(kernels);
    }
    if let Some(network) = dnn::network(n.op.name, &n.attrs, args, outs)
        && (chip.has)(&network)
    {
        return Way::Network(network);
    }
    kernels::kernels(n, args, outs, chip.major).map_or(Way::Host, Way::Kernels)
}

/// What a region needs and does, before it is known where everything lies.
struct Needs {
    /// Bytes of scratch space.
    scratch: usize,
    is_host: bool,
    /// It reports bad indices.
    reports: bool,
}

fn needs(fused: &Fused, chip: Chip) -> Vec<Needs> {
    let on_device = |scratch: usize| Needs { scratch, is_host: false, reports: false };
    let of = |r: &Region| match r {
        Region::Loop(l) => on_device(emit::lower(l, &fused.graph, true, chip.major).scratch),
        Region::Call { node, args, .. } => {
            let n = &fused.graph.nodes[*node];
            let (args, outs) = operands(&fused.graph, *node, args);
            match way(n, &args, &outs, chip) {
                Way::Network(network) => on_device(network.scratch),
                Way::Kernels(list) => {
                    let reports = list.iter().any(|k| k.args.contains(&Arg::Report));
                    Needs { reports, ..on_device(kernels::scratch(n, &args)) }
                }
                Way::Gemm(_) => on_device(0),
                Way::Host => Needs { is_host: true, ..on_device(0) },
            }
        }
    };
    let mut needs: Vec<Needs> = fused.regions.iter().map(of).collect();
    // What a product leaves for the search for its extremes.
    for wave in &fused.waves {
        if let Some((product, OwnGemm::Skinny)) = fuse_launches::own_gemm(fused, wave, chip.major)
            && let Region::Call { node, args, .. } = &fused.regions[product]
            && product + 1 < wave.end
        {
            let (_, outs) = operands(&fused.graph, *node, args);
            let is_searched = fuse_launches::extreme(fused, product + 1..wave.end, &outs[0]).is_some();
            needs[wave.start].scratch += if is_searched { skinny_gemm::scratch(&outs[0]) } else { 0 };
        }
    }
    needs
}

impl Plan {
    /// Plans a graph of primitive ops and claimed composites.
    pub fn new(graph: &Graph, chip: Chip) -> Result<Plan> {
        let has = chip.has;
        let graph = fuse_epilogue(&fuse_bias(&transpose_operands(graph)?)?, chip.wins)?;
        let graph = join_gradients(&heads_last(&graph)?, has)?;
        let graph = nhwc(&graph, has)?;
        let target =
            Target { row_max: &emit::row_max, share_min: emit::SHARE_MIN, accepts: &accepts, barriers: &|_| false };
        let fused = fuse(&graph, &target)?;
        let fused = fuse_launches(launch_order(rematerialize(fused)), chip.major);
        let needs = needs(&fused, chip);
        let scratch: Vec<usize> = needs.iter().map(|n| n.scratch).collect();
        // What runs on the host may fail; nothing is overwritten before the last of it is done.
        let commit = needs.iter().rposition(|n| n.is_host).map_or(0, |r| r + 1);
        let mut memory = plan_memory(&fused, &scratch, commit, &overwrites);
        debug_assert_eq!(passes::check_memory_plan(&fused, &memory, &scratch, &overwrites), Ok(()));
        failure_guard::defer(&fused, &needs.iter().map(|n| n.reports).collect::<Vec<_>>(), &mut memory);
        let graph = &fused.graph;
        let nodes = graph.nodes.iter().enumerate().filter(|(_, n)| matches!(n.op.meaning, Meaning::Const));
        let consts = nodes.filter_map(|(i, n)| n.attrs.literal("value").ok().map(|c| (i, c.clone()))).collect();
        let inputs = graph.inputs.iter().map(|&i| graph.nodes[i as usize].outs[0].clone()).collect();
        let mut plan = Plan { memory, work: Vec::new(), inputs, consts, answers: Vec::new(), after: Vec::new(), fused };
        for r in 0..plan.fused.regions.len() {
            let work = plan.work_of(r, chip)?;
            plan.work.push(work);
        }
        plan.merge_launches(chip.major);
        failure_guard::guard(&mut plan);
        plan.answers = plan.fused.graph.outputs.iter().map(|&s| plan.answer(s)).collect();
        Ok(plan)
    }

    fn work_of(&self, r: usize, chip: Chip) -> Result<Work> {
        let graph = &self.fused.graph;
        match &self.fused.regions[r] {
            Region::Loop(l) => Ok(Work::Kernels(emit::lower(l, graph, self.is_in_place(l), chip.major).kernels)),
            Region::Call { node, args, .. } => self.call(r, *node, args, chip),
        }
    }

    /// Makes each wave one launch, as its first region's.
    fn merge_launches(&mut self, major: u32) {
        let mut last = None;
        for wave in self.fused.waves.clone() {
            let joined = match fuse_launches::own_gemm(&self.fused, &wave, major) {
                Some((product, own)) => Some(self.gemm_launches(&wave, product, own, last.is_some())),
                None if wave.len() > 1 => Some(self.batch_loops(&wave)),
                None => last.as_ref().and_then(|before| self.cached_attention(wave.start, before, major)),
            };
            if let Some(kernels) = joined {
                self.work[wave.clone()].iter_mut().for_each(|w| *w = Work::Kernels(Vec::new()));
                self.work[wave.start] = Work::Kernels(kernels);
            }
            let is_launched = self.work[wave.clone()].iter().any(|w| match w {
                Work::Kernels(list) => list.iter().any(|k| !k.is_move),
                Work::Gemm(..) | Work::Network { .. } => true,
                Work::Host { .. } => false,
            });
            if is_launched {
                last = Some(wave);
            }
        }
    }

    /// The launches of a product with the loops around it: what has to be copied first, and the rest as one.
    fn gemm_launches(&self, wave: &Range<usize>, product: usize, own: OwnGemm, is_later: bool) -> Vec<Kernel> {
        let (graph, regions) = (&self.fused.graph, &self.fused.regions);
        let a_loop = |r: usize| if let Region::Loop(l) = &regions[r] { Some(l) } else { None };
        let Region::Call { node, args, .. } = &regions[product] else { unreachable!("a product is a call") };
        let (args, outs) = operands(graph, *node, args);
        let behind = product + 1..wave.end;
        if own == OwnGemm::Gemv {
            let before = (wave.start < product).then_some(wave.start).and_then(a_loop);
            let behind = (!behind.is_empty()).then_some(behind.start).and_then(a_loop);
            let chain = gemv::Chain { graph, before, args: &args, y: &outs[0], behind, is_later };
            return vec![gemv::lower(&chain)];
        }
        let y = &outs[0];
        let extreme = (!behind.is_empty()).then(|| fuse_launches::extreme(&self.fused, behind.clone(), y)).flatten();
        let takes = match &extreme {
            Some((y, is_least)) => skinny_gemm::Behind::Extreme { y, is_least: *is_least },
            None => {
                skinny_gemm::Behind::Loops(fuse_launches::parts(&self.fused, behind.clone()).expect("it was looked at"))
            }
        };
        let chain = skinny_gemm::Chain { graph, args: &args, y, behind: takes, is_later };
        let list = |w: &Work| if let Work::Kernels(list) = w { list.clone() } else { Vec::new() };
        let moves = self.work[behind].iter().flat_map(list).filter(|k| k.is_move);
        moves.chain(skinny_gemm::lower(&chain)).collect()
    }

    /// The launch of an attention whose keys and values were put into caches, if the index of where and the mask
    /// were there before the last launch before it, of the wave `before`.
    fn cached_attention(&self, r: usize, before: &Range<usize>, major: u32) -> Option<Vec<Kernel>> {
        let (graph, regions) = (&self.fused.graph, &self.fused.regions);
        let Region::Call { node, args, .. } = &regions[r] else { return None };
        let n = &graph.nodes[*node];
        if !matches!(n.op.name, "attention" | "attention_turned") || !matches!(self.work[r], Work::Kernels(_)) {
            return None;
        }
        let (index, same) = (self.scatter_index(&args[1])?, self.scatter_index(&args[2])?);
        let is_made = |s: Slot| (before.start..r).any(|b| regions[b].writes().contains(&s));
        let [batch, kept, _, width] = *args[1].layout.shape.dims() else { return None };
        let is_one = index.slot == same.slot && index.ty.shape.dims() == [batch, kept, 1, width];
        if !is_one || is_made(index.slot) || args[3..].iter().any(|m| is_made(m.root)) {
            return None;
        }
        let (args, outs) = operands(graph, *node, args);
        let call = kernels::Call { attrs: &n.attrs, args: &args, outs: &outs, major, put: Some(&index) };
        kernels::attention::attention(&call)
    }

    /// The index of a value that a scatter along the third axis updated.
    fn scatter_index(&self, p: &View) -> Option<Operand> {
        let graph = &self.fused.graph;
        let mut made = self.fused.regions.iter().filter(|r| r.writes().contains(&p.root));
        let Region::Call { node, args, .. } = made.next()? else { return None };
        let n = &graph.nodes[*node];
        if n.op.name != "scatter" || n.attrs.size("axis") != Ok(2) {
            return None;
        }
        let index = operands(graph, *node, args).0.swap_remove(1);
        let is_whole = |l: &Layout| l.is_contiguous() && l.offset == 0;
        (is_whole(&p.layout) && is_whole(&index.layout)).then_some(index)
    }

    /// The launches of regions that do not need each other: what has to be copied first, and the rest
    /// as one.
    fn batch_loops(&self, wave: &Range<usize>) -> Vec<Kernel> {
        let mut parts = Vec::new();
        let mut kernels = Vec::new();
        let source = |r: usize| fuse_launches::source_of(&self.fused, wave, r);
        let taken: Vec<usize> = wave.clone().filter_map(|r| Some(source(r)?.0)).collect();
        for r in wave.clone().filter(|r| !taken.contains(r)) {
            match (&self.fused.regions[r], &self.work[r]) {
                (Region::Loop(l), _) => {
                    parts.push(horizontal::Part::of_loop(l, &self.fused.graph, self.is_in_place(l)))
                }
                (_, Work::Kernels(list)) => {
                    let (moves, rest): (Vec<&Kernel>, Vec<&Kernel>) = list.iter().partition(|k| k.is_move);
                    kernels.extend(moves.into_iter().cloned());
                    let put = source(r).and_then(|(_, l)| self.put(r, l));
                    match put {
                        Some(part) => parts.push(part),
                        None => parts.extend(rest.into_iter().filter_map(horizontal::Part::of_kernel)),
                    }
                }
                _ => {}
            }
        }
        kernels.push(horizontal::lower(parts));
        kernels
    }

    /// A loop whose result is put into another value as it is computed.
    fn put(&self, region: usize, l: &Loop) -> Option<horizontal::Part> {
        let Region::Call { node, args, .. } = &self.fused.regions[region] else { return None };
        let axis = self.fused.graph.nodes[*node].attrs.size("axis").ok()?;
        let (args, outs) = operands(&self.fused.graph, *node, args);
        Some(horizontal::Part::of_put(l, &self.fused.graph, &args, &outs[0], axis))
    }

    /// True if a loop's result lies, or may lie, where one of its operands does.
    fn is_in_place(&self, l: &Loop) -> bool {
        let load = |s: &Step| if let Step::Load { root, .. } = s { Some(*root) } else { None };
        let loads: Vec<Slot> = l.steps.iter().filter_map(load).collect();
        l.stores.iter().any(|s| loads.iter().any(|&root| self.may_share(s.slot, root)))
    }

    /// True if a result lies, or may lie, where an operand does.
    fn may_share(&self, result: Slot, operand: Slot) -> bool {
        match (self.memory.location(result), self.memory.location(operand)) {
            (Location::Arena(a), Location::Arena(b)) => a == b,
            (Location::Result(b), Location::Input(k)) => self.memory.buffers[b].donor == Some(k),
            _ => false,
        }
    }

    fn call(&self, r: usize, node: usize, args: &[View], chip: Chip) -> Result<Work> {
        let n = &self.fused.graph.nodes[node];
        let (args, outs) = operands(&self.fused.graph, node, args);
        match way(n, &args, &outs, chip) {
            Way::Gemm(p) => {
                let [a, b, c] = [&args[0], &args[1], &outs[0]].map(|o| self.first(o));
                // What is there beside them: a bias or sums, and what is activated, read or written; or two scales.
                let (third, second) = (args.get(2), outs.get(1));
                let is_backward = third.is_none() || p.epilogue().is_backward();
                let beside = if is_backward { [second, third] } else { [third, args.get(3).or(second)] };
                let [bias, inner] = beside.map(|o| o.map_or(c, |o| self.first(o)));
                return Ok(Work::Gemm(p, [a, b, c, bias, inner]));
            }
            Way::Network(network) => {
                let given = dnn::given(n.op.name, &n.attrs, &args, &outs).iter().map(|o| self.first(o)).collect();
                let around = dnn::around(n.op.name, &args, &outs).unwrap_or_default();
                return Ok(Work::Network { network, given, scratch: self.scratch(r, 0), around });
            }
            // Loops know the numbers 0, 1, 2… without reading them.
            Way::Kernels(_) if n.op.name == "iota" && self.is_only_counted(Slot::new(node, 0)) => {
                return Ok(Work::Kernels(Vec::new()));
            }
            Way::Kernels(kernels) => return Ok(Work::Kernels(kernels)),
            Way::Host if matches!(n.op.meaning, Meaning::Kernel(_) | Meaning::Control(_)) => {}
            Way::Host => return Err(Error::bug("neither a loop nor a kernel").in_op(n.op.name).at(n.site)),
        }
        let list = |o: &[Operand]| o.iter().map(|o| (self.first(o), o.ty.clone())).collect();
        Ok(Work::Host { node, args: list(&args), outs: list(&outs) })
    }

    /// True if nothing but loops reads a value.
    fn is_only_counted(&self, s: Slot) -> bool {
        let graph = &self.fused.graph;
        let is_result = graph.outputs.iter().any(|&o| view_of(&self.fused.views, o).root == s);
        let is_called = |r: &Region| matches!(r, Region::Call { args, .. } if args.iter().any(|p| p.root == s));
        !is_result && !self.fused.regions.iter().any(is_called)
    }

    fn first(&self, o: &Operand) -> Spot {
        let s = self.spot(o.slot);
        Spot { offset: s.offset + o.layout.offset * o.ty.dtype.size(), ..s }
    }

    /// The arena's number among a run's blocks.
    pub fn arena(&self) -> usize {
        self.inputs.len() + self.memory.buffers.len() + self.consts.len()
    }
    /// Where a stored value lies.
    pub fn spot(&self, s: Slot) -> Spot {
        let (base, offset) = match self.memory.location(s) {
            Location::Input(k) => (k, 0),
            Location::Result(b) => (self.inputs.len() + b, 0),
            Location::Const(i) => {
                let at =
                    self.consts.binary_search_by_key(&i, |c| c.0).expect("every constant is listed, in launch_order");
                (self.inputs.len() + self.memory.buffers.len() + at, 0)
            }
            Location::Arena(at) => (self.arena(), at),
            // Empty values: nothing is read or written.
            Location::Nowhere => (self.arena(), 0),
        };
        Spot { base, offset }
    }
    fn scratch(&self, region: usize, at: usize) -> Spot {
        Spot { base: self.arena(), offset: self.memory.scratch[region] + at }
    }
    /// Where a kernel's pointer points to; `None` for what is not a pointer into a block.
    pub fn pointer(&self, region: usize, arg: Arg) -> Option<Spot> {
        match arg {
            Arg::Value(s) => Some(self.spot(s)),
            Arg::Scratch(at) => Some(self.scratch(region, at)),
            Arg::Report | Arg::Launch | Arg::Status => None,
        }
    }

    fn answer(&self, s: Slot) -> (Answer, Type) {
        let graph = &self.fused.graph;
        let root = view_of(&self.fused.views, s).root;
        let answer = match self.memory.location(root) {
            Location::Input(k) => Answer::Input(k),
            Location::Result(b) => Answer::Result(b),
            Location::Const(i) => match self.consts.iter().position(|(j, _)| *j == i) {
                Some(k) => Answer::Const(k),
                None => Answer::Empty,
            },
            // Only empty values are stored nowhere.
            Location::Nowhere | Location::Arena(_) => Answer::Empty,
        };
        (answer, graph.ty(s).clone())
    }

    /// Every kernel, with the region it belongs to; those behind the last have no region.
    pub fn kernels(&self) -> impl Iterator<Item = (usize, &Kernel)> {
        let after = self.after.iter().map(|k| (self.work.len(), k));
        let of_regions = self.work.iter().enumerate().flat_map(|(r, w)| {
            let lists: [&[Kernel]; 2] = match w {
                Work::Kernels(k) => [k, &[]],
                Work::Network { around: [before, behind], .. } => [before, behind],
                _ => [&[], &[]],
            };
            lists.into_iter().flatten().map(move |k| (r, k))
        });
        of_regions.chain(after)
    }
}
