//! What a device is to the rest of the system: it claims ops, compiles graphs and runs them.

use ir::{Buffer, FlatNode, Graph, Result, Type};
use std::sync::Arc;

/// A place to run graphs.
pub trait Device: Send + Sync {
    /// Its name: `cpu`, `cuda:0`.
    fn name(&self) -> &str;
    /// Whether it runs this composite itself, faster than the ops it consists of.
    fn claims(&self, node: &FlatNode, types: &[Type]) -> bool;
    /// Compiles a graph that holds only primitive ops and claimed composites.
    fn compile(&self, graph: Graph) -> Result<Arc<dyn Program>>;
    /// A value in this device's memory. Programs take values from anywhere; one that is used many
    /// times should not be copied each time.
    fn place(&self, value: &Buffer) -> Result<Buffer> {
        Ok(Buffer::Host(value.read()?))
    }
    /// Waits until everything that was asked of the device is done, and reports what failed.
    fn synchronize(&self) -> Result<()> {
        Ok(())
    }
}

/// A compiled graph.
pub trait Program: Send + Sync {
    /// Runs it. A result may take over the memory of an input that nobody else holds; nothing is
    /// left of that input then. If the run fails, all inputs are as they were.
    fn run(&self, inputs: &mut [Buffer]) -> Result<Vec<Buffer>>;
    /// What it consists of, for people.
    fn explain(&self) -> String;
}
