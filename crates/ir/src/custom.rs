//! Ops that a program defines while it runs: their rules are an object, which may hold state, where the rows of the
//! table are functions. A host language calls back through them, and kernels in C or CUDA C enter the graph.

use crate::{Error, ErrorKind, GradCall, Result, Type, Types, Value};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The CUDA C of an op's kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CudaSource {
    /// Text with a `__device__` function that computes element `i` of the first output: it gets `long long i`, then a
    /// pointer for each input and for each output. The constants `sizes` are the dimensions of all inputs and
    /// outputs, one after the other.
    pub source: String,
    /// The name of that function.
    pub function: String,
}

/// How an op runs over a batch of examples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Vmap {
    /// Once for each example.
    #[default]
    Sequential,
    /// Once: inputs have the batch dimension first, those that all examples share with size 1.
    ExpandDims,
    /// Once: all inputs have the batch dimension first, with its size.
    BroadcastAll,
}

/// The rules of an op.
pub trait CustomOp: Send + Sync {
    /// Its name in messages, explanations and drawings.
    fn name(&self) -> &str;
    /// Types of the results, or why the inputs do not fit.
    fn infer(&self, types: &[Type]) -> Result<Types>;
    /// Computes: the elements of each input, one after the other in row-major order, and room for each output.
    fn run(&self, inputs: &[(&Type, &[u8])], outputs: &mut [(&Type, &mut [u8])]) -> Result<()>;
    /// A gradient for each input, `None` for zero.
    fn grad(&self, _: &GradCall) -> Result<Vec<Option<Value>>> {
        Err(Error::new(ErrorKind::Gradient, "it has no gradient: give it one, or stop_gradient its inputs"))
    }
    /// How `vmap` runs it.
    fn vmap(&self) -> Vmap {
        Vmap::Sequential
    }
    /// Whether it calls back into the program, which may look at variables meanwhile: a run with such an op updates
    /// none in place.
    fn calls_back(&self) -> bool {
        true
    }
    /// How a GPU computes it; without it the values go to the host and back.
    fn cuda(&self) -> Option<&CudaSource> {
        None
    }
}

/// A shared handle; two handles are equal if they are of one object.
#[derive(Clone)]
pub struct Custom(pub Arc<dyn CustomOp>);

impl Custom {
    fn address(&self) -> usize {
        Arc::as_ptr(&self.0).cast::<()>().addr()
    }
}
impl PartialEq for Custom {
    fn eq(&self, other: &Custom) -> bool {
        self.address() == other.address()
    }
}
impl Hash for Custom {
    fn hash<H: Hasher>(&self, h: &mut H) {
        self.address().hash(h);
    }
}
impl fmt::Debug for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name())
    }
}
