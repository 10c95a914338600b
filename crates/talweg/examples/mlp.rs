//! A multilayer perceptron on Fashion-MNIST: 784-256-128-10.
//!
//! ```text
//! apt install dataset-fashion-mnist    # or put its files into a folder that TALWEG_DATA names
//! cargo run --release -p talweg --example mlp
//! ```
//! After 12 epochs, 9 s on two cores, it classifies **89.4 %** of the 10,000 test images correctly
//! (published for 256-128-100: 88.33 %). Without Fashion-MNIST it uses the built-in digits.

use talweg::data::fashion::{self, Part};
use talweg::data::{self, Digits};
use talweg::nn::metrics::Accuracy;
use talweg::nn::schedule::OneCycle;
use talweg::nn::train::Metrics;
use talweg::{Bar, prelude::*};

#[derive(Module)]
struct Mlp {
    fc1: Linear,
    fc2: Linear,
    fc3: Linear,
    dropout: Dropout,
}

impl Mlp {
    fn new() -> Result<Mlp> {
        Ok(Mlp {
            fc1: Linear::new(784, 256)?,
            fc2: Linear::new(256, 128)?,
            fc3: Linear::new(128, 10)?,
            dropout: Dropout::new(0.2),
        })
    }
    /// Images `u8[N, 28, 28]` to the scores of ten classes.
    fn forward(&self, images: &Tensor) -> Tensor {
        let x = images.cast(DType::F32).flatten(1, -1) / 255.0;
        let x = self.dropout.forward(&self.fc1.forward(&x).relu());
        let x = self.dropout.forward(&self.fc2.forward(&x).relu());
        self.fc3.forward(&x)
    }
}

fn main() -> Result<()> {
    manual_seed(0);
    let is_quick = std::env::var("TALWEG_QUICK").is_ok();
    let (epochs, count) = if is_quick { (1, 1_000) } else { (12, usize::MAX) };
    let [train, test] = images()?;
    let mut train = Loader::builder(train.take(count)).batch(128).shuffle(0).drop_last(true).workers(1).build()?;
    let mut test = Loader::builder(test.take(count)).batch(1_000).build()?;

    let model = Mlp::new()?;
    let optimizer = Optimizer::new(AdamW::default(), &model)?;
    let schedule = OneCycle::new(3e-3, epochs * train.batches());
    println!("{} parameters, {} images, {epochs} epochs", model.parameter_count(), train.samples());
    Trainer::new(&model, &optimizer, &mut train)
        .epochs(epochs)
        .schedule(schedule)
        .evaluate(Every::Epoch, || accuracy(&model, &mut test))
        .report(Bar::new())
        .fit_jit(&["image", "label"], |batch| Ok(model.forward(&batch[0]).cross_entropy(&batch[1])))?;
    Ok(())
}

/// Portion of the images that are told right.
fn accuracy(model: &Mlp, test: &mut Loader) -> Result<Metrics> {
    let mut accuracy = Accuracy::default();
    for batch in test {
        let batch = batch?;
        accuracy.update(&model.forward(&batch.column("image")?), &batch.column("label")?)?;
    }
    Ok(vec![("accuracy".into(), accuracy.value())])
}

/// Fashion-MNIST to train and to test with; or the built-in digits, which look the same from outside.
fn images() -> Result<[Box<dyn Dataset>; 2]> {
    match (fashion::load(Part::Train), fashion::load(Part::Test)) {
        (Ok(train), Ok(test)) => Ok([Box::new(train), Box::new(test)]),
        (Err(missing @ data::Error::Missing { .. }), _) => {
            println!("{missing}\nThis run learns them instead.\n");
            // Another seed: none of the test digits was trained on.
            Ok([Box::new(Digits::new(0, 20_000)), Box::new(Digits::new(1, 2_000))])
        }
        (Err(broken), _) | (_, Err(broken)) => Err(broken.into()),
    }
}
