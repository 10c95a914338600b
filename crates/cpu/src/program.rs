//! A compiled graph: regions in order, over inputs, constants, results and an arena.

#![allow(unsafe_code)]

use crate::call::{self, Operand, Prepared};
use crate::explain;
use crate::tile::access::{Bases, Spot};
use crate::tile::{self, Homes, Tiles, plan::ROW_MAX};
use crate::trace;
use ir::{Buffer, Bytes, Error, Graph, Layout, Literal, Meaning, Result, Slot, Type};
use parking_lot::Mutex;
use passes::{Arrangement, Fused, Home, Place, Region, Target, arrange, fuse, place_of};
use runtime::Program;
use smallvec::SmallVec;
use std::sync::Arc;

/// How a region runs.
enum Work {
    Loop(Tiles),
    Call(Prepared),
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
    arrangement: Arrangement,
    work: Vec<Work>,
    inputs: Vec<Type>,
    consts: Vec<Literal>,
    answers: Vec<(Answer, Type)>,
    /// Arenas that no run is using.
    arenas: Mutex<Vec<Bytes>>,
}

impl Compiled {
    /// Compiles a graph of primitive ops and claimed composites.
    pub fn new(graph: Graph) -> Result<Compiled> {
        let fused = fuse(&graph, &Target { row_max: ROW_MAX, accepts: &call::accepts })?;
        let graph = &fused.graph;
        let plans: Vec<_> = fused
            .regions
            .iter()
            .map(|r| if let Region::Loop(l) = r { Some(tile::plan(l, graph)) } else { None })
            .collect();
        let scratch: Vec<usize> = fused
            .regions
            .iter()
            .zip(&plans)
            .map(|(r, p)| if let (Region::Loop(l), Some(p)) = (r, p) { tile::scratch_bytes(l, p) } else { 0 })
            .collect();
        let arrangement = arrange(&fused, &scratch);
        debug_assert_eq!(passes::check_arrangement(&fused, &arrangement, &scratch), Ok(()));

        let consts = constants(graph);
        let map = BaseMap { graph, arrangement: &arrangement, consts: &consts };
        let mut work = Vec::with_capacity(fused.regions.len());
        for ((r, region), plan) in fused.regions.iter().enumerate().zip(plans) {
            work.push(match (region, plan) {
                (Region::Loop(l), Some(plan)) => {
                    let homes = Homes { spot: &|s| map.spot(s), donor: &|s| map.donor(s) };
                    let partials = Spot { base: map.arena(), offset: arrangement.scratch[r] };
                    Work::Loop(tile::emit(l, graph, plan, &homes, partials))
                }
                (Region::Call { node, args }, _) => Work::Call(map.call(*node, args)?),
                (Region::Loop(_), None) => return Err(Error::bug("a loop without a plan")),
            });
        }
        let answers = graph.outputs.iter().map(|&s| map.answer(&fused, s)).collect();
        let inputs = graph.inputs.iter().map(|&i| graph.nodes[i as usize].outs[0].clone()).collect();
        let consts = consts.into_iter().map(|(_, c)| c).collect();
        Ok(Compiled { work, answers, inputs, consts, arrangement, fused, arenas: Mutex::default() })
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

    /// Takes over the buffer of an input that nobody else holds, or makes a new one.
    fn buffer(&self, b: &passes::ResultBuffer, inputs: &mut [Buffer]) -> Arc<Bytes> {
        if let Some(k) = b.donor
            && let Buffer::Host(l) = &mut inputs[k]
            && Arc::strong_count(l.buffer()) == 1
            && l.buffer().as_slice().len() == b.bytes
        {
            let empty = Literal::zeros(l.dtype(), [0]);
            return std::mem::replace(l, empty).into_buffer();
        }
        Arc::new(Bytes::any(b.bytes))
    }

    /// Where each result comes from.
    pub(crate) fn answers(&self) -> impl ExactSizeIterator<Item = &Answer> {
        self.answers.iter().map(|(a, _)| a)
    }
    /// The size of each result buffer.
    pub(crate) fn result_bytes(&self) -> impl Iterator<Item = usize> {
        self.arrangement.buffers.iter().map(|b| b.bytes)
    }
    /// How much memory a run needs for itself.
    pub(crate) fn arena_bytes(&self) -> usize {
        self.arrangement.arena_bytes
    }
    /// The addresses of the constants, which come after the inputs and the result buffers.
    pub(crate) fn const_bases(&self) -> impl Iterator<Item = *mut u8> {
        self.consts.iter().map(|c| c.bytes().as_ptr().cast_mut())
    }

    /// Runs over memory of the caller's: inputs, result buffers, constants, arena.
    pub(crate) fn run_regions(&self, bases: Bases) -> Result<()> {
        if trace::is_on() {
            return self.run_traced(bases);
        }
        (0..self.work.len()).try_for_each(|r| self.run_region(r, bases))
    }

    fn run_region(&self, r: usize, bases: Bases) -> Result<()> {
        match &self.work[r] {
            // SAFETY: the bases were made for this program, and regions run one after the other.
            Work::Loop(tiles) => unsafe { tiles.run(bases) },
            Work::Call(f) => f(bases).map_err(|e| {
                let n = &self.fused.graph.nodes[self.fused.regions[r].nodes()[0] as usize];
                e.in_op(n.op.name).at(n.site)
            })?,
        }
        Ok(())
    }

    #[cold]
    fn run_traced(&self, bases: Bases) -> Result<()> {
        let graph = &self.fused.graph;
        for (r, region) in self.fused.regions.iter().enumerate() {
            let describe = || {
                let (read, written) = explain::traffic(region, graph);
                (explain::names(region, graph), explain::sites(region, graph), read + written)
            };
            trace::time(describe, || self.run_region(r, bases))?;
        }
        Ok(())
    }
}

impl Program for Compiled {
    fn run(&self, mut inputs: Vec<Buffer>) -> Result<Vec<Buffer>> {
        for b in &mut inputs {
            if let Buffer::Device(s) = b {
                *b = Buffer::Host(s.read()?);
            }
        }
        self.check(&inputs)?;
        let mut bases: SmallVec<[*mut u8; 32]> = SmallVec::new();
        for b in &inputs {
            let Buffer::Host(l) = b else { return Err(Error::bug("an input that was not read")) };
            bases.push(l.buffer().as_slice().as_ptr().cast_mut());
        }
        let mut results: SmallVec<[Arc<Bytes>; 4]> = SmallVec::new();
        for b in &self.arrangement.buffers {
            let mut r = self.buffer(b, &mut inputs);
            let bytes = Arc::get_mut(&mut r).ok_or_else(|| Error::bug("a result buffer is shared"))?;
            let p = bytes.as_mut().as_mut_ptr();
            if let Some(k) = b.donor
                && bases[k] == p
            {
                // Taken over: the input is now read through the pointer that may write it.
                bases[k] = p;
            }
            bases.push(p);
            results.push(r);
        }
        bases.extend(self.const_bases());
        let arena = self.arenas.lock().pop();
        let mut arena = arena.unwrap_or_else(|| Bytes::any(self.arrangement.arena_bytes));
        bases.push(arena.as_mut().as_mut_ptr());
        let done = self.run_regions(Bases(&bases));
        self.arenas.lock().push(arena);
        done?;
        Ok(self
            .answers
            .iter()
            .map(|(a, ty)| match a {
                Answer::Input(k) => match &inputs[*k] {
                    Buffer::Host(l) => Buffer::Host(l.reshaped(&ty.shape)),
                    other => other.clone(),
                },
                Answer::Const(c) => Buffer::Host(c.clone()),
                Answer::Result(b) => {
                    Buffer::Host(Literal::from_buffer(ty.dtype, ty.shape.clone(), results[*b].clone()))
                }
            })
            .collect())
    }

    fn explain(&self) -> String {
        explain::explain(&self.fused, &self.arrangement)
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
    arrangement: &'a Arrangement,
    consts: &'a [(usize, Literal)],
}

impl BaseMap<'_> {
    fn arena(&self) -> u32 {
        (self.graph.inputs.len() + self.arrangement.buffers.len() + self.consts.len()) as u32
    }
    fn spot(&self, s: Slot) -> Spot {
        let (base, offset) = match self.arrangement.home(s) {
            Home::Input(k) => (k, 0),
            Home::Result(b) => (self.graph.inputs.len() + b, 0),
            Home::Const(i) => {
                let at = self.consts.iter().position(|(j, _)| *j == i).expect("every constant is listed");
                (self.graph.inputs.len() + self.arrangement.buffers.len() + at, 0)
            }
            Home::Arena(at) => (self.arena() as usize, at),
            // Empty values: nothing is read or written.
            Home::Nowhere => (self.arena() as usize, 0),
        };
        Spot { base: base as u32, offset }
    }
    /// The input whose memory a result may take over.
    fn donor(&self, s: Slot) -> Option<Slot> {
        let Home::Result(b) = self.arrangement.home(s) else { return None };
        self.arrangement.buffers[b].donor.map(|k| Slot { node: self.graph.inputs[k], out: 0 })
    }
    fn call(&self, node: usize, args: &[Place]) -> Result<Prepared> {
        let n = &self.graph.nodes[node];
        let args: Vec<Operand> = args
            .iter()
            .map(|p| {
                let ty = Type::new(self.graph.ty(p.root).dtype, p.layout.shape.clone());
                Operand { spot: self.spot(p.root), ty, layout: p.layout.clone() }
            })
            .collect();
        let outs: Vec<Operand> = (0..n.outs.len())
            .map(|o| {
                let ty = n.outs[o].clone();
                Operand { spot: self.spot(Slot::new(node, o)), layout: Layout::contiguous(&ty.shape), ty }
            })
            .collect();
        call::prepare(n, &args, &outs).map_err(|e| e.in_op(n.op.name).at(n.site))
    }
    fn answer(&self, fused: &Fused, s: Slot) -> (Answer, Type) {
        let ty = self.graph.ty(s).clone();
        let root = place_of(self.graph, &fused.places, s).root;
        let answer = match self.arrangement.home(root) {
            Home::Input(k) => Answer::Input(k),
            Home::Result(b) => Answer::Result(b),
            Home::Const(_) => match self.graph.constant(root) {
                Some(c) => Answer::Const(c.reshaped(&ty.shape)),
                None => Answer::Const(Literal::zeros(ty.dtype, ty.shape.clone())),
            },
            // Only empty values are stored nowhere.
            Home::Nowhere | Home::Arena(_) => Answer::Const(Literal::zeros(ty.dtype, ty.shape.clone())),
        };
        (answer, ty)
    }
}
