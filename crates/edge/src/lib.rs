//! The runtime of a program that holds one model.
//!
//! `talweg build` compiles a model to a plan of the CPU, writes the plan and the weights to a *bundle*, and makes a
//! program of the bundle and this crate. The program has no op table, no passes, no threads and no server. It links
//! only the kernels, loops and element types that the plan names ([`ir::is_linked`]). Weights are used where they lie
//! in the program. From the second run on, a run allocates nothing.

mod command;
pub mod host;

pub use command::{command, nested, read_input};

use cpu::Compiled;
use ir::{Error, Result, Type};
use passes::Plan;
use passes::stored::{Reader, Writer};

/// Bytes of a file on a boundary of 64 bytes, as [`Model::new`] wants them: `embed!("model.bin")`.
#[macro_export]
macro_rules! embed {
    ($path:expr) => {{
        #[repr(C, align(64))]
        struct Aligned<T: ?Sized>(T);
        static BUNDLE: &Aligned<[u8]> = &Aligned(*include_bytes!($path));
        &BUNDLE.0
    }};
}

/// An input or output.
#[derive(Clone, Debug)]
pub struct Port {
    /// Its name.
    pub name: &'static str,
    /// Its element type and shape.
    pub ty: Type,
}

/// A model that is ready to run.
pub struct Model {
    name: &'static str,
    inputs: Vec<Port>,
    outputs: Vec<Port>,
    program: Compiled,
}

/// Writes a bundle: a plan with the names of the model, its inputs and its outputs.
pub fn bundle(name: &str, inputs: &[String], outputs: &[String], plan: &Plan) -> Result<Vec<u8>> {
    let mut w = Writer::default();
    w.text(name);
    for names in [inputs, outputs] {
        w.list(names, |w, n| {
            w.text(n);
            Ok(())
        })?;
    }
    plan.write(&mut w)?;
    Ok(w.finish())
}

impl Model {
    /// Makes the model of a bundle ready to run: constants are brought into the form that kernels read.
    pub fn new(bundle: &'static [u8]) -> Result<Model> {
        let mut r = Reader::new(bundle)?;
        let name = r.text()?;
        let (inputs, outputs) = (r.list(Reader::text)?, r.list(Reader::text)?);
        let plan = Plan::read_from(&mut r)?;
        let port = |(name, ty): (&'static str, &Type)| Port { name, ty: ty.clone() };
        let inputs = inputs.into_iter().zip(&plan.inputs).map(port).collect();
        let outputs = outputs.into_iter().zip(plan.results.iter().map(|(_, t)| t)).map(port).collect();
        Ok(Model { name, inputs, outputs, program: Compiled::of_plan(plan)? })
    }
    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }
    /// Its inputs, in order.
    pub fn inputs(&self) -> &[Port] {
        &self.inputs
    }
    /// Its outputs, in order.
    pub fn outputs(&self) -> &[Port] {
        &self.outputs
    }
    /// Bytes of working memory that a run needs besides inputs and outputs.
    pub fn arena_bytes(&self) -> usize {
        self.program.plan().memory.arena_bytes
    }

    /// Computes the outputs; all are little-endian bytes in row-major order. Allocates nothing from the second run on.
    pub fn run(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<()> {
        if self.program.run_into(inputs, outputs)? {
            return Ok(());
        }
        Err(self.misfit(inputs, outputs))
    }
    #[cold]
    fn misfit(&self, inputs: &[&[u8]], outputs: &[&mut [u8]]) -> Error {
        let given = |ports: &[Port], bytes: &mut dyn Iterator<Item = usize>| {
            let want: Vec<String> =
                ports.iter().map(|p| format!("{} {} of {} bytes", p.name, p.ty, p.ty.bytes())).collect();
            format!("takes {}, but {:?} bytes were given", want.join(", "), bytes.collect::<Vec<_>>())
        };
        let (ins, outs) = (&mut inputs.iter().map(|b| b.len()), &mut outputs.iter().map(|b| b.len()));
        let (ins, outs) = (given(&self.inputs, ins), given(&self.outputs, outs));
        Error::shape(format!("{}: the input {ins}; the output {outs}", self.name))
    }
}
