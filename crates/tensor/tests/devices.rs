//! What is made in a `device` scope is computed on its device, wherever it is looked at.

use cpu as _;
use ir::{Buffer, FlatNode, Graph, Result, Type};
use runtime::{Device, Program};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use talweg_tensor::{DType, Session, Tensor, Variable, device, jit, placeholder};

/// The CPU under other names, which counts the programs it runs.
struct Twin(&'static str, &'static AtomicUsize);
struct Counted(Arc<dyn Program>, &'static AtomicUsize);

static RUNS: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];

impl Device for Twin {
    fn name(&self) -> &str {
        self.0
    }
    fn claims(&self, node: &FlatNode, types: &[Type]) -> bool {
        cpu::Cpu::new().claims(node, types)
    }
    fn compile(&self, graph: Graph) -> Result<Arc<dyn Program>> {
        Ok(Arc::new(Counted(cpu::Cpu::new().compile(graph)?, self.1)))
    }
}
impl Program for Counted {
    fn run(&self, inputs: &mut [Buffer]) -> Result<Vec<Buffer>> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.run(inputs)
    }
    fn explain(&self) -> String {
        self.0.explain()
    }
}
inventory::submit! {
    runtime::Backend { kind: "twin", count: || 2, open: |n| Ok(Arc::new(Twin(["twin:0", "twin:1"][n], &RUNS[n]))), offline: None }
}

/// How many programs each twin runs while `f` does.
fn runs(f: impl FnOnce()) -> [usize; 2] {
    let count = || RUNS.each_ref().map(|r| r.load(Ordering::Relaxed));
    let before = count();
    f();
    let after = count();
    [after[0] - before[0], after[1] - before[1]]
}

fn one(t: &Tensor) -> f32 {
    t.sum(..).item().unwrap()
}

/// One test, as runs are counted for the whole process.
#[test]
fn a_lazy_value_is_computed_on_the_device_of_its_scope() {
    let x = Tensor::from([1.0f32, 2.0]);
    let y = device("twin:0", || &x * 3.0).unwrap();
    assert_eq!(runs(|| assert_eq!(one(&(&y + 1.0)), 11.0)), [1, 0], "with what is computed from it outside");
    let y = device("twin:0", || &x * 3.0).unwrap();
    assert_eq!(runs(|| device("cpu", || assert_eq!(one(&y), 9.0)).unwrap()), [1, 0], "not where it is looked at");
    assert_eq!(runs(|| assert_eq!(one(&(&x * 3.0)), 9.0)), [0, 0]);

    // Values of several scopes in one graph, and beside each other.
    let a = device("twin:0", || &x * 2.0).unwrap();
    let b = device("twin:1", || &a + 1.0).unwrap();
    let c = device("twin:0", || &b * &a).unwrap();
    assert_eq!(runs(|| assert_eq!(one(&c), 6.0 + 20.0)), [2, 1]);
    let w = Variable::new("w", Tensor::from([1.0f32])).unwrap();
    device("twin:1", || w.assign(&(w.tensor() + 1.0))).unwrap().unwrap();
    let y = device("twin:0", || &x + 5.0).unwrap();
    assert_eq!(runs(|| assert_eq!(one(&y), 13.0)), [1, 1], "the pending assignment on its own device");

    // Graphs and traced functions run where they were made.
    let p = placeholder("p", [2], DType::F32);
    let y = device("twin:1", || &p * 2.0).unwrap();
    let session = Session::new();
    assert_eq!(runs(|| drop(session.run(&[&y], &[(&p, &x)]).unwrap())), [0, 1]);
    let f = jit(|a: &[Tensor]| Ok(vec![&a[0] * 2.0]));
    let call = || drop(f.call(&[&x]).unwrap());
    assert_eq!(runs(call), [0, 0]);
    assert_eq!(runs(|| device("twin:0", call).unwrap()), [1, 0]);
    assert_eq!(runs(call), [0, 0]);
    assert_eq!(f.traces(), 2);
}
