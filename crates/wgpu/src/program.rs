//! A compiled graph on a WebGPU device: launches in order, submitted together.

use crate::claims::claim;
use crate::context::{Context, Pipeline};
use crate::host::HostGraph;
use crate::kernel::{Arg, Kernel};
use crate::lower::{Code, Lowered, claims};
use crate::storage::{Blame, Block, DeviceValue, Report, read_checked};
use ir::{Attr, Buffer, Call, Error, Graph, Literal, Meaning, Result, Slot, Type};
use passes::{Address, Operand, Source, Watch};
use runtime::{Program, interrupt, reference, trace};
use std::sync::{Arc, OnceLock};

/// A launch.
struct Launch {
    pipeline: Arc<Pipeline>,
    /// The buffers it binds, by number.
    bases: Vec<u32>,
    /// Where its parameters lie among those of all launches, and their bytes.
    params: (u64, u64),
    grid: [u32; 2],
    reports: bool,
    /// Buffers beyond those that a kernel may bind are copied to the stage before it, and back after it if they are
    /// written: number, place in the stage, bytes, and whether it is written.
    staged: Vec<(u32, usize, usize, bool)>,
}

/// One thing to do.
enum Task {
    Launch(Box<Launch>),
    Host { graph: usize, program: Arc<dyn Program> },
    Control(usize),
}

/// A compiled graph.
pub struct Compiled {
    context: Arc<Context>,
    lowered: Lowered,
    tasks: Vec<Task>,
    /// The region of each task.
    regions: Vec<usize>,
    params: wgpu::Buffer,
    consts: Vec<Arc<Block>>,
    stage_bytes: usize,
    blames: Arc<Vec<Blame>>,
    /// Programs of the sub-graphs of control nodes.
    bodies: Vec<(Arc<Graph>, Compiled)>,
    described: OnceLock<Vec<Arc<trace::Region>>>,
}

/// Words before the places of parameters: the bits of infinity and NaN, the launch's number for reports, and its own.
const HEAD: usize = 4;
/// Parameters of a launch begin at multiples of this.
const PARAMS_ALIGN: usize = 256;
/// Reports of values that are kept unread at most.
const REPORTS_MAX: usize = 64;

impl Compiled {
    /// Compiles a graph of primitive ops and claimed composites.
    pub fn new(context: &Arc<Context>, graph: Graph, watch: &mut Watch) -> Result<Compiled> {
        let lowered = Lowered::new(graph, watch)?;
        let plan = &lowered.plan;
        let mut b = Builder { context, lowered: &lowered, words: Vec::new(), blames: Vec::new(), stage_bytes: 0 };
        let (mut tasks, mut regions, mut bodies) = (Vec::new(), Vec::new(), Vec::new());
        for (r, code) in lowered.code.iter().enumerate() {
            match code {
                Code::Kernels(list) => {
                    for k in list {
                        let launch = b.launch(r, k).map_err(|e| plan.blame(r, e))?;
                        tasks.push(Task::Launch(Box::new(launch)));
                    }
                }
                Code::Host(h) => tasks.push(Task::Host { graph: r, program: on_host(&h.graph)? }),
                Code::Control { node, .. } => {
                    for (_, a) in plan.fused.graph.nodes[*node].attrs.iter() {
                        if let Attr::Graph(g) = a {
                            bodies.push((g.clone(), body(context, g)?));
                        }
                    }
                    tasks.push(Task::Control(r));
                }
            }
            regions.resize(tasks.len(), r);
        }
        let Builder { words, blames, stage_bytes, .. } = b;
        let usage = wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST;
        let size = (4 * words.len()).max(PARAMS_ALIGN) as u64;
        let params = context.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size,
            usage,
            mapped_at_creation: false,
        });
        context.upload(&params, 0, bytemuck::cast_slice(&words));
        let consts = plan.constants.iter().map(|(_, c)| Ok(Arc::new(Block::of(context, c.bytes())?)));
        let consts = consts.collect::<Result<_>>()?;
        Ok(Compiled {
            context: context.clone(),
            tasks,
            regions,
            params,
            consts,
            stage_bytes,
            blames: Arc::new(blames),
            bodies,
            described: OnceLock::new(),
            lowered,
        })
    }
}

/// A graph compiled by the CPU device.
fn on_host(graph: &Graph) -> Result<Arc<dyn Program>> {
    let cpu = runtime::open("cpu")?;
    let graph = passes::optimize(graph, &|n, t| cpu.claims(n, t), &reference::run_node)?;
    cpu.compile(graph)
}

fn body(context: &Arc<Context>, g: &Graph) -> Result<Compiled> {
    let graph = passes::optimize(g, &claims, &reference::run_node)?;
    Compiled::new(context, graph, &mut Watch::none())
}

struct Builder<'a> {
    context: &'a Arc<Context>,
    lowered: &'a Lowered,
    /// Parameters of all launches.
    words: Vec<u32>,
    blames: Vec<Blame>,
    stage_bytes: usize,
}

impl Builder<'_> {
    fn launch(&mut self, region: usize, k: &Kernel) -> Result<Launch> {
        let plan = &self.lowered.plan;
        let address = |arg: Arg| self.lowered.address(region, arg);
        let bindings = k.bindings(&|arg| address(arg).base);
        let room = self.context.buffers_max - usize::from(k.reports);
        // The arena, which is large, is bound; what is too many is staged.
        let mut order = bindings.clone();
        order.sort_by_key(|(b, _)| *b != plan.arena());
        let excess = if order.len() > room { order.split_off(room - 1) } else { Vec::new() };
        let stage = plan.arena() + 1;
        let mut staged = Vec::new();
        let mut at = 0;
        for &(base, is_written) in &excess {
            let bytes = self.bytes_of(base).next_multiple_of(passes::ALIGN);
            staged.push((base, at, bytes, is_written));
            at += bytes;
        }
        self.stage_bytes = self.stage_bytes.max(at);
        let place = |arg: Arg| {
            let a = address(arg);
            match staged.iter().find(|s| s.0 == a.base) {
                Some(s) => Address { base: stage, offset: s.1 + a.offset },
                None => a,
            }
        };
        let base = |arg: Arg| place(arg).base;
        let source = k.source(&base);
        let bound = k.bindings(&base);
        let written: Vec<bool> = bound.iter().map(|b| b.1).chain(k.reports.then_some(true)).collect();
        let pipeline = self.context.pipeline(&source, &written)?;
        let start = self.words.len().next_multiple_of(PARAMS_ALIGN / 4);
        self.words.resize(start, 0);
        self.words.extend([f32::INFINITY.to_bits(), f32::NAN.to_bits(), self.blames.len() as u32, k.number]);
        for p in &k.params {
            let word = place(p.arg).offset / 4;
            self.words.push(u32::try_from(word).map_err(|_| Error::value("the program takes more than 16 GiB"))?);
        }
        let words = HEAD + k.params.len().div_ceil(4).max(1) * 4;
        self.words.resize(start + words, 0);
        if k.reports {
            self.blames.push(blame(plan, region));
        }
        let bases = bound.iter().map(|b| b.0).collect();
        let params = (4 * start as u64, 4 * words as u64);
        Ok(Launch { pipeline, bases, params, grid: k.grid(), reports: k.reports, staged })
    }
    /// Bytes of a buffer of a run.
    fn bytes_of(&self, base: u32) -> usize {
        let plan = &self.lowered.plan;
        let (inputs, results) = (plan.inputs.len(), plan.memory.buffers.len());
        match base as usize {
            b if b < inputs => plan.inputs[b].bytes(),
            b if b < inputs + results => plan.memory.buffers[b - inputs].bytes,
            b if b < plan.arena() as usize => plan.constants[b - inputs - results].1.bytes().len(),
            _ => plan.memory.arena_bytes,
        }
    }
}

/// What to say of a bad index in a region.
fn blame(plan: &passes::Plan, region: usize) -> Blame {
    let graph = &plan.fused.graph;
    let n = &graph.nodes[plan.fused.regions[region].nodes()[0] as usize];
    let before = claim(n.op.name).and_then(|c| c.reported).unwrap_or("index");
    if let (Ok(classes), Ok(ignored), Ok(op)) = (n.attrs.int("classes"), n.attrs.int("ignored"), n.attrs.str("op")) {
        let after = format!("is not among 0..{classes}, nor the ignored {ignored}");
        return Blame { op: op.to_string(), site: n.site, before, after };
    }
    let axis = n.attrs.size("axis").unwrap_or(0);
    let size = n.inputs.first().map_or(0, |&s| graph.ty(s).shape.get(axis).copied().unwrap_or(0));
    let after = format!("is out of range for axis {axis} of size {size}");
    Blame { op: n.op.name.to_string(), site: n.site, before, after }
}

/// A run under way.
struct Run<'a> {
    program: &'a Compiled,
    /// Inputs, results, constants, the arena, the stage.
    bases: Vec<Arc<Block>>,
    reports: Vec<Arc<Report>>,
    own: Option<Arc<Report>>,
    encoder: Option<wgpu::CommandEncoder>,
}

impl Run<'_> {
    fn encoder(&mut self) -> &mut wgpu::CommandEncoder {
        let device = &self.program.context.device;
        self.encoder.get_or_insert_with(|| device.create_command_encoder(&Default::default()))
    }
    fn flush(&mut self) {
        if let Some(e) = self.encoder.take() {
            self.program.context.queue.submit([e.finish()]);
        }
    }
    fn launch(&mut self, l: &Launch) -> Result<()> {
        let context = &self.program.context;
        let mut entries = vec![wgpu::BindGroupEntry {
            binding: 0,
            resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                buffer: &self.program.params,
                offset: l.params.0,
                size: wgpu::BufferSize::new(l.params.1),
            }),
        }];
        let storage = l.bases.iter().map(|&b| self.bases[b as usize].buffer());
        let report = self.own.iter().filter(|_| l.reports).map(|r| r.block.buffer());
        for (k, buffer) in storage.chain(report).enumerate() {
            entries.push(wgpu::BindGroupEntry { binding: k as u32 + 1, resource: buffer.as_entire_binding() });
        }
        let group = context.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &l.pipeline.layout,
            entries: &entries,
        });
        self.stage(l, false);
        {
            let mut pass = self.encoder().begin_compute_pass(&Default::default());
            pass.set_pipeline(&l.pipeline.pipeline);
            pass.set_bind_group(0, &group, &[]);
            pass.dispatch_workgroups(l.grid[0], l.grid[1], 1);
        }
        self.stage(l, true);
        Ok(())
    }
    /// Copies to the stage, or what was written back.
    fn stage(&mut self, l: &Launch, is_back: bool) {
        let Some(stage) = self.bases.last().cloned().filter(|_| !l.staged.is_empty()) else { return };
        for &(base, at, bytes, _) in l.staged.iter().filter(|s| !is_back || s.3) {
            let own = self.bases[base as usize].clone();
            let bytes = (bytes as u64).min(own.buffer().size());
            let (from, to) = if is_back { ((&stage, at as u64), (&own, 0)) } else { ((&own, 0), (&stage, at as u64)) };
            self.encoder().copy_buffer_to_buffer(from.0.buffer(), from.1, to.0.buffer(), to.1, bytes);
        }
    }
    fn place(&self, s: Slot) -> (Arc<Block>, usize) {
        let a = self.program.lowered.plan.address(s);
        (self.bases[a.base as usize].clone(), a.offset)
    }

    fn on_host(&mut self, h: &HostGraph, program: &dyn Program) -> Result<()> {
        self.flush();
        let graph = &self.program.lowered.plan.fused.graph;
        let places: Vec<(Arc<Block>, usize)> = h.reads.iter().map(|&s| self.place(s)).collect();
        let parts: Vec<_> =
            places.iter().zip(&h.reads).map(|((b, at), &s)| (b.buffer(), *at, graph.ty(s).bytes())).collect();
        let all: Vec<Arc<Report>> = self.reports.iter().chain(&self.own).cloned().collect();
        let bytes = read_checked(&self.program.context, &parts, &all)?;
        let values = bytes.into_iter().zip(&h.reads).map(|(b, &s)| {
            let ty = graph.ty(s);
            Buffer::Host(Literal::from_buffer(ty.dtype, ty.shape.clone(), Arc::new(b)))
        });
        let results = program.run(&mut values.collect::<Vec<Buffer>>())?;
        for (&s, v) in h.writes.iter().zip(&results) {
            let (block, at) = self.place(s);
            let v = v.read()?;
            if !v.bytes().is_empty() {
                self.program.context.upload(block.buffer(), at, v.bytes());
            }
        }
        Ok(())
    }

    /// Control flow over programs of the device. Values stay in its memory; only conditions are read.
    fn control(&mut self, node: usize, args: &[Operand], outs: &[Operand]) -> Result<()> {
        let (program, context) = (self.program, &self.program.context);
        let n = &program.lowered.plan.fused.graph.nodes[node];
        let Meaning::Control(rule) = n.op.meaning else { return Err(Error::bug("not control flow")) };
        let mut values = Vec::with_capacity(args.len());
        let all: Vec<Arc<Report>> = self.reports.iter().chain(&self.own).cloned().collect();
        for o in args {
            let (from, at) = self.place(o.slot);
            let bytes = o.ty.bytes();
            let block = Block::new(context, bytes)?;
            if bytes > 0 {
                let rounded = bytes.next_multiple_of(4) as u64;
                self.encoder().copy_buffer_to_buffer(
                    from.buffer(),
                    (at + o.offset()) as u64,
                    block.buffer(),
                    0,
                    rounded,
                );
            }
            let value = DeviceValue { block: Arc::new(block), ty: o.ty.clone(), reports: all.clone() };
            values.push(Buffer::Device(Arc::new(value)));
        }
        self.flush();
        let types: Vec<Type> = args.iter().map(|o| o.ty.clone()).collect();
        let mut run = |g: &Arc<Graph>, inputs: &[Buffer]| {
            interrupt::check()?;
            let mut inputs = inputs.to_vec();
            match program.bodies.iter().find(|(h, _)| Arc::ptr_eq(g, h)) {
                Some((_, p)) => p.run(&mut inputs),
                // A graph the rule has made itself.
                None => body(context, g)?.run(&mut inputs),
            }
        };
        let results = rule(&Call { types: &types, attrs: &n.attrs }, &values, &mut run)?;
        let mut kept = Vec::new();
        for (o, v) in outs.iter().zip(&results) {
            let (to, at) = self.place(o.slot);
            let (at, bytes) = (at + o.offset(), o.ty.bytes());
            if bytes == 0 {
                continue;
            }
            match v {
                Buffer::Device(s) if let Some(h) = s.as_any().downcast_ref::<DeviceValue>() => {
                    let rounded = bytes.next_multiple_of(4) as u64;
                    self.encoder().copy_buffer_to_buffer(h.block.buffer(), 0, to.buffer(), at as u64, rounded);
                    self.reports.extend(h.reports.iter().filter(|r| !r.is_clean()).cloned());
                    kept.push(h.block.clone());
                }
                _ => context.upload(to.buffer(), at, v.read()?.bytes()),
            }
        }
        // Blocks of results go back to the pool once their copies are submitted.
        self.flush();
        drop(kept);
        let mut seen: Vec<*const Report> = Vec::new();
        self.reports.retain(|r| {
            let is_new = !seen.contains(&Arc::as_ptr(r));
            seen.push(Arc::as_ptr(r));
            is_new
        });
        Ok(())
    }

    fn task(&mut self, t: &Task) -> Result<()> {
        let program = self.program;
        match t {
            Task::Launch(l) => self.launch(l),
            Task::Host { graph, program: p } => match &program.lowered.code[*graph] {
                Code::Host(h) => self.on_host(h, &**p),
                _ => Err(Error::bug("not the host's")),
            },
            Task::Control(r) => match &program.lowered.code[*r] {
                Code::Control { node, args, outs } => {
                    let n = &program.lowered.plan.fused.graph.nodes[*node];
                    self.control(*node, args, outs).map_err(|e| e.in_op(n.op.name).at(n.site))
                }
                _ => Err(Error::bug("not control flow")),
            },
        }
    }

    fn tasks(&mut self) -> Result<()> {
        let program = self.program;
        if !trace::is_on() {
            let mut last = usize::MAX;
            for (t, &r) in program.tasks.iter().zip(&program.regions) {
                if r != last {
                    interrupt::check()?;
                    last = r;
                }
                self.task(t)?;
            }
            self.flush();
            return Ok(());
        }
        let plan = &program.lowered.plan;
        let described = program.described.get_or_init(|| runtime::describe(plan));
        trace::note_memory(plan.memory_use());
        program.context.wait()?;
        for r in 0..described.len() {
            interrupt::check()?;
            let mine: Vec<&Task> =
                program.tasks.iter().zip(&program.regions).filter(|(_, q)| **q == r).map(|(t, _)| t).collect();
            if !mine.is_empty() {
                trace::time(&described[r], || {
                    mine.iter().try_for_each(|t| self.task(t))?;
                    self.flush();
                    program.context.wait()
                })?;
            }
        }
        Ok(())
    }
}

impl Compiled {
    /// An input's memory on this device, and the reports it depends on.
    fn input(&self, k: usize, b: &Buffer, reports: &mut Vec<Arc<Report>>) -> Result<Arc<Block>> {
        let plan = &self.lowered.plan;
        if let Buffer::Device(s) = b
            && let Some(h) = s.as_any().downcast_ref::<DeviceValue>()
            && h.block.is_on(&self.context)
        {
            plan.check_input(k, h.ty.dtype, &h.ty.shape)?;
            for r in h.reports.iter().filter(|r| !r.is_clean()) {
                if !reports.iter().any(|q| Arc::ptr_eq(q, r)) {
                    reports.push(r.clone());
                }
            }
            return Ok(h.block.clone());
        }
        let l = b.read()?;
        plan.check_input(k, l.dtype(), l.shape())?;
        Ok(Arc::new(Block::of(&self.context, l.bytes())?))
    }
}

impl Program for Compiled {
    fn run(&self, inputs: &mut [Buffer]) -> Result<Vec<Buffer>> {
        let plan = &self.lowered.plan;
        plan.check_inputs(inputs)?;
        let mut reports = Vec::new();
        let mut bases = Vec::with_capacity(plan.arena() as usize + 2);
        for (k, b) in inputs.iter().enumerate() {
            bases.push(self.input(k, b, &mut reports)?);
        }
        if reports.len() > REPORTS_MAX {
            read_checked(&self.context, &[], &reports)?;
            reports.clear();
        }
        let first = bases.len();
        for b in &plan.memory.buffers {
            bases.push(Arc::new(Block::new(&self.context, b.bytes)?));
        }
        bases.extend(self.consts.iter().cloned());
        bases.push(Arc::new(Block::new(&self.context, plan.memory.arena_bytes)?));
        bases.push(Arc::new(Block::new(&self.context, self.stage_bytes)?));
        let own = if self.blames.is_empty() {
            None
        } else {
            Some(Arc::new(Report::new(&self.context, self.blames.clone())?))
        };
        let mut run = Run { program: self, bases, reports, own, encoder: None };
        run.tasks()?;
        self.context.check()?;
        let Run { bases, mut reports, own, .. } = run;
        reports.extend(own);
        let hold = |block: &Arc<Block>, ty: &Type| {
            Buffer::Device(Arc::new(DeviceValue { block: block.clone(), ty: ty.clone(), reports: reports.clone() }))
        };
        let result = |(source, ty): &(Source, Type)| match *source {
            Source::Input(k) => hold(&bases[k], ty),
            Source::Constant(k) => hold(&self.consts[k], ty),
            Source::Empty => Buffer::Host(Literal::zeros(ty.dtype, ty.shape.clone())),
            Source::Buffer(b) => hold(&bases[first + b], ty),
        };
        Ok(plan.results.iter().map(result).collect())
    }
    fn explain(&self) -> String {
        let on_host = self.lowered.code.iter().filter(|c| matches!(c, Code::Host(_))).count();
        let note = match on_host {
            0 => String::new(),
            n => format!("{n} of {} regions run on the host: values cross to it and back\n", self.lowered.code.len()),
        };
        self.lowered.explain() + &note
    }
    fn sources(&self) -> String {
        self.lowered.sources()
    }
}
