//! Training in floats of 16 and 8 bits: f32 weights under `autocast`, 16-bit weights with f32 masters, and
//! scaled losses.

use cpu as _;
use talweg_nn::optim::{Adam, LossScale, Optimizer, Sgd};
use talweg_nn::{Layer, Linear, Module};
use tensor::{DType, Result, Tensor, Variable, autocast, jit};

/// Points and which side of a curve they are on.
fn problem() -> (Tensor, Tensor) {
    let points: Vec<[f32; 2]> = (0..64).map(|i| [(i % 8) as f32 / 4.0 - 0.875, (i / 8) as f32 / 4.0 - 0.875]).collect();
    let sides: Vec<i64> = points.iter().map(|[x, y]| i64::from(y > &(x * x - 0.3))).collect();
    (Tensor::from(points), Tensor::from(sides))
}

/// Losses of training a small perceptron.
fn losses(dtype: DType, scale: Option<&LossScale>) -> Result<Vec<f32>> {
    tensor::manual_seed(3);
    let (a, b) = (Linear::new(2, 16)?, Linear::new(16, 2)?);
    let params = [a.parameters(), b.parameters()].concat();
    let optimizer = Optimizer::new(Adam { lr: 0.02, ..Adam::default() }, params.as_slice())?;
    let (x, y) = problem();
    let step = jit(|t: &[Tensor]| {
        let loss = autocast(dtype, || b.forward(&a.forward(&t[0]).tanh()).cross_entropy(&t[1]))?;
        match scale {
            Some(s) => {
                s.scaled(&loss).backward()?;
                s.step(&optimizer)?;
            }
            None => {
                loss.backward()?;
                optimizer.step()?;
            }
        }
        Ok(vec![loss])
    });
    let losses = (0..80).map(|_| step.call(&[&x, &y])?[0].item()).collect();
    assert!(params.iter().all(|p| p.dtype() == DType::F32));
    losses
}

#[test]
fn sixteen_bits_follow_f32() {
    let wide = losses(DType::F32, None).unwrap();
    assert!(wide[79] < 0.3 * wide[0], "{} to {}", wide[0], wide[79]);
    let scale = LossScale::with(1024.0, 2000).unwrap();
    for (dtype, scale) in [(DType::BF16, None), (DType::F16, Some(&scale))] {
        let narrow = losses(dtype, scale).unwrap();
        for (a, b) in wide.iter().zip(&narrow) {
            assert!((a - b).abs() < 0.05 * wide[0], "{dtype}: {b} instead of {a}");
        }
    }
    assert_eq!(scale.factor().unwrap(), 1024.0);
}

/// Losses of training a perceptron of even sizes, and the ops of its first layer.
fn wide_losses(dtype: DType) -> Result<(Vec<f32>, String)> {
    tensor::manual_seed(5);
    let (a, b, c) = (Linear::new(16, 64)?, Linear::new(64, 32)?, Linear::new(32, 2)?);
    let params = [a.parameters(), b.parameters(), c.parameters()].concat();
    let optimizer = Optimizer::new(Adam { lr: 0.01, ..Adam::default() }, params.as_slice())?;
    let (x, y) = problem();
    // The two coordinates and what they make with each other, to the width of the layer.
    let x = x.matmul(&Tensor::randn([2, 16])).sin();
    let step = jit(|t: &[Tensor]| {
        let loss = autocast(dtype, || {
            let h = b.forward(&a.forward(&t[0]).relu()).relu();
            c.forward(&h).cross_entropy(&t[1])
        })?;
        loss.backward()?;
        optimizer.step()?;
        Ok(vec![loss])
    });
    let losses = (0..120).map(|_| step.call(&[&x, &y])?[0].item()).collect::<Result<Vec<f32>>>()?;
    let first = autocast(dtype, || a.forward(&x))?;
    Ok((losses, first.value()?.node().op().map_or("", |op| op.name).to_string()))
}

#[test]
fn eight_bits_train_as_far_as_bf16() {
    let (wide, op) = wide_losses(DType::BF16).unwrap();
    assert_eq!(op, "linear");
    let (narrow, op) = wide_losses(DType::F8E4M3).unwrap();
    assert_eq!(op, "float8_linear");
    let end = |l: &[f32]| l[110..].iter().sum::<f32>() / 10.0;
    assert!(end(&wide) < 0.3 * wide[0], "{} to {}", wide[0], end(&wide));
    assert!((end(&wide) - end(&narrow)).abs() < 0.03 * wide[0], "{} instead of {}", end(&narrow), end(&wide));
}

#[test]
fn steps_that_overflow_are_left_out() {
    let w = Variable::new("w", Tensor::from([1.0f32])).unwrap();
    let optimizer = Optimizer::new(Sgd { lr: 1.0, ..Sgd::default() }, [w.clone()].as_slice()).unwrap();
    let scale = LossScale::with(f32::MAX, 2).unwrap();
    let step = |x: f32| {
        scale.scaled(&(&w.tensor() * x).sum(..)).backward().unwrap();
        scale.step(&optimizer).unwrap();
        w.tensor().item::<f32>().unwrap()
    };
    assert_eq!(step(16.0), 1.0, "the gradient was infinite");
    assert_eq!(scale.factor().unwrap(), f32::MAX / 2.0);
    assert_eq!(step(0.25), 0.75);
    assert_eq!(step(0.25), 0.5);
    assert_eq!(scale.factor().unwrap(), f32::MAX, "two good steps in a row");
    assert!(LossScale::with(0.0, 1).is_err());
}

#[test]
fn small_steps_reach_16_bit_weights() {
    let w = Variable::new("w", Tensor::from([1.0f32]).cast(DType::BF16)).unwrap();
    let optimizer = Optimizer::new(Sgd { lr: 1.0, ..Sgd::default() }, [w.clone()].as_slice()).unwrap();
    let step = || {
        (&w.tensor() * 0.001).sum(..).backward().unwrap();
        optimizer.step().unwrap();
        w.tensor().cast(DType::F32).item::<f32>().unwrap()
    };
    for _ in 0..9 {
        step();
    }
    // Each step alone is less than half the distance to the next bf16.
    assert_eq!(step(), 0.988_281_25);
    // A value that was set in between counts.
    w.assign(&Tensor::from([2.0f32]).cast(DType::BF16)).unwrap();
    assert_eq!(step(), 2.0);
    assert!(optimizer.state().iter().any(|(n, v)| n == "w.master" && v.dtype() == DType::F32));
}
