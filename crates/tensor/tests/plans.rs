//! Plans are made once for each structure, also where a host number changes from step to step. A
//! test file of its own, as it counts what the whole process compiles.

use cpu as _;
use talweg_tensor::{Tensor, engine};

#[test]
fn a_changing_number_does_not_compile_a_plan_each_step() {
    let x = Tensor::from([1.0f32, 2.0]);
    let step = |rate: f64| ((&x * rate) + 1.0).to_vec::<f32>().unwrap();
    step(0.5);
    step(0.25);
    let before = engine().compiled();
    for i in 0..100 {
        let rate = 1.0 / (i + 3) as f64;
        let want: Vec<f32> = [1.0f32, 2.0].iter().map(|v| v * rate as f32 + 1.0).collect();
        assert_eq!(step(rate), want);
    }
    assert_eq!(engine().compiled(), before);
}

#[test]
fn the_linked_device_runs_the_tensors() {
    assert_eq!(engine().device().name(), "cpu");
}
