//! A graph as work for a GPU, decided without one: kernels as text, products, calls of the host,
//! and where everything lies.

use crate::blas::{self, Product};
use crate::emit::kernels::{self, Operand};
use crate::emit::{self, Arg, Kernel};
use ir::{Error, FlatNode, Graph, Layout, Literal, Meaning, Result, Slot, Type};
use passes::{Arrangement, Fused, Home, Place, Region, Step, Target, arrange, fuse, place_of};

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
    /// A matrix product; places of a, b and the result.
    Product(Product, [Spot; 3]),
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
    pub arrangement: Arrangement,
    /// What each region does.
    pub work: Vec<Work>,
    /// Types of the inputs.
    pub inputs: Vec<Type>,
    /// Constants that are read from memory, with their nodes.
    pub consts: Vec<(usize, Literal)>,
    /// The results.
    pub answers: Vec<(Answer, Type)>,
}

fn accepts(n: &FlatNode, _: usize, l: &Layout) -> bool {
    n.op.name == "matmul" && (!blas::has(n.outs[0].dtype) || blas::accepts(l, &n.outs[0].shape))
}

/// The operands and results of a node.
fn operands(graph: &Graph, node: usize, args: &[Place]) -> (Vec<Operand>, Vec<Operand>) {
    let arg = |p: &Place| Operand {
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

/// True if a region runs on the host.
fn is_host(fused: &Fused, r: &Region) -> bool {
    let Region::Call { node, args } = r else { return false };
    let (args, outs) = operands(&fused.graph, *node, args);
    let n = &fused.graph.nodes[*node];
    n.op.name != "matmul" && kernels::kernels(n, &args, &outs).is_none()
}

impl Plan {
    /// Plans a graph of primitive ops.
    pub fn new(graph: &Graph) -> Result<Plan> {
        let fused = fuse(graph, &Target { row_max: emit::ROW_MAX, accepts: &accepts })?;
        let scratch: Vec<usize> = fused
            .regions
            .iter()
            .map(|r| if let Region::Loop(l) = r { emit::lower(l, &fused.graph, true).scratch } else { 0 })
            .collect();
        // What runs on the host may fail; nothing is overwritten before the last of it is done.
        let commit = fused.regions.iter().rposition(|r| is_host(&fused, r)).map_or(0, |r| r + 1);
        let arrangement = arrange(&fused, &scratch, commit);
        let graph = &fused.graph;
        let nodes = graph.nodes.iter().enumerate().filter(|(_, n)| matches!(n.op.meaning, Meaning::Const));
        let consts = nodes.filter_map(|(i, n)| n.attrs.literal("value").ok().map(|c| (i, c.clone()))).collect();
        let inputs = graph.inputs.iter().map(|&i| graph.nodes[i as usize].outs[0].clone()).collect();
        let mut plan = Plan { arrangement, work: Vec::new(), inputs, consts, answers: Vec::new(), fused };
        for r in 0..plan.fused.regions.len() {
            let work = plan.work_of(r)?;
            plan.work.push(work);
        }
        plan.answers = plan.fused.graph.outputs.iter().map(|&s| plan.answer(s)).collect();
        Ok(plan)
    }

    fn work_of(&self, r: usize) -> Result<Work> {
        let graph = &self.fused.graph;
        match &self.fused.regions[r] {
            Region::Loop(l) => {
                let loads =
                    l.steps.iter().filter_map(|s| if let Step::Load { root, .. } = s { Some(*root) } else { None });
                let loads: Vec<Slot> = loads.collect();
                let in_place = l.stores.iter().any(|s| loads.iter().any(|&root| self.may_share(s.slot, root)));
                Ok(Work::Kernels(emit::lower(l, graph, in_place).kernels))
            }
            Region::Call { node, args } => self.call(*node, args),
        }
    }

    /// True if a result lies, or may lie, where an operand does.
    fn may_share(&self, result: Slot, operand: Slot) -> bool {
        match (self.arrangement.home(result), self.arrangement.home(operand)) {
            (Home::Arena(a), Home::Arena(b)) => a == b,
            (Home::Result(b), Home::Input(k)) => self.arrangement.buffers[b].donor == Some(k),
            _ => false,
        }
    }

    fn call(&self, node: usize, args: &[Place]) -> Result<Work> {
        let n = &self.fused.graph.nodes[node];
        let (args, outs) = operands(&self.fused.graph, node, args);
        if n.op.name == "matmul"
            && let Some(p) = blas::product(&args[0], &args[1], &outs[0])
        {
            return Ok(Work::Product(p, [self.first(&args[0]), self.first(&args[1]), self.first(&outs[0])]));
        }
        if let Some(kernels) = kernels::kernels(n, &args, &outs) {
            return Ok(Work::Kernels(kernels));
        }
        if !matches!(n.op.meaning, Meaning::Kernel(_) | Meaning::Control(_)) {
            return Err(Error::bug("neither a loop nor a kernel").in_op(n.op.name).at(n.site));
        }
        let list = |o: &[Operand]| o.iter().map(|o| (self.first(o), o.ty.clone())).collect();
        Ok(Work::Host { node, args: list(&args), outs: list(&outs) })
    }

    fn first(&self, o: &Operand) -> Spot {
        let s = self.spot(o.slot);
        Spot { offset: s.offset + o.layout.offset * o.ty.dtype.size(), ..s }
    }

    /// The arena's number among a run's blocks.
    pub fn arena(&self) -> usize {
        self.inputs.len() + self.arrangement.buffers.len() + self.consts.len()
    }
    /// Where a stored value lies.
    pub fn spot(&self, s: Slot) -> Spot {
        let (base, offset) = match self.arrangement.home(s) {
            Home::Input(k) => (k, 0),
            Home::Result(b) => (self.inputs.len() + b, 0),
            Home::Const(i) => {
                let at = self.consts.iter().position(|(j, _)| *j == i).expect("every constant is listed");
                (self.inputs.len() + self.arrangement.buffers.len() + at, 0)
            }
            Home::Arena(at) => (self.arena(), at),
            // Empty values: nothing is read or written.
            Home::Nowhere => (self.arena(), 0),
        };
        Spot { base, offset }
    }
    /// Where a kernel's pointer points to; `None` for what is not a pointer into a block.
    pub fn pointer(&self, region: usize, arg: Arg) -> Option<Spot> {
        match arg {
            Arg::Value(s) => Some(self.spot(s)),
            Arg::Scratch(at) => Some(Spot { base: self.arena(), offset: self.arrangement.scratch[region] + at }),
            Arg::Report | Arg::Launch => None,
        }
    }

    fn answer(&self, s: Slot) -> (Answer, Type) {
        let graph = &self.fused.graph;
        let root = place_of(graph, &self.fused.places, s).root;
        let answer = match self.arrangement.home(root) {
            Home::Input(k) => Answer::Input(k),
            Home::Result(b) => Answer::Result(b),
            Home::Const(i) => match self.consts.iter().position(|(j, _)| *j == i) {
                Some(k) => Answer::Const(k),
                None => Answer::Empty,
            },
            // Only empty values are stored nowhere.
            Home::Nowhere | Home::Arena(_) => Answer::Empty,
        };
        (answer, graph.ty(s).clone())
    }

    /// Every kernel, with the region it belongs to.
    pub fn kernels(&self) -> impl Iterator<Item = (usize, &Kernel)> {
        self.work.iter().enumerate().flat_map(|(r, w)| {
            let list: &[Kernel] = if let Work::Kernels(k) = w { k } else { &[] };
            list.iter().map(move |k| (r, k))
        })
    }
}
