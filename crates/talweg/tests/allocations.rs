//! A jitted step allocates nothing but its results once it has warmed up. A test file of its own,
//! as it counts what the whole process allocates.

use talweg::prelude::*;
use testkit::allocations::{Counting, cost};

#[global_allocator]
static COUNTING: Counting = Counting;

/// Allocations and bytes of a step of a perceptron with these layers, after some steps.
fn step_costs(sizes: &[usize]) -> (usize, usize) {
    let mut model = Sequential::new();
    for w in sizes.windows(2) {
        model = model.with(Linear::new(w[0], w[1]).unwrap()).with(talweg::nn::Tanh);
    }
    let optimizer = Optimizer::new(Adam::default(), &model).unwrap();
    let step = jit(|a: &[Tensor]| {
        let loss = (model.forward(&a[0]) - &a[1]).square().mean(..);
        loss.backward()?;
        optimizer.step()?;
        Ok(vec![loss])
    });
    let (x, y) = (Tensor::ones([16, sizes[0]]), Tensor::zeros([16, *sizes.last().unwrap()]));
    Tensor::eval_all(&[&x, &y]).unwrap();
    for _ in 0..10 {
        step.call(&[&x, &y]).unwrap();
    }
    const STEPS: usize = 20;
    let all = cost(|| (0..STEPS).for_each(|_| drop(step.call(&[&x, &y]).unwrap())));
    (all.calls.div_ceil(STEPS), all.bytes.div_ceil(STEPS))
}

#[test]
fn a_step_allocates_its_results_only() {
    let small = step_costs(&[8, 8, 4]);
    let large = step_costs(&[64, 300, 300, 300, 200, 10]);
    // One loss: its memory, its node, and the lists they are handed over in.
    assert!(small.0 <= 12 && small.1 <= 4000, "{small:?} allocations and bytes");
    // Neither the number of variables nor their size shows; the `gemm` crate takes a workspace for
    // some of the fourteen products.
    assert!(large.0 <= small.0 + 14, "{large:?} allocations and bytes instead of {small:?}");
}
