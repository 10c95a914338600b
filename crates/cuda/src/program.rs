//! A compiled graph on a GPU: launches in order, and whole runs as captured graphs.

#![allow(unsafe_code)]

mod control;

use crate::claims::claim;
use crate::dnn::Network;
use crate::dnn::backend::Ready;
use crate::driver::context::{Blame, Context, Function, failed};
use crate::driver::memsets::{self, SLOT};
use crate::emit::kernels::Operand;
use crate::emit::{Arg, Kernel, Tiles};
use crate::library::cublas::{CublasGemm, Gemm, WORKSPACE};
use crate::library::{cufft, nccl};
use crate::lower::{Code, Lowered};
use crate::memory::storage::{Block, DeviceValue};
use crate::target::Gpu;
use cudarc::driver::{result as cu, sys};
use ir::{Attr, Buffer, Call, Error, Graph, Literal, Meaning, Result, Type};
use parking_lot::Mutex;
use passes::{Address, Region, Source, Watch};
use runtime::{Program, reference, trace};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Captured graphs kept at most, and addresses remembered.
const CAPTURED_MAX: usize = 8;

/// Launches of runs that are captured: one alone gains nothing, and very many take long to instantiate.
const CAPTURED_LAUNCHES: Range<usize> = 2..1 << 16;

/// An argument of a launch.
enum Value {
    At(Address),
    Number(u64),
}

/// One thing to do.
enum Task {
    Launch {
        f: Function,
        grid: u32,
        block: u32,
        shared: u32,
        maps: Vec<(Tiles, Address)>,
        args: SmallVec<[Value; 8]>,
        is_table: bool,
        is_move: bool,
    },
    Gemm {
        gemm: CublasGemm,
        at: [Address; 5],
        slot: Option<usize>,
    },
    Network {
        ready: Arc<Ready>,
        given: Vec<Address>,
        scratch: Address,
        slot: Option<usize>,
    },
    Fft {
        plan: cufft::Plan,
        at: [Address; 2],
    },
    /// A scan: what comes first, and an iteration.
    Scan(usize, Box<[Compiled; 2]>),
    Host(usize),
}

/// A run captured for the addresses it used.
struct Captured {
    addresses: Vec<u64>,
    graph: sys::CUgraphExec,
}
// SAFETY: used only while the context's order is held.
unsafe impl Send for Captured {}
impl Drop for Captured {
    fn drop(&mut self) {
        // SAFETY: instantiated once, destroyed once.
        unsafe {
            let _ = cu::graph::exec_destroy(self.graph);
        }
    }
}

#[derive(Default)]
struct Replays {
    /// Addresses of runs so far that were not captured.
    seen: Vec<Vec<u64>>,
    captured: Vec<Captured>,
}

/// A compiled graph.
pub struct Compiled {
    context: Arc<Context>,
    lowered: Arc<Lowered>,
    tasks: Vec<Task>,
    /// The tasks of each region.
    of_region: Vec<Range<usize>>,
    /// What each region is, for traces.
    described: OnceLock<Vec<Arc<trace::Region>>>,
    consts: Vec<Arc<Block>>,
    /// Bytes of working memory of the library's graphs, which run one after the other. A run takes
    /// them from the pool, as it does its arena.
    workspace: usize,
    /// Of those that need little, each its own.
    slots: Option<Block>,
    /// Programs of the sub-graphs of control nodes, by node.
    bodies: Vec<(Arc<Graph>, Compiled)>,
    /// What a run puts on the stream; `None` if it waits for the device in between.
    launches: Option<usize>,
    replays: Mutex<Replays>,
}

impl Compiled {
    /// Compiles a graph of primitive ops.
    pub fn new(context: &Arc<Context>, graph: Graph, watch: &mut Watch) -> Result<Compiled> {
        context.enter()?;
        // A convolution that it does not compute NHWC stays NCHW.
        let supports = |n: &Network| context.has(n);
        let is_faster = |p: &Gemm| CublasGemm::wins(context, p);
        let gpu = Gpu {
            capability: (context.major, context.minor),
            supports: &supports,
            is_faster: &is_faster,
            has_fft: cufft::is_present(),
        };
        Compiled::of(context, Arc::new(Lowered::new(graph, gpu, watch)?))
    }
    /// Loads the code of a lowered graph.
    fn of(context: &Arc<Context>, lowered: Arc<Lowered>) -> Result<Compiled> {
        let plan = &lowered.plan;
        let sources: Vec<&str> = lowered.kernels().map(|(_, k)| k.source.as_str()).collect();
        let mut functions = context.functions(&sources)?.into_iter();
        // Most launches want shared memory beside what their text declares.
        let is_launched = |k: &&Kernel| !k.is_move;
        let launched = || lowered.kernels().map(|(_, k)| k).filter(is_launched);
        let is_shared = 2 * launched().filter(|k| k.shared > 0).count() > launched().count();
        let mut tasks = Vec::new();
        let mut slots = 0;
        let mut slot = |bytes: usize| {
            let is_little = bytes > 0 && bytes <= SLOT;
            slots += usize::from(is_little);
            is_little.then(|| slots - 1)
        };
        let mut bodies: Vec<(Arc<Graph>, Compiled)> = Vec::new();
        let mut of_region = Vec::with_capacity(lowered.code.len());
        for (r, code) in lowered.code.iter().enumerate() {
            let first = tasks.len();
            let mut launch = |k: &Kernel, tasks: &mut Vec<Task>| -> Result<()> {
                let f = functions.next().ok_or_else(|| Error::bug("a kernel without a function"))?;
                if is_shared || k.shared > 0 {
                    context.prefer_shared(f)?;
                }
                tasks.push(launch(context, &lowered, r, k, f)?);
                Ok(())
            };
            match code {
                Code::Kernels(list) => list.iter().try_for_each(|k| launch(k, &mut tasks))?,
                Code::Gemm(p, operands) => {
                    let gemm = CublasGemm::new(context, p)?;
                    let slot = slot(gemm.needs(context)?);
                    tasks.push(Task::Gemm { gemm, at: operands.each_ref().map(|o| lowered.address(o)), slot });
                }
                Code::Network { network, given, around: [before, behind] } => {
                    let ready = context.ready(network).map_err(|e| plan.blame(r, e))?;
                    before.iter().try_for_each(|k| launch(k, &mut tasks))?;
                    let slot = slot(ready.workspace);
                    let given = given.iter().map(|o| lowered.address(o)).collect();
                    tasks.push(Task::Network { ready, given, scratch: plan.scratch(r, 0), slot });
                    behind.iter().try_for_each(|k| launch(k, &mut tasks))?;
                }
                Code::Fft { transform, operands, around: [before, behind] } => {
                    before.iter().try_for_each(|k| launch(k, &mut tasks))?;
                    let is_wide = before.is_empty();
                    let at = operands.each_ref().map(|o| if is_wide { lowered.address(o) } else { plan.scratch(r, 0) });
                    let plan = cufft::Plan::new(context, transform).map_err(|e| plan.blame(r, e))?;
                    tasks.push(Task::Fft { plan, at });
                    behind.iter().try_for_each(|k| launch(k, &mut tasks))?;
                }
                Code::Scan(s) => {
                    let [once, each] = [&s.once, &s.each].map(|l| Compiled::of(context, l.clone()));
                    tasks.push(Task::Scan(r, Box::new([once?, each?])));
                }
                Code::Host { node, .. } => {
                    for (_, a) in plan.fused.graph.nodes[*node].attrs.iter() {
                        if let Attr::Graph(g) = a {
                            bodies.push((g.clone(), body(context, g)?));
                        }
                    }
                    tasks.push(Task::Host(r));
                }
            }
            of_region.push(first..tasks.len());
        }
        for k in &lowered.after {
            let f = functions.next().ok_or_else(|| Error::bug("a kernel without a function"))?;
            tasks.push(launch(context, &lowered, lowered.code.len(), k, f)?);
        }
        if let Some(last) = of_region.last_mut() {
            last.end = tasks.len();
        }
        let consts = plan.constants.iter().map(|(_, c)| Ok(Arc::new(Block::of(context, c.bytes())?)));
        let consts = consts.collect::<Result<_>>()?;
        let wanted = |t: &Task| match t {
            Task::Network { ready, .. } => ready.workspace,
            Task::Fft { plan, .. } => plan.workspace,
            Task::Scan(_, parts) => parts[0].workspace.max(parts[1].workspace),
            _ => 0,
        };
        let workspace = tasks.iter().map(wanted).max().unwrap_or(0);
        let slots = if slots > 0 { Some(Block::new(context, slots * SLOT)?) } else { None };
        let launches = tasks.iter().map(|t| launches(&lowered, t)).sum::<Option<usize>>();
        Ok(Compiled {
            context: context.clone(),
            lowered,
            tasks,
            of_region,
            described: OnceLock::new(),
            consts,
            workspace,
            slots,
            bodies,
            launches,
            replays: Mutex::default(),
        })
    }

    /// An input's memory on this GPU.
    fn input(&self, k: usize, b: &Buffer) -> Result<Arc<Block>> {
        let plan = &self.lowered.plan;
        if let Buffer::Device(s) = b
            && let Some(h) = s.as_any().downcast_ref::<DeviceValue>()
            && h.block.is_on(&self.context)
        {
            plan.check_input(k, h.ty.dtype, &h.ty.shape)?;
            return Ok(h.block.clone());
        }
        let l = b.read()?;
        plan.check_input(k, l.dtype(), l.shape())?;
        Ok(Arc::new(Block::of(&self.context, l.bytes())?))
    }

    /// The block of an input that is not shared, with the input's number, or a new one.
    fn result(
        &self,
        b: &passes::ResultBuffer,
        inputs: &[Buffer],
        blocks: &[Arc<Block>],
    ) -> Result<(Arc<Block>, Option<usize>)> {
        let is_free = |k: usize| match &inputs[k] {
            Buffer::Device(s) => Arc::strong_count(s) == 1 && Arc::strong_count(&blocks[k]) == 2,
            // It was uploaded for this run.
            Buffer::Host(_) => Arc::strong_count(&blocks[k]) == 1,
        };
        let taken = b.donor.filter(|&k| is_free(k) && blocks[k].is_own() && blocks[k].bytes == b.bytes);
        let block = match taken {
            Some(k) => blocks[k].clone(),
            None => Arc::new(Block::new(&self.context, b.bytes)?),
        };
        Ok((block, taken))
    }

    /// Runs region by region, each to its end, so that it can be timed.
    fn run_traced(&self, bases: &[u64]) -> Result<()> {
        let described = self.described.get_or_init(|| runtime::describe(&self.lowered.plan));
        trace::note_memory(self.lowered.plan.memory_use());
        self.context.synchronize()?;
        for (what, tasks) in described.iter().zip(&self.of_region).filter(|(_, t)| !t.is_empty()) {
            trace::time(what, || {
                self.run_tasks(tasks.clone(), bases)?;
                self.context.synchronize()
            })?;
        }
        Ok(())
    }

    fn run_tasks(&self, which: Range<usize>, bases: &[u64]) -> Result<()> {
        let at = |s: &Address| bases[s.base as usize] + s.offset as u64;
        for t in &self.tasks[which] {
            match t {
                Task::Launch { f, grid, block, shared, maps, args, is_table, is_move } => {
                    let mut args: SmallVec<[u64; 16]> =
                        args.iter().map(|a| if let Value::At(s) = a { at(s) } else { a.number() }).collect();
                    let is_there = *is_move && args.chunks_exact(2).all(|pair| pair[0] == pair[1]);
                    if !is_there {
                        let maps = maps.iter().map(|(m, s)| self.context.tensor_map(m, at(s)));
                        let mut maps = maps.collect::<Result<SmallVec<[_; 2]>>>()?;
                        self.context.launch(*f, [*grid, *block, *shared], &mut maps, &mut args, *is_table)?;
                    }
                }
                Task::Gemm { gemm, at: given, slot } => {
                    let workspace = match self.slot(*slot) {
                        Some(at) => (at, SLOT),
                        None => (self.context.workspace()?, WORKSPACE),
                    };
                    gemm.run(&self.context, given.each_ref().map(at), workspace)?;
                }
                Task::Network { ready, given, scratch, slot } => {
                    let given: SmallVec<[u64; 9]> = given.iter().map(at).collect();
                    let shared = || bases[bases.len() - 1];
                    let workspace = self.slot(*slot).unwrap_or_else(shared);
                    ready.run(&self.context, &given, at(scratch), workspace)?;
                }
                Task::Fft { plan, at: [from, to] } => plan.run(at(from), at(to), bases[bases.len() - 1])?,
                Task::Scan(r, parts) => self.run_scan(*r, parts, bases)?,
                Task::Host(r) => self.run_on_host(*r, bases)?,
            }
        }
        Ok(())
    }

    /// Working memory of a task that needs little.
    fn slot(&self, slot: Option<usize>) -> Option<u64> {
        Some(self.slots.as_ref()?.address + (slot? * SLOT) as u64)
    }

    /// Runs a node's own rule: a reference on copies of its operands; control flow on the operands themselves.
    /// Collectives between GPUs stay on them where that is asked for.
    fn run_on_host(&self, r: usize, bases: &[u64]) -> Result<()> {
        let Code::Host { node, args, outs } = &self.lowered.code[r] else { return Err(Error::bug("not the host's")) };
        let n = &self.lowered.plan.fused.graph.nodes[*node];
        let at = |o: &Operand| {
            let a = self.lowered.address(o);
            bases[a.base as usize] + a.offset as u64
        };
        if let (true, [from], [to]) = (n.is_ordered(), &args[..], &outs[..])
            && nccl::run(&self.context, n, (&from.ty, at(from)), (&to.ty, at(to)))
                .map_err(|e| e.in_op(n.op.name).at(n.site))?
        {
            return Ok(());
        }
        if let Meaning::Control(rule) = n.op.meaning {
            return self.run_control(n, rule, args, outs, bases).map_err(|e| e.in_op(n.op.name).at(n.site));
        }
        let mut values = Vec::with_capacity(args.len());
        for o in args {
            let ty = &o.ty;
            let mut bytes = ir::Bytes::any(ty.bytes());
            if ty.bytes() > 0 {
                self.context.download(at(o), bytes.as_mut())?;
            }
            values.push(Literal::from_buffer(ty.dtype, ty.shape.clone(), Arc::new(bytes)));
        }
        let types: Vec<Type> = args.iter().map(|o| o.ty.clone()).collect();
        let call = Call { types: &types, attrs: &n.attrs };
        let results = match n.op.meaning {
            Meaning::Kernel(f) => f(&call, &values),
            _ => Err(Error::bug("not a kernel")),
        };
        let results = results.map_err(|e| e.in_op(n.op.name).at(n.site))?;
        self.context.enter()?;
        for (o, v) in outs.iter().zip(&results) {
            let ty = &o.ty;
            if v.dtype() != ty.dtype || *v.shape() != ty.shape {
                return Err(Error::bug(format!("a result should be {ty}, not {}{}", v.dtype(), v.shape())));
            }
            self.context.upload(at(o), v.bytes())?;
        }
        Ok(())
    }

    /// Runs the tasks, from the second time with the same addresses on as one captured graph.
    fn replay(&self, bases: &[u64]) -> Result<()> {
        if trace::is_on() {
            return self.run_traced(bases);
        }
        if !self.launches.is_some_and(|n| CAPTURED_LAUNCHES.contains(&n)) {
            return self.run_tasks(0..self.tasks.len(), bases);
        }
        let mut replays = self.replays.lock();
        if let Some(c) = replays.captured.iter().find(|c| c.addresses == bases) {
            // SAFETY: captured on this stream, for these addresses.
            return unsafe { cu::graph::launch(c.graph, self.context.stream) }.map_err(|e| failed("a graph", e));
        }
        let Some(known) = replays.seen.iter().position(|s| s == bases) else {
            if replays.seen.len() >= CAPTURED_MAX {
                replays.seen.remove(0);
            }
            replays.seen.push(bases.to_vec());
            return self.run_tasks(0..self.tasks.len(), bases);
        };
        let addresses = replays.seen.remove(known);
        let graph = self.capture(bases)?;
        // SAFETY: just instantiated.
        unsafe { cu::graph::launch(graph, self.context.stream) }.map_err(|e| failed("a graph", e))?;
        if replays.captured.len() >= CAPTURED_MAX {
            replays.captured.remove(0);
        }
        replays.captured.push(Captured { addresses, graph });
        Ok(())
    }

    fn capture(&self, bases: &[u64]) -> Result<sys::CUgraphExec> {
        let bad = |e| failed("capturing a graph", e);
        let stream = self.context.stream;
        // SAFETY: the stream lives as long as the context; the context's order is held, so nothing
        // else is captured.
        unsafe {
            cu::stream::begin_capture(stream, sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
                .map_err(bad)?;
            let cleared = self.slots.as_ref().map_or(Ok(()), |s| self.context.fill(s.address, 0, s.bytes));
            let done = cleared.and_then(|()| self.run_tasks(0..self.tasks.len(), bases));
            let graph = cu::stream::end_capture(stream).map_err(bad);
            done?;
            let graph = graph?;
            if let Some(slots) = &self.slots {
                let memory = slots.address..slots.address + slots.bytes as u64;
                memsets::remove_memsets(graph, &memory).map_err(bad)?;
            }
            let exec = cu::graph::instantiate(graph, sys::CUgraphInstantiate_flags(0)).map_err(bad);
            cu::graph::destroy(graph).map_err(bad)?;
            exec
        }
    }
}

/// What a task puts on the stream; `None` if it waits for the device.
fn launches(lowered: &Lowered, t: &Task) -> Option<usize> {
    match t {
        Task::Host(_) => None,
        Task::Scan(r, parts) => {
            let Code::Scan(s) = &lowered.code[*r] else { return None };
            Some(parts[0].launches? + parts[1].launches? * s.iterations.length())
        }
        _ => Some(1),
    }
}

/// A kernel of a region with its arguments.
fn launch(context: &Context, lowered: &Lowered, region: usize, k: &Kernel, f: Function) -> Result<Task> {
    let number = k.args.contains(&Arg::Report).then(|| context.blame(blame(&lowered.plan, region)));
    let args = k.args.iter().map(|&a| match (lowered.pointer(region, a), a, number) {
        (Some(spot), ..) => Value::At(spot),
        (None, Arg::Launch, Some((launch, _))) => Value::Number(launch as u64),
        (None, Arg::Status, _) => Value::Number(context.status),
        (None, _, n) => Value::Number(n.map_or(0, |(_, report)| report)),
    });
    let maps = k.maps.iter().map(|&m| {
        let at = lowered.plan.address(m.slot);
        (m, Address { offset: at.offset + m.offset, ..at })
    });
    let (maps, args, is_table, is_move) = (maps.collect(), args.collect(), k.is_table, k.is_move);
    let (grid, block, shared) = (k.grid, k.block, k.shared);
    context.allow_shared(f, shared)?;
    Ok(Task::Launch { f, grid, block, shared, maps, args, is_table, is_move })
}

impl Value {
    fn number(&self) -> u64 {
        if let Value::Number(n) = self { *n } else { 0 }
    }
}

/// What to say of a bad index in a region, or in one that is launched with it.
fn blame(plan: &passes::Plan, region: usize) -> Blame {
    let (graph, regions) = (&plan.fused.graph, &plan.fused.regions);
    let wave = plan.fused.waves.iter().find(|w| w.contains(&region)).cloned().unwrap_or(region..region + 1);
    let called = |r: usize| if let Region::Call { node, .. } = &regions[r] { Some(*node) } else { None };
    let failure = |i: usize| claim(graph.nodes[i].op.name).and_then(|c| c.failure);
    let is_reported = |i: &usize| graph.nodes[*i].attrs.size("axis").is_ok() || failure(*i).is_some();
    let node = wave.filter_map(called).find(is_reported).unwrap_or(regions[region].nodes()[0] as usize);
    let n = &graph.nodes[node];
    let site = n.site;
    if let Some((before, after)) = failure(node) {
        return Blame { op: n.op.name.to_string(), site, before, after: after.to_string() };
    }
    if let (Ok(classes), Ok(ignored), Ok(op)) = (n.attrs.int("classes"), n.attrs.int("ignored"), n.attrs.str("op")) {
        let after = format!("is not among 0..{classes}, nor the ignored {ignored}");
        return Blame { op: op.to_string(), site, before: "class", after };
    }
    let axis = n.attrs.size("axis").unwrap_or(0);
    let size = n.inputs.first().map_or(0, |&s| graph.ty(s).shape.get(axis).copied().unwrap_or(0));
    let after = format!("is out of range for axis {axis} of size {size}");
    Blame { op: n.op.name.to_string(), site, before: "index", after }
}

fn body(context: &Arc<Context>, g: &Graph) -> Result<Compiled> {
    let graph = passes::optimize(g, &|n, t| context.claims(n, t), &reference::run_node)?;
    Compiled::new(context, graph, &mut Watch::none())
}

impl Program for Compiled {
    fn run(&self, inputs: &mut [Buffer]) -> Result<Vec<Buffer>> {
        let plan = &self.lowered.plan;
        plan.check_inputs(inputs)?;
        let _order = self.context.order.lock();
        self.context.enter()?;
        let blocks = inputs.iter().enumerate().map(|(k, b)| self.input(k, b));
        let blocks: Vec<Arc<Block>> = blocks.collect::<Result<_>>()?;
        let mut bases: Vec<u64> = blocks.iter().map(|b| b.address).collect();
        let mut results = Vec::with_capacity(plan.memory.buffers.len());
        let mut gone = Vec::new();
        for b in &plan.memory.buffers {
            let (block, taken) = self.result(b, inputs, &blocks)?;
            bases.push(block.address);
            results.push(block);
            gone.extend(taken);
        }
        bases.extend(self.consts.iter().map(|c| c.address));
        let arena = Block::new(&self.context, plan.memory.arena_bytes)?;
        bases.push(arena.address);
        let loops = self.lowered.loop_bytes();
        let loops = (loops > 0).then(|| Block::new(&self.context, loops)).transpose()?;
        bases.push(loops.as_ref().map_or(0, |b| b.address));
        let workspace = (self.workspace > 0).then(|| Block::new(&self.context, self.workspace)).transpose()?;
        bases.push(workspace.as_ref().map_or(0, |b| b.address));
        self.replay(&bases)?;
        let run = Some(self.context.note_run()?);
        let hold = |block: &Arc<Block>, ty: &Type| {
            Buffer::Device(Arc::new(DeviceValue { block: block.clone(), ty: ty.clone(), run }))
        };
        let result = |(source, ty): &(Source, Type)| match *source {
            Source::Input(k) => hold(&blocks[k], ty),
            Source::Constant(k) => hold(&self.consts[k], ty),
            Source::Empty => Buffer::Host(Literal::zeros(ty.dtype, ty.shape.clone())),
            Source::Buffer(b) => hold(&results[b], ty),
        };
        let answers = plan.results.iter().map(result).collect();
        // Nothing is left of an input whose memory a result has taken over.
        gone.into_iter().for_each(|k| inputs[k] = Buffer::Host(Literal::nothing()));
        Ok(answers)
    }

    fn work(&self) -> Option<runtime::Work> {
        Some(runtime::work(&self.lowered.plan))
    }

    fn explain(&self) -> String {
        self.lowered.explain()
    }
    fn sources(&self) -> String {
        self.lowered.sources()
    }
}
