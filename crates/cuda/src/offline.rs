//! A GPU that is not there: plans, lowers and explains programs, and cannot run them.

use crate::lower::Lowered;
use crate::target::{Gpu, claims};
use ir::{Buffer, Error, ErrorKind, FlatNode, Graph, Result, Type};
use passes::Watch;
use runtime::{Device, Program};
use std::sync::Arc;

/// The compute capability that is assumed.
const CAPABILITY: (u32, u32) = (9, 0);

/// The device.
pub struct Offline;

impl Device for Offline {
    fn name(&self) -> &str {
        "cuda, without a GPU"
    }
    fn claims(&self, n: &FlatNode, types: &[Type]) -> bool {
        claims(n, types, CAPABILITY, &|_| true)
    }
    fn compile(&self, graph: Graph) -> Result<Arc<dyn Program>> {
        self.compile_watched(graph, &mut Watch::none())
    }
    fn compile_watched(&self, graph: Graph, watch: &mut Watch) -> Result<Arc<dyn Program>> {
        let gpu = Gpu { capability: CAPABILITY, supports: &|_| true, is_faster: &|_| true, has_fft: true };
        Ok(Arc::new(Planned(Lowered::new(graph, gpu, watch)?)))
    }
}

struct Planned(Lowered);

impl Program for Planned {
    fn run(&self, _: &mut [Buffer]) -> Result<Vec<Buffer>> {
        Err(Error::new(ErrorKind::Device, "the program was planned without a GPU and cannot run"))
    }
    fn work(&self) -> Option<runtime::Work> {
        Some(runtime::work(&self.0.plan))
    }
    fn sources(&self) -> String {
        self.0.sources()
    }
    fn explain(&self) -> String {
        self.0.explain()
            + "planned without a GPU: for compute capability 9.0, as if cuDNN had an engine for every network and every \
               epilogue paid; with a GPU, both are measured\n"
    }
}
