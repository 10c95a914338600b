//! A compiled graph: regions in order, over inputs, constants, results and an arena.

#![allow(unsafe_code)]

use crate::arenas::Arena;
use crate::call::exchange::Watch as Exchanges;
use crate::call::{self, Fed, Operand, Prepared};
use crate::kernels::epilogue::Epilogue;
use crate::pool::{self, Shared};
use crate::target::CpuTarget;
use crate::tile::access::{Bases, Window};
use crate::tile::plan::Plan as Tiling;
use crate::tile::{self, Homes, Tiles};
use ir::{Buffer, Bytes, DType, Error, Graph, Layout, Literal, Result, Slot, Type};
use parking_lot::Mutex;
use passes::{Address, Loop, Plan, Producer, Region, Source, Step, View, Watch};
use runtime::interrupt::{self, Handling};
use runtime::{Program, trace};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The name under which a build links timelines and interrupts.
const TRACE: &str = "timeline";

/// The code of a region.
enum Code {
    Loop(Tiles),
    Call(Prepared),
    /// A kernel with a loop as its epilogue, tile by tile.
    Epilogue(Fed, Tiles),
    /// A kernel whose epilogue is one as well.
    Finished(Fed, Epilogue<Address>),
    /// A kernel, and a loop after all of it.
    Then(Fed, Tiles),
}

/// A compiled graph.
pub struct Compiled {
    plan: Plan,
    /// By region.
    code: Vec<Code>,
    /// Each region, for traces.
    described: OnceLock<Vec<Arc<trace::Region>>>,
    /// The memory of runs, kept while no run uses it.
    frames: Mutex<Vec<Frame>>,
    /// Whether it has run before.
    has_run: AtomicBool,
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
        Compiled::watched(graph, &mut Watch::none())
    }
    /// Compiles a graph before an observer.
    pub fn watched(graph: Graph, watch: &mut Watch) -> Result<Compiled> {
        Compiled::with_fixed(graph, &[], watch)
    }
    /// Compiles a graph some of whose inputs have the same value at every run.
    pub fn with_fixed(graph: Graph, fixed: &[Option<Literal>], watch: &mut Watch) -> Result<Compiled> {
        let mut target = CpuTarget::default();
        let plan = passes::plan(graph, &mut target, watch)?;
        Compiled::lowered(plan, target.tilings, fixed)
    }
    /// Makes a plan of the CPU's ready to run.
    pub fn of_plan(plan: Plan) -> Result<Compiled> {
        let mut target = CpuTarget::default();
        passes::Target::lower(&mut target, &plan.fused, &plan.memory)?;
        Compiled::lowered(plan, target.tilings, &[])
    }
    fn lowered(plan: Plan, tilings: Vec<Option<Tiling>>, fixed: &[Option<Literal>]) -> Result<Compiled> {
        let binder = Binder { plan: &plan, read: plan.read(), fixed };
        let mut code = Vec::with_capacity(plan.fused.regions.len());
        for ((r, region), tiling) in plan.fused.regions.iter().enumerate().zip(tilings) {
            code.push(match (region, tiling) {
                (Region::Loop(l), Some(tiling)) => {
                    if let Some(kernel) = binder.requantized(l) {
                        code.push(Code::Call(kernel));
                        continue;
                    }
                    let homes = Homes { spot: &|s| plan.address(s), donor: &|s| plan.donor(s) };
                    let tiles = tile::emit(l, &plan.fused.graph, tiling, &homes, plan.scratch(r, 0));
                    match &l.producer {
                        None => Code::Loop(tiles),
                        Some(p) if call::feeds_rows(&plan.fused.graph.nodes[p.node]) => {
                            Code::Epilogue(binder.producer(p, l)?, tiles)
                        }
                        Some(p) => {
                            let finish = tile::recognize_epilogue(l, &plan.fused.graph, p.slot(), &|s| plan.address(s));
                            match finish {
                                Some(e) => match binder.finished(p, &e) {
                                    Some(kernel) => Code::Call(kernel),
                                    None => Code::Finished(binder.producer(p, l)?, e),
                                },
                                None => Code::Then(binder.producer(p, l)?, tiles),
                            }
                        }
                    }
                }
                (Region::Call { node, args, outs }, _) => Code::Call(binder.call(*node, args, outs)?),
                (Region::Loop(_), None) => return Err(Error::bug("a loop without a tiling")),
            });
        }
        Ok(Compiled {
            code,
            plan,
            described: OnceLock::new(),
            frames: Mutex::default(),
            has_run: AtomicBool::new(false),
        })
    }

    /// Finds memory for every result: that of an input which is not shared, or new.
    fn fill(&self, frame: &mut Frame, inputs: &mut [Buffer]) -> Result<()> {
        frame.bases.clear();
        frame.results.clear();
        for b in inputs.iter() {
            let Buffer::Host(l) = b else { return Err(Error::bug("an input that was not read")) };
            frame.bases.push(l.buffer().as_slice().as_ptr().cast_mut());
        }
        for b in &self.plan.memory.buffers {
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
            Arena::take(self.plan.memory.arena_bytes, is_first)
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
        let are_inputs = inputs.iter().map(|b| b.len()).eq(self.plan.inputs.iter().map(Type::bytes));
        let are_results = outs.iter().map(|b| b.len()).eq(self.plan.results.iter().map(|(_, t)| t.bytes()));
        let has_room = |(b, bytes): (usize, usize)| self.first_result(b).is_some_and(|k| outs[k].len() == bytes);
        are_inputs && are_results && self.result_bytes().enumerate().all(has_room)
    }
    /// The first result that a result buffer is.
    fn first_result(&self, buffer: usize) -> Option<usize> {
        self.sources().position(|s| s == Source::Buffer(buffer))
    }
    /// Copies the results that no region has written: inputs, constants, and what is a result twice.
    fn copy_results(&self, inputs: &[&[u8]], outs: &mut [&mut [u8]]) {
        for (k, source) in self.sources().enumerate() {
            match source {
                Source::Input(i) => outs[k].copy_from_slice(inputs[i]),
                Source::Constant(c) => outs[k].copy_from_slice(self.constant(c).bytes()),
                Source::Empty => {}
                Source::Buffer(b) => {
                    if let Some(first) = self.first_result(b).filter(|f| *f < k) {
                        let (before, rest) = outs.split_at_mut(k);
                        rest[0].copy_from_slice(before[first]);
                    }
                }
            }
        }
    }

    /// Where each result comes from.
    pub(crate) fn sources(&self) -> impl ExactSizeIterator<Item = Source> {
        self.plan.results.iter().map(|(s, _)| *s)
    }
    /// The constant with this number.
    pub(crate) fn constant(&self, number: usize) -> &Literal {
        &self.plan.constants[number].1
    }
    /// The size of each result buffer.
    pub(crate) fn result_bytes(&self) -> impl Iterator<Item = usize> {
        self.plan.memory.buffers.iter().map(|b| b.bytes)
    }
    /// How much memory a run needs for itself.
    pub(crate) fn arena_bytes(&self) -> usize {
        self.plan.memory.arena_bytes
    }
    /// The addresses of the constants, which come after the inputs and the result buffers.
    pub(crate) fn const_bases(&self) -> impl Iterator<Item = *mut u8> {
        self.plan.constants.iter().map(|(_, c)| c.bytes().as_ptr().cast_mut())
    }

    /// Runs over memory of the caller's: inputs, result buffers, constants, arena.
    pub(crate) fn run_regions(&self, bases: Bases) -> Result<()> {
        self.run_waves(0..self.plan.fused.waves.len(), bases)
    }

    fn run_waves(&self, which: Range<usize>, bases: Bases) -> Result<()> {
        if const { ir::is_linked(TRACE) } && trace::is_on() {
            return self.run_traced(which, bases);
        }
        self.plan.fused.waves[which].iter().try_for_each(|w| {
            if const { ir::is_linked(TRACE) } {
                interrupt::check()?;
            }
            self.run_wave(w, &|r| self.run_region(r, bases))
        })
    }

    /// Runs the regions of a wave: one here, several on the pool's threads.
    #[inline]
    fn run_wave(&self, wave: &Range<usize>, run: &(dyn Fn(usize) -> Result<()> + Sync)) -> Result<()> {
        if wave.len() == 1 || !const { ir::is_linked(pool::THREADS) } {
            return wave.clone().try_for_each(run);
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
        match &self.code[r] {
            // SAFETY: the bases were made for this program, and regions that run at the same time
            // write apart from what the others read and write.
            Code::Loop(tiles) => unsafe { tiles.run(bases) },
            // SAFETY: as above; pieces are apart, and each is complete when it is handed over.
            Code::Epilogue(producer, tiles) => producer(bases, &|p| unsafe {
                tiles.window(bases, Window { r: p.row, h: p.rows, c: p.col, w: p.cols });
            }),
            Code::Finished(producer, e) => {
                let place = |spot: Address| Shared::new(bases.at(spot));
                let e = e.map(&place);
                // SAFETY: as above.
                producer(bases, &|p| unsafe { e.run(p) });
            }
            Code::Then(producer, tiles) => {
                producer(bases, &|_| {});
                // SAFETY: as above.
                unsafe { tiles.run(bases) };
            }
            Code::Call(f) => f(bases).map_err(|e| self.plan.blame(r, e))?,
        }
        Ok(())
    }

    /// The results of a run that has gone well.
    fn take_results(&self, frame: &mut Frame, inputs: &mut [Buffer]) -> Vec<Buffer> {
        for r in &mut frame.results {
            if let Held::Input(k) = *r
                && let Buffer::Host(l) = &mut inputs[k]
            {
                *r = Held::New(std::mem::replace(l, Literal::nothing()).into_buffer());
            }
        }
        let empty = |ty: &Type| Literal::zeros(ty.dtype, ty.shape.clone());
        let result = |(source, ty): &(Source, Type)| match *source {
            Source::Input(k) => match &inputs[k] {
                // Another library that has the input's memory must not write into the result.
                Buffer::Host(l) if l.buffer().outside() > 0 => {
                    let bytes = Arc::new(Bytes::copy_of(l.bytes()));
                    Buffer::Host(Literal::from_buffer(ty.dtype, ty.shape.clone(), bytes))
                }
                Buffer::Host(l) => Buffer::Host(l.reshaped(&ty.shape)),
                other => other.clone(),
            },
            Source::Constant(k) => Buffer::Host(self.constant(k).reshaped(&ty.shape)),
            Source::Empty => Buffer::Host(empty(ty)),
            Source::Buffer(b) => match &frame.results[b] {
                Held::New(bytes) => Buffer::Host(Literal::from_buffer(ty.dtype, ty.shape.clone(), bytes.clone())),
                Held::Input(k) => inputs[*k].clone(),
            },
        };
        self.plan.results.iter().map(result).collect()
    }

    #[cold]
    fn run_traced(&self, which: Range<usize>, bases: Bases) -> Result<()> {
        trace::note_memory(self.plan.memory_use());
        let described = self.described.get_or_init(|| runtime::describe(&self.plan));
        let run = |r: usize| trace::time(&described[r], || self.run_region(r, bases));
        self.plan.fused.waves[which].iter().try_for_each(|w| {
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
        self.plan.check_inputs(inputs)?;
        let _sharing = pool::share();
        let frame = self.frames.lock().pop();
        let mut frame = frame.unwrap_or_default();
        self.fill(&mut frame, inputs)?;
        let under_way = Exchanges::new();
        let done = self.run_waves(0..self.plan.commit, Bases(&frame.bases)).and_then(|()| interrupt::check());
        if done.is_ok() {
            let overwritten = Overwritten { inputs, results: &frame.results };
            let rest = self.plan.commit..self.plan.fused.waves.len();
            interrupt::handling(Handling::Later, || self.run_waves(rest, Bases(&frame.bases)))?;
            std::mem::forget(overwritten);
        }
        drop(under_way);
        let results = done.map(|()| self.take_results(&mut frame, inputs));
        self.put_back(frame);
        results
    }

    fn run_over(&self, inputs: &[&[u8]], outs: &mut [&mut [u8]]) -> Result<bool> {
        self.run_into(inputs, outs)
    }

    fn may_fail(&self) -> bool {
        let fused = &self.plan.fused;
        (0..fused.regions.len()).any(|r| passes::Target::may_fail(&CpuTarget::default(), fused, r))
    }

    fn work(&self) -> Option<runtime::Work> {
        Some(runtime::work(&self.plan))
    }

    fn explain(&self) -> String {
        runtime::explain(&self.plan, &|r| match &self.plan.fused.regions[r] {
            Region::Loop(l) if matches!(self.code[r], Code::Call(_)) => {
                let sums = l.producer.as_ref().map(|p| self.plan.fused.graph.ty(p.slot()).dtype);
                let what = if sums == Some(DType::F32) { "finished" } else { "requantized" };
                format!("call, {what} {}x{}", l.rows(), l.columns())
            }
            Region::Loop(l) if l.producer.is_some() => format!("call into loop {}x{}", l.rows(), l.columns()),
            Region::Loop(l) => format!("loop {}x{}", l.rows(), l.columns()),
            Region::Call { .. } => "call".to_string(),
        })
    }
}

impl Compiled {
    /// Runs over memory of the caller's, which must have the sizes of the inputs and results; otherwise returns false.
    pub fn run_into(&self, inputs: &[&[u8]], outs: &mut [&mut [u8]]) -> Result<bool> {
        if !self.fits(inputs, outs) {
            return Ok(false);
        }
        let frame = self.frames.lock().pop();
        let mut frame = frame.unwrap_or_default();
        frame.bases.clear();
        // Inputs are only read: no result takes over their memory.
        frame.bases.extend(inputs.iter().map(|b| b.as_ptr().cast_mut()));
        let buffers = 0..self.plan.memory.buffers.len();
        frame.bases.extend(buffers.filter_map(|b| Some(outs[self.first_result(b)?].as_mut_ptr())));
        frame.bases.extend(self.const_bases());
        self.push_arena(&mut frame);
        let under_way = Exchanges::new();
        let done = self.run_regions(Bases(&frame.bases));
        drop(under_way);
        self.put_back(frame);
        done?;
        self.copy_results(inputs, outs);
        Ok(true)
    }
    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }
    /// What the kernels of calls must have linked, besides their ops.
    pub(crate) fn links(&self) -> BTreeSet<&'static str> {
        let binder = Binder { plan: &self.plan, read: self.plan.read(), fixed: &[] };
        let mut links = BTreeSet::new();
        for region in &self.plan.fused.regions {
            let (node, args) = match region {
                Region::Call { node, args, .. } => (*node, args),
                Region::Loop(Loop { producer: Some(p), .. }) => (p.node, &p.args),
                Region::Loop(_) => continue,
            };
            let (args, _) = self.plan.fused.operands(node, args, &[]);
            links.extend(call::links(&self.plan.fused.graph.nodes[node], &binder.bound(args)));
        }
        links
    }
    /// The regions that run by the slow reference of their op: no kernel takes them.
    pub fn slow_regions(&self) -> Result<Vec<usize>> {
        let binder = Binder { plan: &self.plan, read: self.plan.read(), fixed: &[] };
        let mut slow = Vec::new();
        for (r, region) in self.plan.fused.regions.iter().enumerate() {
            if let Region::Call { node, args, outs } = region {
                let (args, outs) = self.plan.fused.operands(*node, args, outs);
                let n = &self.plan.fused.graph.nodes[*node];
                if !call::has_kernel(n, &binder.bound(args), &binder.bound(outs))? {
                    slow.push(r);
                }
            }
        }
        Ok(slow)
    }
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

/// Binds kernels to the addresses of their operands.
struct Binder<'a> {
    plan: &'a Plan,
    /// Values that a region reads, or that are results of the graph.
    read: BTreeSet<Slot>,
    /// Inputs that have the same value at every run.
    fixed: &'a [Option<Literal>],
}

impl Binder<'_> {
    /// What a value is at every run, if it is known now.
    fn known(&self, s: Slot) -> Option<Literal> {
        let graph = &self.plan.fused.graph;
        let fixed = || {
            let input = graph.inputs.iter().position(|&i| i == s.node)?;
            let value = self.fixed.get(input)?.as_ref()?;
            let ty = graph.ty(s);
            (value.dtype() == ty.dtype && *value.shape() == ty.shape).then(|| value.clone())
        };
        graph.constant(s).cloned().or_else(fixed)
    }
    fn bound(&self, list: Vec<passes::Operand>) -> Vec<Operand> {
        let bind = |o: passes::Operand| Operand {
            spot: self.plan.address(o.slot),
            constant: self.known(o.slot),
            is_read: self.read.contains(&o.slot),
            ty: o.ty,
            layout: o.layout,
        };
        list.into_iter().map(bind).collect()
    }
    fn call(&self, node: usize, args: &[View], outs: &[View]) -> Result<Prepared> {
        let n = &self.plan.fused.graph.nodes[node];
        let (args, outs) = self.plan.fused.operands(node, args, outs);
        call::prepare(n, &self.bound(args), &self.bound(outs)).map_err(|e| e.in_op(n.op.name).at(n.site))
    }
    fn producer(&self, p: &Producer, l: &Loop) -> Result<Fed> {
        let n = &self.plan.fused.graph.nodes[p.node];
        let whole = View { root: p.slot(), layout: Layout::contiguous(&self.plan.fused.graph.ty(p.slot()).shape) };
        let (args, outs) = self.plan.fused.operands(p.node, &p.args, &[whole]);
        call::prepare_fed(n, &self.bound(args), &self.bound(outs)[0], &self.beside(p, l))
    }
    /// A kernel that finishes its sums in registers.
    fn finished(&self, p: &Producer, e: &Epilogue<Address>) -> Option<Prepared> {
        let (args, _) = self.plan.fused.operands(p.node, &p.args, &[]);
        call::prepare_finished(&self.plan.fused.graph.nodes[p.node], &self.bound(args), e)
    }
    /// A kernel whose epilogue is not a loop but part of it.
    fn requantized(&self, l: &Loop) -> Option<Prepared> {
        if !const { call::int_conv::IS_LINKED || call::matmul::IS_INT8_LINKED } {
            return None;
        }
        let p = l.producer.as_ref()?;
        let graph = &self.plan.fused.graph;
        let r = tile::recognize_requantize(l, graph, p.slot(), &|s| self.plan.address(s))?;
        let (args, _) = self.plan.fused.operands(p.node, &p.args, &[]);
        call::prepare_requantized(&graph.nodes[p.node], &self.bound(args), &r)
    }
    /// Where else an epilogue reads and writes, element by element as the result of its kernel is laid out.
    fn beside(&self, p: &Producer, l: &Loop) -> Vec<Address> {
        let (graph, slot) = (&self.plan.fused.graph, p.slot());
        let size = graph.ty(slot).dtype.size();
        let is_alike = |s: Slot, strides: &[isize]| {
            strides == [l.columns() as isize, 1] && graph.ty(s).dtype.size() == size && s != slot
        };
        let own = self.plan.address(slot);
        let mut found: Vec<Address> = Vec::new();
        let mut add = |a: Address| {
            if a != own && !found.contains(&a) {
                found.push(a);
            }
        };
        for step in &l.steps {
            if let Step::Load { root, strides, offset } = step
                && is_alike(*root, strides)
            {
                let a = self.plan.address(*root);
                add(Address { offset: a.offset + offset * size, ..a });
            }
        }
        // A result that takes over an input's memory was read there.
        for s in l.stores.iter().filter(|s| is_alike(s.slot, &s.strides) && self.plan.donor(s.slot).is_none()) {
            add(self.plan.address(s.slot));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ir::{Attrs, Shape, Site};

    /// Columns are reduced as they lie in memory; rows of 16 KB were copied into tiles first.
    #[test]
    fn a_reduction_of_columns_copies_nothing() {
        for name in ["sum", "prod", "max", "min"] {
            let mut g = Graph::new();
            let x = g.input("", &Type::new(DType::F32, Shape::new(&[245, 4096])), Site::UNKNOWN);
            let y = g.push(ops::find(name).unwrap(), &[x], Attrs::new().with("axes", &[0usize][..]), Site::UNKNOWN);
            g.outputs = vec![y.unwrap()];
            let program = Compiled::new(g).unwrap();
            let [Code::Loop(tiles)] = &program.code[..] else { panic!("{name} is not one loop") };
            assert_eq!(tiles.copies(), 0, "{name}");
        }
    }
}
