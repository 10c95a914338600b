//! Plans of random graphs and their gradients: no value is overwritten while it is needed, and none is
//! written that has no memory. A debug build checks that of every plan it makes.

use passes::Watch;
use talweg_cuda::lower::Lowered;
use talweg_cuda::target::Gpu;
use testkit::random::{random_graph, with_gradients};

const SEEDS: u64 = 150;

#[test]
fn plans_of_random_graphs_keep_values_apart() {
    for seed in 0..SEEDS {
        let s = with_gradients(&random_graph(seed)).unwrap();
        let g = passes::optimize(&s.graph, &|_, _| false, &runtime::reference::run_node).unwrap();
        for is_there in [false, true] {
            let gpu = Gpu { capability: (9, 0), supports: &|_| is_there, is_faster: &|_| is_there, has_fft: true };
            Lowered::new(g.clone(), gpu, &mut Watch::none()).unwrap_or_else(|e| panic!("seed {seed}: {e}\n{s}"));
        }
    }
}
