//! A model that runs: one program for each size, compiled when it is first needed.

use crate::fold::{Folded, fold};
use crate::polymorphic::{Polymorphic, Role};
use crate::signature::Signature;
use ir::{Attrs, Buffer, CONST, Error, Graph, Literal, Result, Shape};
use parking_lot::Mutex;
use runtime::{Engine, Program};
use std::path::Path;
use std::sync::Arc;

/// Programs kept at most; the one that was not used for the longest goes first.
const PROGRAMS_MAX: usize = 256;

/// An exported model.
pub struct Model {
    signature: Signature,
    graph: Polymorphic,
    roles: Vec<Role>,
    engine: &'static Engine,
    /// Weights in the device's memory, by input of the graph.
    placed: Vec<Option<Buffer>>,
    /// The last used is the last.
    programs: Mutex<Vec<Compiled>>,
}

/// The program for one size.
#[derive(Clone)]
struct Compiled {
    sizes: Vec<usize>,
    program: Arc<dyn Program>,
    /// Values that follow the inputs of the graph: what depends on weights alone.
    folded: Option<Arc<Constants>>,
}

/// What depends on weights alone, and the graph that computed it.
struct Constants {
    graph: Graph,
    reads: Vec<usize>,
    values: Vec<Buffer>,
}

impl Model {
    /// Reads a directory that [`crate::Export`] wrote. Every file is checked; nothing in it is trusted.
    pub fn load(dir: impl AsRef<Path>) -> Result<Model> {
        crate::files::read(dir.as_ref())
    }
    /// The same on a device, such as `cuda:0`; without one, on the current device.
    pub fn load_on(dir: impl AsRef<Path>, device: Option<&str>) -> Result<Model> {
        match device {
            None => Model::load(dir),
            Some(name) => tensor::device(name, || Model::load(dir))?,
        }
    }

    pub(crate) fn new(signature: Signature, graph: Polymorphic, roles: Vec<Role>) -> Result<Model> {
        let engine = tensor::engine();
        if graph.graph().inputs.len() != roles.len() {
            return Err(Error::format(format!("{} inputs have {} roles", graph.graph().inputs.len(), roles.len())));
        }
        let place = |r: &Role| match r {
            Role::Argument(_) => Ok(None),
            Role::Weight(_, value) => engine.device().place(&Buffer::Host(value.clone())).map(Some),
        };
        let placed = roles.iter().map(place).collect::<Result<Vec<_>>>()?;
        Ok(Model { signature, graph, roles, engine, placed, programs: Mutex::default() })
    }

    /// What it takes and returns.
    pub fn signature(&self) -> &Signature {
        &self.signature
    }
    pub(crate) fn set_batched(&mut self, is_batched: bool) {
        self.signature.is_batched = is_batched;
    }
    pub(crate) fn set_padded(&mut self, dim: usize) {
        self.signature.dims[dim].is_padded = true;
    }
    pub(crate) fn parts(&self) -> (&Polymorphic, &[Role]) {
        (&self.graph, &self.roles)
    }
    /// Bytes of its weights, and of the forms of them that the compiled programs hold.
    pub fn weight_bytes(&self) -> usize {
        let bytes = |r: &Role| if let Role::Weight(_, l) = r { l.bytes().len() } else { 0 };
        self.roles.iter().map(bytes).sum::<usize>() + self.packed_bytes()
    }
    /// Bytes of weights in the form of their kernels.
    pub fn packed_bytes(&self) -> usize {
        let mut folded: Vec<Arc<Constants>> = Vec::new();
        for f in self.programs.lock().iter().filter_map(|c| c.folded.as_ref()) {
            if !folded.iter().any(|known| Arc::ptr_eq(known, f)) {
                folded.push(f.clone());
            }
        }
        let values = folded.iter().flat_map(|f| &f.values);
        self.placed.iter().flatten().chain(values).map(|b| self.engine.device().packed_bytes(b)).sum()
    }
    /// The graph at these sizes of the free dimensions.
    pub fn graph(&self, sizes: &[usize]) -> Result<Graph> {
        self.graph.at(sizes)
    }

    fn compiled(&self, sizes: &[usize]) -> Result<Compiled> {
        let find = || {
            let mut programs = self.programs.lock();
            let at = programs.iter().position(|c| c.sizes == sizes)?;
            programs[at..].rotate_left(1);
            programs.last().cloned()
        };
        if let Some(compiled) = find() {
            return Ok(compiled);
        }
        // Without the lock: other sizes are served meanwhile.
        let graph = self.graph.at(sizes)?;
        let is_weight: Vec<bool> = self.roles.iter().map(|r| matches!(r, Role::Weight(..))).collect();
        let (each, folded) = match fold(&graph, &is_weight) {
            None => (graph, None),
            Some(Folded { once, reads, each }) => (each, Some(self.constants(once, &reads)?)),
        };
        let values = folded.iter().flat_map(|f| f.values.iter().map(Some));
        let on_host = |b: Option<&Buffer>| b.and_then(|b| if let Buffer::Host(l) = b { Some(l.clone()) } else { None });
        let fixed: Vec<Option<Literal>> = self.placed.iter().map(Option::as_ref).chain(values).map(on_host).collect();
        let program = self.engine.compile_fixed(&each, &fixed)?;
        let compiled = Compiled { sizes: sizes.to_vec(), program, folded };
        let mut programs = self.programs.lock();
        if programs.len() >= PROGRAMS_MAX {
            programs.remove(0);
        }
        programs.push(compiled.clone());
        Ok(compiled)
    }

    /// The values of a graph of weights alone. Most do not depend on free dimensions: sizes share them.
    fn constants(&self, graph: Graph, reads: &[usize]) -> Result<Arc<Constants>> {
        let is_same = |c: &Compiled| c.folded.clone().filter(|f| f.graph == graph && f.reads == reads);
        if let Some(known) = self.programs.lock().iter().find_map(is_same) {
            return Ok(known);
        }
        let weight = |&i: &usize| self.placed[i].clone().ok_or_else(|| Error::bug("an argument was folded"));
        let mut inputs = reads.iter().map(weight).collect::<Result<Vec<Buffer>>>()?;
        let values = self.engine.compile(&graph)?.run(&mut inputs)?;
        Ok(Arc::new(Constants { graph, reads: reads.to_vec(), values }))
    }

    /// The graph at these sizes, in which weights, and what depends on weights alone, are constants; its inputs are the
    /// arguments in order. A program that holds nothing else is made from it.
    pub fn frozen(&self, sizes: &[usize]) -> Result<Graph> {
        let whole = self.graph.at(sizes)?;
        let is_weight: Vec<bool> = self.roles.iter().map(|r| matches!(r, Role::Weight(..))).collect();
        let (mut graph, folded) = match fold(&whole, &is_weight) {
            None => (whole, None),
            Some(Folded { once, reads, each }) => (each, Some(self.constants(once, &reads)?)),
        };
        let mut arguments: Vec<(usize, u32)> = Vec::new();
        let folded = folded.iter().flat_map(|f| &f.values);
        let bound = self.roles.iter().map(Ok).chain(folded.map(Err));
        for (input, value) in graph.inputs.clone().into_iter().zip(bound) {
            let value = match value {
                Ok(Role::Argument(i)) => {
                    arguments.push((*i, input));
                    continue;
                }
                Ok(Role::Weight(_, value)) => value.clone(),
                Err(buffer) => buffer.read()?,
            };
            let node = &mut graph.nodes[input as usize];
            (node.op, node.attrs) = (&CONST, Attrs::new().with("value", value));
        }
        arguments.sort_unstable();
        if !arguments.iter().map(|a| a.0).eq(0..self.signature.inputs.len()) {
            return Err(Error::format("an argument is no input of the graph, or is one twice"));
        }
        graph.inputs = arguments.into_iter().map(|a| a.1).collect();
        Ok(graph)
    }

    /// What runs the model at these sizes, compiled if it was not yet.
    pub fn prepare(&self, sizes: &[usize]) -> Result<Prepared> {
        let bind = |(role, placed): (&Role, &Option<Buffer>)| match (role, placed) {
            (Role::Argument(i), _) => Binding::Argument(*i),
            (Role::Weight(_, value), None) => Binding::Weight(Buffer::Host(value.clone())),
            (_, Some(b)) => Binding::Weight(b.clone()),
        };
        let Compiled { program, folded, .. } = self.compiled(sizes)?;
        let mut bindings: Vec<Binding> = self.roles.iter().zip(&self.placed).map(bind).collect();
        bindings.extend(folded.iter().flat_map(|f| f.values.iter().cloned().map(Binding::Weight)));
        Ok(Prepared { program, bindings })
    }

    /// Fails unless the inputs fit the signature; returns the sizes of the free dimensions.
    pub fn check(&self, inputs: &[Literal]) -> Result<Vec<usize>> {
        for (spec, l) in self.signature.inputs.iter().zip(inputs) {
            if spec.dtype()? != l.dtype() {
                return Err(Error::dtype(format!("{}: expected {}, got {}", spec.name, spec.dtype, l.dtype())));
            }
        }
        let shapes: Vec<&Shape> = inputs.iter().map(Literal::shape).collect();
        self.signature.sizes(&shapes)
    }

    /// The outputs for these inputs.
    pub fn run(&self, inputs: &[Literal]) -> Result<Vec<Literal>> {
        let sizes = self.check(inputs)?;
        self.prepare(&sizes)?.run(inputs)
    }
}

/// Where an input of the graph comes from.
enum Binding {
    Argument(usize),
    Weight(Buffer),
}

/// A model at fixed sizes: runs without a lock and without looking anything up.
pub struct Prepared {
    program: Arc<dyn Program>,
    bindings: Vec<Binding>,
}

impl Prepared {
    /// The outputs for inputs of the prepared sizes.
    pub fn run(&self, inputs: &[Literal]) -> Result<Vec<Literal>> {
        let bind = |b: &Binding| match b {
            Binding::Argument(i) => Buffer::Host(inputs[*i].clone()),
            Binding::Weight(value) => value.clone(),
        };
        let mut buffers: Vec<Buffer> = self.bindings.iter().map(bind).collect();
        self.program.run(&mut buffers)?.iter().map(Buffer::read).collect()
    }
}
