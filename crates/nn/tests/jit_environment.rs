//! A jitted function is traced again when what it read from its environment has changed.

use cpu as _;
use talweg_nn::{BatchNorm, Dropout, Layer, Module};
use tensor::{DType, Result, Tensor, Variable, autocast, jit, no_grad};

fn floats(t: &Tensor) -> Vec<f32> {
    t.to_vec().unwrap()
}

#[test]
fn dropout_follows_the_mode_whichever_came_first() {
    for first in [true, false] {
        let layer = Dropout::new(0.5);
        let f = jit(|a: &[Tensor]| Ok(vec![layer.forward(&a[0])]));
        let x = Tensor::ones([1000]);
        for (turn, training) in [first, !first, first, !first, !first].into_iter().enumerate() {
            layer.train(training);
            let y = floats(&f.call(&[&x]).unwrap()[0]);
            let zeros = y.iter().filter(|v| **v == 0.0).count();
            assert_eq!(training, (300..700).contains(&zeros), "turn {turn}: {zeros} zeros");
            assert!(training || zeros == 0);
        }
        assert_eq!(f.traces(), 2, "both are kept");
    }
}

#[test]
fn batch_norm_moves_its_averages_in_training_only() {
    let layer = BatchNorm::new(1).unwrap();
    let f = jit(|a: &[Tensor]| Ok(vec![layer.forward(&a[0])]));
    let x = Tensor::new([4, 1], &[1.0f32, 2.0, 3.0, 4.0]);
    let mean = |y: &Tensor| floats(y).iter().sum::<f32>() / 4.0;
    assert!(mean(&f.call(&[&x]).unwrap()[0]).abs() < 1e-5);
    let after = floats(&layer.running_mean.tensor());
    assert!((after[0] - 0.25).abs() < 1e-6);
    layer.train(false);
    for _ in 0..3 {
        assert!(mean(&f.call(&[&x]).unwrap()[0]) > 1.0, "normalized by the running averages");
        assert_eq!(floats(&layer.running_mean.tensor()), after);
    }
    layer.train(true);
    f.call(&[&x]).unwrap();
    assert!(floats(&layer.running_mean.tensor())[0] > after[0]);
}

#[test]
fn a_mode_that_the_function_sets_itself_is_no_dependency() {
    let layer = Dropout::new(0.5);
    let f = jit(|a: &[Tensor]| {
        layer.train(false);
        let y = layer.forward(&a[0]);
        layer.train(true);
        Ok(vec![y])
    });
    for training in [true, false, true] {
        layer.train(training);
        assert_eq!(floats(&f.call(&[&Tensor::ones([8])]).unwrap()[0]), [1.0; 8]);
    }
    assert_eq!(f.traces(), 1);
}

#[test]
fn scopes_around_the_call_count() {
    let w = Variable::new("w", Tensor::ones([2, 2])).unwrap();
    let f = jit(|a: &[Tensor]| Ok(vec![a[0].matmul(&w.tensor())]));
    let x = Tensor::ones([2, 2]);
    let call = || f.call(&[&x]).unwrap()[0].dtype().unwrap();
    assert_eq!(call(), DType::F32);
    assert_eq!(autocast(DType::BF16, call).unwrap(), DType::BF16);
    assert_eq!((call(), f.traces()), (DType::F32, 2));
    no_grad(call);
    assert_eq!(f.traces(), 3);
    let slope = jit(|_: &[Tensor]| {
        let y = w.tensor().sum(..);
        Ok(vec![Tensor::from(if y.value()?.node().needs_grad() { 1.0f32 } else { 0.0 })])
    });
    let needs_grad = || slope.call(&[]).unwrap()[0].item::<f32>().unwrap();
    w.set_trainable(false);
    assert_eq!(needs_grad(), 0.0);
    w.set_trainable(true);
    assert_eq!((needs_grad(), slope.traces()), (1.0, 2), "a variable that is trained again");
}

#[test]
fn gradients_from_before_the_call_are_used_once() {
    let w = Variable::new("w", Tensor::from([1.0f32])).unwrap();
    let step = jit(|_: &[Tensor]| {
        (&w.tensor() * 3.0).sum(..).backward()?;
        let g = w.grad().unwrap();
        w.zero_grad();
        Ok(vec![g])
    });
    let call = || -> Result<f32> { step.call(&[])?[0].item() };
    assert_eq!(call().unwrap(), 3.0);
    (&w.tensor() * 10.0).sum(..).backward().unwrap();
    assert_eq!(call().unwrap(), 13.0, "as imperative code would");
    assert_eq!(call().unwrap(), 3.0);
}
