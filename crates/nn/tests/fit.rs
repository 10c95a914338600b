//! Both ways to train take the same steps, bit for bit.

use cpu as _;
use data::{Digits, Loader};
use talweg_nn::optim::{Adam, Optimizer};
use talweg_nn::schedule::OneCycle;
use talweg_nn::train::{Outcome, Trainer};
use talweg_nn::{Columns, Dropout, Layer, Linear, Module, Relu, Sequential};
use tensor::{DType, Result, Tensor, manual_seed};

/// Trains a small model; returns the losses' end and all weights.
fn trained(fit: impl Fn(&mut Trainer, &Sequential) -> Result<Outcome>) -> (Option<f64>, Vec<Vec<f32>>) {
    manual_seed(3);
    let model = Sequential::new()
        .with(Linear::new(784, 16).unwrap())
        .with(Relu)
        .with(Dropout::new(0.3))
        .with(Linear::new(16, 10).unwrap());
    let optimizer = Optimizer::new(Adam::default(), &model).unwrap();
    // 5 batches in an epoch, the last of them smaller.
    let mut batches = Loader::builder(Digits::new(0, 150)).batch(32).shuffle(1).build().unwrap();
    let mut trainer =
        Trainer::new(&model, &optimizer, &mut batches).epochs(2).schedule(OneCycle::new(0.01, 10)).clip_norm(0.5);
    let outcome = fit(&mut trainer, &model).unwrap();
    (outcome.loss, model.parameters().iter().map(|v| v.tensor().to_vec().unwrap()).collect())
}

fn loss(model: &Sequential, image: &Tensor, label: &Tensor) -> Tensor {
    model.forward(&(image.cast(DType::F32).flatten(1, -1) / 255.0)).cross_entropy(label)
}

#[test]
fn a_traced_step_is_the_same_step() {
    let fit = trained(|t, model| t.fit(|batch| Ok(loss(model, &batch.column("image")?, &batch.column("label")?))));
    let jit = trained(|t, model| t.fit_jit(&["image", "label"], |b| Ok(loss(model, &b[0], &b[1]))));
    assert!(fit.0.unwrap() < 2.3, "it does not learn: {:?}", fit.0);
    assert_eq!(fit, jit);
}

#[test]
fn no_element_moves_further_than_clipping_lets_it() {
    let model = Linear::new(784, 10).unwrap();
    let before: Vec<f32> = model.weight.tensor().to_vec().unwrap();
    let optimizer = Optimizer::new(talweg_nn::optim::Sgd { lr: 1.0, ..Default::default() }, &model).unwrap();
    let mut batches = Loader::builder(Digits::new(0, 8)).batch(8).build().unwrap();
    let mut trainer = Trainer::new(&model, &optimizer, &mut batches).clip_value(1e-3);
    let pixels = |b: &Tensor| b.cast(DType::F32).flatten(1, -1) / 255.0;
    let fit = |b: &[Tensor]| Ok(model.forward(&pixels(&b[0])).cross_entropy(&b[1]));
    trainer.fit_jit(&["image", "label"], fit).unwrap();
    let after: Vec<f32> = model.weight.tensor().to_vec().unwrap();
    let far = before.iter().zip(&after).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!((far - 1e-3).abs() < 1e-6, "{far}");
}

#[test]
fn a_missing_column_is_named() {
    let model = Linear::new(784, 10).unwrap();
    let optimizer = Optimizer::new(Adam::default(), &model).unwrap();
    let mut batches = Loader::builder(Digits::new(0, 8)).batch(8).build().unwrap();
    let mut trainer = Trainer::new(&model, &optimizer, &mut batches);
    let e = trainer.fit_jit(&["picture"], |b| Ok(b[0].clone())).unwrap_err().to_string();
    assert!(e.contains("picture"), "{e}");
}
