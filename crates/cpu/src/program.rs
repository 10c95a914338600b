//! A compiled graph: regions in order, over inputs, constants, results and an arena.

#![allow(unsafe_code)]

use crate::arenas::Arena;
use crate::call::matmul::Fed;
use crate::call::{self, Operand, Prepared};
use crate::explain;
use crate::pool;
use crate::tile::access::{Bases, Spot, Window};
use crate::tile::plan::{Plan, ROW_MAX};
use crate::tile::{self, Homes, Tiles};
use ir::{Buffer, Bytes, Error, Graph, Layout, Literal, Meaning, Result, SOON, Slot, Type};
use parking_lot::Mutex;
use passes::{Fused, Location, Loop, MemoryPlan, Moves, Producer, Region, Step, Target, View};
use passes::{elide_copies, fuse, fuse_epilogues, plan_memory, schedule, view_of};
use runtime::interrupt::{self, Handling};
use runtime::{Program, trace};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Values with at least so many elements are worth reading only once.
const SHARE_MIN: usize = 4096;

/// How a region runs.
enum Work {
    Loop(Tiles),
    Call(Prepared),
    /// A kernel whose result a loop takes piece by piece.
    Fed(Fed, Tiles),
}

/// Where a result of the graph comes from.
pub(crate) enum Answer {
    /// The input with that number.
    Input(usize),
    /// A constant.
    Const(Literal),
    /// The result buffer with that number.
    Result(usize),
}

/// A compiled graph.
pub struct Compiled {
    fused: Fused,
    memory: MemoryPlan,
    work: Vec<Work>,
    inputs: Vec<Type>,
    consts: Vec<Literal>,
    answers: Vec<(Answer, Type)>,
    /// The first wave that may overwrite an input: nothing can fail from there on, and no run is
    /// interrupted.
    commit: usize,
    /// What each region is, for traces.
    described: OnceLock<Vec<Arc<trace::Region>>>,
    /// What runs need and no run is using now.
    frames: Mutex<Vec<Frame>>,
    /// Whether it has run before.
    has_run: AtomicBool,
}

/// Regions in the order in which they run, and their memory.
struct Planned {
    fused: Fused,
    /// The cuts of loops.
    plans: Vec<Option<Plan>>,
    memory: MemoryPlan,
    commit: usize,
}

impl Planned {
    /// The plan of a fused graph. Where values are computed again behind barriers, a weight's gradient that
    /// waits together with the update, for what can fail, keeps them alive: then the product may run alone.
    fn best(fused: Fused) -> Planned {
        let may_wait =
            fused.barrier.iter().any(Option::is_some) && fused.regions.iter().any(|r| may_fail(r, &fused.graph));
        let apart = may_wait.then(|| Planned::new(fused.clone(), false));
        let joined = Planned::new(fused, true);
        let bytes = |p: &Planned| p.memory.arena_bytes;
        apart.filter(|p| bytes(p) < bytes(&joined) / 8 * 7).unwrap_or(joined)
    }

    fn new(mut fused: Fused, feeds_updates: bool) -> Planned {
        fuse_epilogues(&mut fused, &call::feeds, feeds_updates);
        let light: Vec<bool> = fused.regions.iter().map(|r| is_light(r, &fused.graph)).collect();
        let fails: Vec<bool> = fused.regions.iter().map(|r| may_fail(r, &fused.graph)).collect();
        let is_soon = |r: &Region| match r {
            Region::Call { node, .. } => fused.graph.nodes[*node].attrs.bool(SOON).unwrap_or(false),
            Region::Loop(_) => false,
        };
        let soon: Vec<bool> = fused.regions.iter().map(is_soon).collect();
        let fused = schedule(fused, &light, &fails, &soon);
        let graph = &fused.graph;
        let plan = |r: &Region| if let Region::Loop(l) = r { Some(plan(l, graph)) } else { None };
        let plans: Vec<Option<Plan>> = fused.regions.iter().map(plan).collect();
        let scratch = |(r, p): (&Region, &Option<Plan>)| match (r, p) {
            (Region::Loop(l), Some(p)) => tile::scratch_bytes(l, p),
            _ => 0,
        };
        let scratch: Vec<usize> = fused.regions.iter().zip(&plans).map(scratch).collect();
        let first = fused.regions.iter().rposition(|r| may_fail(r, graph)).map_or(0, |r| r + 1);
        let memory = plan_memory(&fused, &scratch, first, &|_| None);
        debug_assert_eq!(passes::check_memory_plan(&fused, &memory, &scratch, &|_| None), Ok(()));
        let is_donated = |s: &Slot| match memory.location(*s) {
            Location::Result(b) => memory.buffers[b].donor.is_some(),
            _ => false,
        };
        // What may fail is never light, so no wave reaches over the last of it.
        let overwrites = |w: &Range<usize>| fused.regions[w.clone()].iter().any(|r| r.writes().iter().any(is_donated));
        let commit = fused.waves.iter().position(overwrites).unwrap_or(fused.waves.len());
        Planned { plans, memory, commit, fused }
    }
}

/// What one run needs beside its inputs; kept from run to run, so that a run allocates nothing but
/// its results.
#[derive(Default)]
struct Frame {
    /// A small one; a large one is kept for all programs.
    arena: Option<Arena>,
    bases: Vec<*mut u8>,
    results: Vec<Held>,
}
// SAFETY: the addresses are only followed during the run that has written them.
unsafe impl Send for Frame {}

/// The memory of a result during a run.
enum Held {
    New(Arc<Bytes>),
    /// The input with this number, which is overwritten.
    Input(usize),
}

impl Compiled {
    /// Compiles a graph of primitive ops and claimed composites.
    pub fn new(graph: Graph) -> Result<Compiled> {
        let target =
            Target { row_max: &|_| ROW_MAX, share_min: SHARE_MIN, accepts: &call::accepts, barriers: &call::is_fence };
        let mut fused = fuse(&graph, &target)?;
        elide_copies(&mut fused, &Moves { joins: &call::joins, writes: &call::writes, accepts: &call::accepts });
        let Planned { fused, plans, memory, commit } = Planned::best(fused);
        let graph = &fused.graph;
        let consts = constants(graph);
        let read: BTreeSet<Slot> = fused.regions.iter().flat_map(Region::reads).chain(fused.results()).collect();
        let map = BaseMap { graph, memory: &memory, consts: &consts, read: &read };
        let mut work = Vec::with_capacity(fused.regions.len());
        for ((r, region), plan) in fused.regions.iter().enumerate().zip(plans) {
            work.push(match (region, plan) {
                (Region::Loop(l), Some(plan)) => {
                    let locations = Homes { spot: &|s| map.spot(s), donor: &|s| map.donor(s) };
                    let partials = Spot { base: map.arena(), offset: memory.scratch[r] };
                    let tiles = tile::emit(l, graph, plan, &locations, partials);
                    match &l.producer {
                        None => Work::Loop(tiles),
                        Some(f) => Work::Fed(map.fed(f, l), tiles),
                    }
                }
                (Region::Call { node, args, outs }, _) => Work::Call(map.call(*node, args, outs)?),
                (Region::Loop(_), None) => return Err(Error::bug("a loop without a plan")),
            });
        }
        let answers = graph.outputs.iter().map(|&s| map.answer(&fused, s)).collect();
        let inputs = graph.inputs.iter().map(|&i| graph.nodes[i as usize].outs[0].clone()).collect();
        let consts = consts.into_iter().map(|(_, c)| c).collect();
        Ok(Compiled {
            work,
            answers,
            inputs,
            consts,
            memory,
            commit,
            fused,
            described: OnceLock::new(),
            frames: Mutex::default(),
            has_run: AtomicBool::new(false),
        })
    }

    fn check(&self, inputs: &[Buffer]) -> Result<()> {
        if inputs.len() != self.inputs.len() {
            let (want, got) = (self.inputs.len(), inputs.len());
            return Err(Error::value(format!("the graph takes {want} inputs, but {got} were given")));
        }
        for (k, (b, ty)) in inputs.iter().zip(&self.inputs).enumerate() {
            let Buffer::Host(l) = b else { continue };
            if l.dtype() != ty.dtype || *l.shape() != ty.shape {
                let e = format!("input {k} of the graph is {ty}, but {}{} was given", l.dtype(), l.shape());
                return Err(Error::shape(e));
            }
        }
        Ok(())
    }

    /// Finds memory for every result: that of an input which nobody else holds, or new.
    fn fill(&self, frame: &mut Frame, inputs: &mut [Buffer]) -> Result<()> {
        frame.bases.clear();
        frame.results.clear();
        for b in inputs.iter() {
            let Buffer::Host(l) = b else { return Err(Error::bug("an input that was not read")) };
            frame.bases.push(l.buffer().as_slice().as_ptr().cast_mut());
        }
        for b in &self.memory.buffers {
            let own = b.donor.and_then(|k| match &mut inputs[k] {
                Buffer::Host(l) if l.buffer().as_slice().len() == b.bytes => Some((k, l.buffer_mut()?)),
                _ => None,
            });
            if let Some((k, bytes)) = own {
                let p = bytes.as_mut_ptr();
                // The input is now read through the pointer that may write it.
                frame.bases[k] = p;
                frame.bases.push(p);
                frame.results.push(Held::Input(k));
            } else {
                let mut new = Arc::new(Bytes::any(b.bytes));
                let bytes = Arc::get_mut(&mut new).ok_or_else(|| Error::bug("a new buffer is shared"))?;
                frame.bases.push(bytes.as_mut().as_mut_ptr());
                frame.results.push(Held::New(new));
            }
        }
        frame.bases.extend(self.const_bases());
        self.push_arena(frame);
        Ok(())
    }

    fn push_arena(&self, frame: &mut Frame) {
        let arena = frame.arena.get_or_insert_with(|| {
            let is_first = !self.has_run.swap(true, Ordering::Relaxed);
            Arena::take(self.memory.arena_bytes, is_first)
        });
        frame.bases.push(arena.as_mut_ptr());
    }

    /// Keeps a frame for the next run.
    fn put_back(&self, mut frame: Frame) {
        frame.results.clear();
        frame.arena = frame.arena.filter(Arena::is_small);
        self.frames.lock().push(frame);
    }

    /// Whether these are as many bytes as each input and result has, and every result buffer is one
    /// of the results.
    fn fits(&self, inputs: &[&[u8]], outs: &[&mut [u8]]) -> bool {
        let are_inputs = inputs.iter().map(|b| b.len()).eq(self.inputs.iter().map(Type::bytes));
        let are_results = outs.iter().map(|b| b.len()).eq(self.answers.iter().map(|(_, t)| t.bytes()));
        let has_room = |(b, bytes): (usize, usize)| self.first_answer(b).is_some_and(|k| outs[k].len() == bytes);
        are_inputs && are_results && self.result_bytes().enumerate().all(has_room)
    }
    /// The first result that a result buffer is.
    fn first_answer(&self, buffer: usize) -> Option<usize> {
        self.answers().position(|a| matches!(a, Answer::Result(b) if *b == buffer))
    }
    /// Copies the results that no region has written: inputs, constants, and what is a result twice.
    fn copy_answers(&self, inputs: &[&[u8]], outs: &mut [&mut [u8]]) {
        for (k, answer) in self.answers().enumerate() {
            match answer {
                Answer::Input(i) => outs[k].copy_from_slice(inputs[*i]),
                Answer::Const(c) => outs[k].copy_from_slice(c.bytes()),
                Answer::Result(b) => {
                    if let Some(first) = self.first_answer(*b).filter(|f| *f < k) {
                        let (before, rest) = outs.split_at_mut(k);
                        rest[0].copy_from_slice(before[first]);
                    }
                }
            }
        }
    }

    /// Where each result comes from.
    pub(crate) fn answers(&self) -> impl ExactSizeIterator<Item = &Answer> {
        self.answers.iter().map(|(a, _)| a)
    }
    /// The size of each result buffer.
    pub(crate) fn result_bytes(&self) -> impl Iterator<Item = usize> {
        self.memory.buffers.iter().map(|b| b.bytes)
    }
    /// How much memory a run needs for itself.
    pub(crate) fn arena_bytes(&self) -> usize {
        self.memory.arena_bytes
    }
    /// The addresses of the constants, which come after the inputs and the result buffers.
    pub(crate) fn const_bases(&self) -> impl Iterator<Item = *mut u8> {
        self.consts.iter().map(|c| c.bytes().as_ptr().cast_mut())
    }

    /// Runs over memory of the caller's: inputs, result buffers, constants, arena.
    pub(crate) fn run_regions(&self, bases: Bases) -> Result<()> {
        self.run_waves(0..self.fused.waves.len(), bases)
    }

    fn run_waves(&self, which: Range<usize>, bases: Bases) -> Result<()> {
        if trace::is_on() {
            return self.run_traced(which, bases);
        }
        self.fused.waves[which].iter().try_for_each(|w| {
            interrupt::check()?;
            self.run_wave(w, &|r| self.run_region(r, bases))
        })
    }

    /// Runs the regions of a wave: one here, several on the pool's threads.
    #[inline]
    fn run_wave(&self, wave: &Range<usize>, run: &(dyn Fn(usize) -> Result<()> + Sync)) -> Result<()> {
        if wave.len() == 1 {
            return run(wave.start);
        }
        let failed = Mutex::new(None);
        pool::parallel_for(wave.len(), &|i| {
            if let Err(e) = run(wave.start + i) {
                failed.lock().get_or_insert(e);
            }
        });
        failed.into_inner().map_or(Ok(()), Err)
    }

    fn run_region(&self, r: usize, bases: Bases) -> Result<()> {
        match &self.work[r] {
            // SAFETY: the bases were made for this program, and regions that run at the same time
            // write apart from what the others read and write.
            Work::Loop(tiles) => unsafe { tiles.run(bases) },
            // SAFETY: as above; pieces are apart, and each is complete when it is handed over.
            Work::Fed(product, tiles) => product(bases, &|p| unsafe {
                tiles.window(bases, Window { r: p.row, h: p.rows, c: p.col, w: p.cols });
            }),
            Work::Call(f) => f(bases).map_err(|e| {
                let n = &self.fused.graph.nodes[self.fused.regions[r].nodes()[0] as usize];
                e.in_op(n.op.name).at(n.site)
            })?,
        }
        Ok(())
    }

    /// The results of a run that has gone well.
    fn take_answers(&self, frame: &mut Frame, inputs: &mut [Buffer]) -> Vec<Buffer> {
        for r in &mut frame.results {
            if let Held::Input(k) = *r
                && let Buffer::Host(l) = &mut inputs[k]
            {
                *r = Held::New(std::mem::replace(l, Literal::nothing()).into_buffer());
            }
        }
        let answer = |(a, ty): &(Answer, Type)| match a {
            Answer::Input(k) => match &inputs[*k] {
                // Another library that has the input's memory must not write into the result.
                Buffer::Host(l) if l.buffer().outside() > 0 => {
                    let bytes = Arc::new(Bytes::copy_of(l.bytes()));
                    Buffer::Host(Literal::from_buffer(ty.dtype, ty.shape.clone(), bytes))
                }
                Buffer::Host(l) => Buffer::Host(l.reshaped(&ty.shape)),
                other => other.clone(),
            },
            Answer::Const(c) => Buffer::Host(c.clone()),
            Answer::Result(b) => match &frame.results[*b] {
                Held::New(bytes) => Buffer::Host(Literal::from_buffer(ty.dtype, ty.shape.clone(), bytes.clone())),
                Held::Input(k) => inputs[*k].clone(),
            },
        };
        self.answers.iter().map(answer).collect()
    }

    /// What a run needs.
    fn memory(&self) -> trace::Memory {
        let bytes = |types: &[Type]| types.iter().map(Type::bytes).sum::<usize>();
        let results = &self.memory.buffers;
        trace::Memory {
            given: bytes(&self.inputs) + self.consts.iter().map(|c| c.bytes().len()).sum::<usize>(),
            arena: self.memory.arena_bytes,
            results: results.iter().map(|b| b.bytes).sum(),
            in_place: results.iter().filter(|b| b.donor.is_some()).map(|b| b.bytes).sum(),
        }
    }

    #[cold]
    fn run_traced(&self, which: Range<usize>, bases: Bases) -> Result<()> {
        trace::note_memory(self.memory());
        let describe = |r: &Region| Arc::new(explain::describe(r, &self.fused.graph));
        let described = self.described.get_or_init(|| self.fused.regions.iter().map(describe).collect());
        let run = |r: usize| trace::time(&described[r], || self.run_region(r, bases));
        self.fused.waves[which].iter().try_for_each(|w| {
            interrupt::check()?;
            self.run_wave(w, &run)
        })
    }
}

impl Program for Compiled {
    fn run(&self, inputs: &mut [Buffer]) -> Result<Vec<Buffer>> {
        for b in inputs.iter_mut() {
            if let Buffer::Device(s) = b {
                *b = Buffer::Host(s.read()?);
            }
        }
        self.check(inputs)?;
        let frame = self.frames.lock().pop();
        let mut frame = frame.unwrap_or_default();
        self.fill(&mut frame, inputs)?;
        let done = self.run_waves(0..self.commit, Bases(&frame.bases)).and_then(|()| interrupt::check());
        if done.is_ok() {
            let overwritten = Overwritten { inputs, results: &frame.results };
            let rest = self.commit..self.fused.waves.len();
            interrupt::handling(Handling::Later, || self.run_waves(rest, Bases(&frame.bases)))?;
            std::mem::forget(overwritten);
        }
        let answers = done.map(|()| self.take_answers(&mut frame, inputs));
        self.put_back(frame);
        answers
    }

    fn run_over(&self, inputs: &[&[u8]], outs: &mut [&mut [u8]]) -> Result<bool> {
        if !self.fits(inputs, outs) {
            return Ok(false);
        }
        let frame = self.frames.lock().pop();
        let mut frame = frame.unwrap_or_default();
        frame.bases.clear();
        // Inputs are only read: no result takes over their memory.
        frame.bases.extend(inputs.iter().map(|b| b.as_ptr().cast_mut()));
        let buffers = 0..self.memory.buffers.len();
        frame.bases.extend(buffers.filter_map(|b| Some(outs[self.first_answer(b)?].as_mut_ptr())));
        frame.bases.extend(self.const_bases());
        self.push_arena(&mut frame);
        let done = self.run_regions(Bases(&frame.bases));
        self.put_back(frame);
        done?;
        self.copy_answers(inputs, outs);
        Ok(true)
    }

    fn explain(&self) -> String {
        explain::explain(&self.fused, &self.memory, &self.memory())
    }
}

/// Whether running a region can be an error.
fn may_fail(r: &Region, graph: &Graph) -> bool {
    matches!(r, Region::Call { node, .. } if call::may_fail(&graph.nodes[*node]))
}

/// The cut of a loop.
fn plan(l: &Loop, graph: &Graph) -> Plan {
    if l.producer.is_some() { Plan::for_rows(l) } else { tile::plan(l, graph) }
}

/// Work of a loop, and multiplications of a product, that are worth another thread.
const LIGHT_LOOP_MIN: usize = 32 * 1024;
const LIGHT_PRODUCT: Range<usize> = 1 << 18..1 << 21;

/// Whether one thread runs a region alone, and it is still worth another thread.
fn is_light(region: &Region, graph: &Graph) -> bool {
    match region {
        Region::Loop(Loop { producer: Some(f), .. }) => is_light_product(f.node, &f.args, graph),
        Region::Loop(l) => {
            let plan = tile::plan(l, graph);
            plan.tasks() == 1 && plan.work >= LIGHT_LOOP_MIN
        }
        Region::Call { node, args, .. } => is_light_product(*node, args, graph),
    }
}

fn is_light_product(node: usize, args: &[View], graph: &Graph) -> bool {
    let n = &graph.nodes[node];
    let inner = args.first().and_then(|a| a.layout.shape.last()).copied().unwrap_or(0);
    n.op.name == "matmul" && LIGHT_PRODUCT.contains(&(n.outs[0].shape.count() * inner))
}

/// While inputs are being overwritten: a panic leaves nothing of them, rather than half of the old
/// and half of the new.
struct Overwritten<'a> {
    inputs: &'a mut [Buffer],
    results: &'a [Held],
}
impl Drop for Overwritten<'_> {
    fn drop(&mut self) {
        for r in self.results {
            if let Held::Input(k) = r {
                self.inputs[*k] = Buffer::Host(Literal::nothing());
            }
        }
    }
}

/// Constants that loops and kernels read from memory.
fn constants(graph: &Graph) -> Vec<(usize, Literal)> {
    let nodes = graph.nodes.iter().enumerate().filter(|(_, n)| matches!(n.op.meaning, Meaning::Const));
    nodes.filter_map(|(i, n)| n.attrs.literal("value").ok().map(|c| (i, c.clone()))).collect()
}

/// Which base pointer and offset each stored value has: inputs, results, constants, arena.
struct BaseMap<'a> {
    graph: &'a Graph,
    memory: &'a MemoryPlan,
    consts: &'a [(usize, Literal)],
    /// Values that a region reads, or that are results of the graph.
    read: &'a BTreeSet<Slot>,
}

impl BaseMap<'_> {
    fn arena(&self) -> u32 {
        (self.graph.inputs.len() + self.memory.buffers.len() + self.consts.len()) as u32
    }
    fn spot(&self, s: Slot) -> Spot {
        let (base, offset) = match self.memory.location(s) {
            Location::Input(k) => (k, 0),
            Location::Result(b) => (self.graph.inputs.len() + b, 0),
            Location::Const(i) => {
                let at = self.consts.binary_search_by_key(&i, |c| c.0).expect("every constant is listed, in order");
                (self.graph.inputs.len() + self.memory.buffers.len() + at, 0)
            }
            Location::Arena(at) => (self.arena() as usize, at),
            // Empty values: nothing is read or written.
            Location::Nowhere => (self.arena() as usize, 0),
        };
        Spot { base: base as u32, offset }
    }
    /// The input whose memory a result may take over.
    fn donor(&self, s: Slot) -> Option<Slot> {
        let Location::Result(b) = self.memory.location(s) else { return None };
        self.memory.buffers[b].donor.map(|k| Slot { node: self.graph.inputs[k], out: 0 })
    }
    fn operands(&self, args: &[View]) -> Vec<Operand> {
        let operand = |p: &View| {
            let ty = Type::new(self.graph.ty(p.root).dtype, p.layout.shape.clone());
            let constant = self.graph.constant(p.root).cloned();
            Operand { spot: self.spot(p.root), constant, ty, layout: p.layout.clone(), is_read: true }
        };
        args.iter().map(operand).collect()
    }
    fn result(&self, s: Slot) -> Operand {
        let ty = self.graph.ty(s).clone();
        let is_read = self.read.contains(&s);
        Operand { spot: self.spot(s), layout: Layout::contiguous(&ty.shape), ty, constant: None, is_read }
    }
    fn fed(&self, f: &Producer, l: &Loop) -> Fed {
        call::matmul::prepare_fed(&self.operands(&f.args), &self.result(f.slot()), &self.beside(f, l))
    }
    /// Where else a fed loop reads and writes, element by element as its product lies.
    fn beside(&self, f: &Producer, l: &Loop) -> Vec<Spot> {
        let size = self.graph.ty(f.slot()).dtype.size();
        let is_alike = |s: Slot, strides: &[isize]| {
            strides == [l.columns() as isize, 1] && self.graph.ty(s).dtype.size() == size && s != f.slot()
        };
        let own = self.spot(f.slot());
        let mut spots: Vec<Spot> = Vec::new();
        let mut add = |spot: Spot| {
            if spot != own && !spots.contains(&spot) {
                spots.push(spot);
            }
        };
        for step in &l.steps {
            if let Step::Load { root, strides, offset } = step
                && is_alike(*root, strides)
            {
                let spot = self.spot(*root);
                add(Spot { offset: spot.offset + offset * size, ..spot });
            }
        }
        // A result that takes over an input's memory was read there.
        for s in l.stores.iter().filter(|s| is_alike(s.slot, &s.strides) && self.donor(s.slot).is_none()) {
            add(self.spot(s.slot));
        }
        spots
    }
    fn call(&self, node: usize, args: &[View], outs: &[View]) -> Result<Prepared> {
        let n = &self.graph.nodes[node];
        let args = self.operands(args);
        let result = |(p, ty): (&View, &Type)| Operand {
            spot: self.spot(p.root),
            layout: p.layout.clone(),
            ty: ty.clone(),
            constant: None,
            is_read: self.read.contains(&p.root),
        };
        let outs: Vec<Operand> = outs.iter().zip(&n.outs).map(result).collect();
        call::prepare(n, &args, &outs).map_err(|e| e.in_op(n.op.name).at(n.site))
    }
    fn answer(&self, fused: &Fused, s: Slot) -> (Answer, Type) {
        let ty = self.graph.ty(s).clone();
        let root = view_of(&fused.views, s).root;
        let answer = match self.memory.location(root) {
            Location::Input(k) => Answer::Input(k),
            Location::Result(b) => Answer::Result(b),
            Location::Const(_) => match self.graph.constant(root) {
                Some(c) => Answer::Const(c.reshaped(&ty.shape)),
                None => Answer::Const(Literal::zeros(ty.dtype, ty.shape.clone())),
            },
            // Only empty values are stored nowhere.
            Location::Nowhere | Location::Arena(_) => Answer::Const(Literal::zeros(ty.dtype, ty.shape.clone())),
        };
        (answer, ty)
    }
}
