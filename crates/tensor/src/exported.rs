//! A function as a graph that stands alone: its arguments and the weights it reads.

use crate::bind::{Bound, Weights};
use crate::trace::trace;
use ir::{Collect, Error, ErrorKind, Graph, Literal, Result, Site, Type, Value};
use ops::{Tensor, engine, no_grad};

/// What an input of an exported graph is.
#[derive(Clone, Debug)]
pub enum ExportedInput {
    /// The argument with that number.
    Argument(usize),
    /// A variable, by its name, or a tensor that the function captured, without one.
    Weight {
        /// The variable's name; empty for a captured tensor.
        name: String,
        /// Its value now.
        value: Literal,
    },
}

/// A function as a graph.
#[derive(Clone, Debug)]
pub struct Exported {
    /// The graph, as the program wrote it.
    pub graph: Graph,
    /// What each input of the graph is.
    pub inputs: Vec<ExportedInput>,
}

impl Exported {
    /// Traces a function of arguments of these types. A function that draws random numbers, assigns variables or talks
    /// to other processes is not a function of its inputs: that is an error.
    #[track_caller]
    pub fn trace(arguments: &[Type], f: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>) -> Result<Exported> {
        let site = Site::here();
        engine().evaluate(&[])?;
        let mut feeds = Vec::new();
        let traced = no_grad(|| {
            trace(|| {
                feeds = arguments.iter().map(|t| Value::placeholder("argument", t.clone(), site)).collect();
                let args: Vec<Tensor> = feeds.iter().cloned().map(Tensor::from).collect();
                f(&args)?.iter().map(|t| t.value().cloned()).collect::<Result<Vec<_>>>()
            })
        })?;
        let refuse = |e: String| Error::new(ErrorKind::Value, e).in_op("export");
        if let Some((var, value)) = traced.assigned.first() {
            let e = format!("the function updates {:?}: call eval() on the model before exporting it", var.name());
            return Err(refuse(e).at(value.node().site()));
        }
        if let Some(value) = traced.effects.first() {
            return Err(refuse("the function talks to other processes".into()).at(value.node().site()));
        }
        let mode = Collect::Trace { since: traced.since };
        Bound::new(&traced.result, &[], &feeds, mode, Weights::Live)?.exported(refuse)
    }
}
