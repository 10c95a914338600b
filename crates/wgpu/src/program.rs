//! A compiled graph on a WebGPU device: launches in order, submitted together.

use crate::context::{Context, Pipeline};
use crate::storage::{Block, DeviceValue, Report, read_checked};
use ir::{Attr, Buffer, Call, Error, Graph, Literal, Meaning, Result, Slot, Type};
use passes::{Operand, Source, Watch};
use runtime::{Program, interrupt, reference, trace};
use std::sync::{Arc, OnceLock};
use wgsl::host::HostGraph;
use wgsl::launch::{self, Blame, Launches};
use wgsl::lower::{Code, Lowered, claims};

/// A launch with its compiled kernel.
struct Launch {
    pipeline: Arc<Pipeline>,
    what: launch::Launch,
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

/// Reports of values that are kept unread at most.
const REPORTS_MAX: usize = 64;

impl Compiled {
    /// Compiles a graph of primitive ops and claimed composites.
    pub fn new(context: &Arc<Context>, graph: Graph, watch: &mut Watch) -> Result<Compiled> {
        let lowered = Lowered::new(graph, watch)?;
        let plan = &lowered.plan;
        let Launches { list, words, blames, stage_bytes } = Launches::new(&lowered, context.buffers_max)?;
        let mut list = list.into_iter().peekable();
        let (mut tasks, mut regions, mut bodies) = (Vec::new(), Vec::new(), Vec::new());
        for (r, code) in lowered.code.iter().enumerate() {
            match code {
                Code::Kernels(_) => {
                    while let Some(what) = list.next_if(|l| l.region == r) {
                        let written: Vec<bool> =
                            what.bindings.iter().map(|b| b.1).chain(what.reports.then_some(true)).collect();
                        let pipeline = context.pipeline(&what.source, &written).map_err(|e| plan.blame(r, e))?;
                        tasks.push(Task::Launch(Box::new(Launch { pipeline, what })));
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
        let usage = wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST;
        let size = (4 * words.len()).max(launch::PARAMS_ALIGN) as u64;
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
        let (context, what) = (&self.program.context, &l.what);
        let mut entries = vec![wgpu::BindGroupEntry {
            binding: 0,
            resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                buffer: &self.program.params,
                offset: what.params.0 as u64,
                size: wgpu::BufferSize::new(what.params.1 as u64),
            }),
        }];
        let storage = what.bindings.iter().map(|&(b, _)| self.bases[b as usize].buffer());
        let report = self.own.iter().filter(|_| what.reports).map(|r| r.block.buffer());
        for (k, buffer) in storage.chain(report).enumerate() {
            entries.push(wgpu::BindGroupEntry { binding: k as u32 + 1, resource: buffer.as_entire_binding() });
        }
        let group = context.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &l.pipeline.layout,
            entries: &entries,
        });
        self.stage(what, false);
        {
            let mut pass = self.encoder().begin_compute_pass(&Default::default());
            pass.set_pipeline(&l.pipeline.pipeline);
            pass.set_bind_group(0, &group, &[]);
            pass.dispatch_workgroups(what.grid[0], what.grid[1], 1);
        }
        self.stage(what, true);
        Ok(())
    }
    /// Copies to the stage, or what was written back.
    fn stage(&mut self, l: &launch::Launch, is_back: bool) {
        let Some(stage) = self.bases.last().cloned().filter(|_| !l.staged.is_empty()) else { return };
        for s in l.staged.iter().filter(|s| !is_back || s.is_written) {
            let own = self.bases[s.base as usize].clone();
            let (at, bytes) = (s.at as u64, (s.bytes as u64).min(own.buffer().size()));
            let (from, to) = if is_back { ((&stage, at), (&own, 0)) } else { ((&own, 0), (&stage, at)) };
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

    /// An operand's bytes in memory of their own.
    fn copy_of(&mut self, o: &Operand) -> Result<Block> {
        let context = &self.program.context;
        let ((from, at), bytes) = (self.place(o.slot), o.ty.bytes());
        let at = at + o.offset();
        // Copies begin at words: an element of fewer bytes inside one goes by way of the host.
        let within = at % 4;
        if within > 0 && bytes > 0 {
            self.flush();
            let read = context.download(&[(from.buffer(), at - within, within + bytes)])?;
            return Block::of(context, &read[0].as_slice()[within..]);
        }
        let block = Block::new(context, bytes)?;
        if bytes > 0 {
            let rounded = bytes.next_multiple_of(4) as u64;
            self.encoder().copy_buffer_to_buffer(from.buffer(), at as u64, block.buffer(), 0, rounded);
        }
        Ok(block)
    }

    /// Control flow over programs of the device. Values stay in its memory; only conditions are read.
    fn control(&mut self, node: usize, args: &[Operand], outs: &[Operand]) -> Result<()> {
        let (program, context) = (self.program, &self.program.context);
        let n = &program.lowered.plan.fused.graph.nodes[node];
        let Meaning::Control(rule) = n.op.meaning else { return Err(Error::bug("not control flow")) };
        let mut values = Vec::with_capacity(args.len());
        let all: Vec<Arc<Report>> = self.reports.iter().chain(&self.own).cloned().collect();
        for o in args {
            let block = self.copy_of(o)?;
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
